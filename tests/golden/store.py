"""Store what the golden runs give now as what they have to give, and say which of them changed.

Use: ``python tests/golden/store.py [NAME ...]``; without names, all of them. Do so only where a change of a trace or of numbers is meant.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # in place of this folder

from tests.golden.children import measured  # noqa: E402
from tests.golden.stored import differences, read, write  # noqa: E402

__all__ = ["main"]


def main() -> int:
    """Measure in a process of its own, compare, write; 1 if a run failed, and then nothing is written."""
    names = sys.argv[1:]
    before = read()
    found = measured(ROOT, names)
    failed = {name: entry["error"] for name, entry in found.items() if "error" in entry}
    for name, error in failed.items():
        print(f"{name}: FAILED: {error}")
    if failed:
        return 1
    for name, entry in found.items():
        changed = differences(before[name], entry) if name in before else ["new"]
        if changed:
            print(f"{name}: {'; '.join(changed)}")
    kept = {name: entry for name, entry in before.items() if names and name not in found}
    for name in before.keys() - found.keys() - kept.keys():
        print(f"{name}: gone")
    write({**kept, **found})
    print(f"{len(found)} runs measured, {len(kept)} kept.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
