"""Compare golden runs, bit by bit, between the engine of another revision and that of this working tree.

Use: ``python tests/golden/compare.py --base REV [--only NAME ...]``. Both engines run what this folder has. The status is 1 if anything
differs. Unlike `digests.json` this compares exact bits, since both run on one machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # in place of this folder

from tests.golden.children import measured  # noqa: E402

__all__ = ["main"]


def main() -> int:
    """Print what differs; 1 if anything does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="REV", help="the revision to compare with")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these runs alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        revision = checked_out(options.base, Path(folder))
        before = measured(Path(folder), options.only)
    after = measured(ROOT, options.only)
    rows = [(name, words) for name in after if (words := differences(before[name], after[name]))]
    width = max((len(name) for name, _ in rows), default=0)
    for name, words in rows:
        print(f"{name:<{width}}  {'; '.join(words)}")
    print(f"{len(after) - len(rows)} of {len(after)} runs have the same trace and the same bits as at {revision}.")
    return 1 if rows else 0


def checked_out(revision: str, folder: Path) -> str:
    """Put the package of a revision into a folder; the revision's hash.

    An archive, not a second worktree: nothing of it stays in the repository, whatever ends this process.
    """
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--short", f"{revision}^{{commit}}"], capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"--base {revision} is no revision of this repository: {found.stderr.strip()}")
    archive = subprocess.run([*git, "archive", found.stdout.strip(), "simdist"], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return found.stdout.strip()


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """In words, what the two engines did differently."""
    if "error" in before or "error" in after:
        return [f"{side} failed: {entry['error']}" for side, entry in (("base", before), ("this", after)) if "error" in entry]
    # Not by their digests: the two engines may have different formats of them.
    words = [f"{key} {before[key]} -> {after[key]}" for key in ("records", "spans", "end_s") if before[key] != after[key]]
    if len(before["bits"]) != len(after["bits"]):
        return [*words, f"{len(before['bits'])} arrays -> {len(after['bits'])}"]
    devices = [device for device, pair in enumerate(zip(before["bits"], after["bits"], strict=True)) if pair[0] != pair[1]]
    return [*words, *(f"array {device}: {before['numbers'][device]} -> {after['numbers'][device]} in other bits" for device in devices)]


if __name__ == "__main__":
    sys.exit(main())
