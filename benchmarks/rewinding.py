"""How long a rewind takes in each lesson: to go back a session runs again, with the caches of this process filled.

Every cell of a lesson is run twice in one process, and the clusters that it makes are counted: the second time by their number is what
one run of that cell takes, widgets and checks of answers included. The slowest such cell is given, and set against its first time in the
same process. Sessions of a lesson are rewound as well, from where they stand to half of it.

Run: ``python -m simdist bench rewinding``, or this file with names of lessons.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

LESSONS = Path(__file__).resolve().parent.parent / "lessons"
MOST_S = 1.0


class Timed(NamedTuple):
    """What was measured in one lesson, in seconds."""

    name: str
    runs: int
    first_s: float
    again_s: float
    rewind_s: float | None


def cells(path: Path) -> list[str]:
    """The code of a lesson, cell by cell; what waits for a click is left out."""
    content = json.loads(path.read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in content["cells"] if cell["cell_type"] == "code"]
    return [source for source in sources if source.strip() and "await " not in source]


def run(source: str, names: dict[str, Any]) -> tuple[float, int]:
    """How long a cell takes, with what it prints thrown away, and how many clusters it makes."""
    from simdist import Cluster

    made, make = [0], Cluster.__init__

    def counted(self: Cluster, *given: Any, **options: Any) -> None:
        made[0] += 1
        make(self, *given, **options)

    Cluster.__init__ = counted
    began = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, "cell", "exec"), names)
    finally:
        Cluster.__init__ = make
    return time.perf_counter() - began, made[0]


def measure(path: Path) -> Timed:
    """Run a lesson, each cell twice; and rewind the sessions that it leaves."""
    from simdist import Session

    names: dict[str, Any] = {"__name__": "__main__"}
    slowest = Timed(path.stem, 1, 0.0, 0.0, None)
    for source in cells(path):
        first_s, _ = run(source, names)
        again_s, clusters = run(source, names)
        if clusters and again_s / clusters > slowest.again_s / slowest.runs:
            slowest = Timed(path.stem, clusters, first_s, again_s, None)
    rewinds: list[float] = []
    for session in [value for value in names.values() if isinstance(value, Session) and value.now > 0.0]:
        began = time.perf_counter()
        session.rewind(session.now / 2)
        rewinds.append(time.perf_counter() - began)
    return slowest._replace(rewind_s=max(rewinds, default=None))


def main(chosen: list[str]) -> int:
    """Print a table; returns the exit status, 1 if a rewind takes a second."""
    os.environ["SIMDIST_LESSONS_AUTOMATIC"] = "1"
    os.environ.setdefault("KERAS_BACKEND", "jax")
    sys.path[:0] = [str(LESSONS)]
    print(f"{'lesson':<22}{'slowest cell: runs':>20}{'first':>9}{'again':>9}{'ratio':>7}{'one run':>9}{'a rewind':>10}")
    slow = False
    for path in sorted(LESSONS.glob("*.ipynb")):
        if chosen and path.stem not in chosen:
            continue
        timed = measure(path)
        one_s = timed.again_s / timed.runs
        slow |= max(one_s, timed.rewind_s or 0.0) >= MOST_S
        rewound = "" if timed.rewind_s is None else f"{timed.rewind_s:.2f} s"
        times = f"{timed.first_s:>7.2f} s{timed.again_s:>7.2f} s{timed.again_s / timed.first_s:>7.2f}{one_s:>7.2f} s"
        print(f"{timed.name:<22}{timed.runs:>20}{times}{rewound:>10}", flush=True)
    return int(slow)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
