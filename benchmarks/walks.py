"""How many calls of our own functions a step takes, through how many files, and how often it comes back to a package that it left.

A *call* is a "call" event of `sys.setprofile` in a file of ``simdist/``: functions, methods, properties and lambdas count; a
generator counts again at each resumption; a comprehension counts where Python makes a frame for it (before 3.12), as a generator
expression always does. Builtins, methods that are generated (a dataclass' ``__init__``), other libraries and the step's own code do
not count, but are looked through: our function that JAX calls is called by our function that called JAX. *There and back* counts
the calls from package B into package A that began as a call from A into B; packages are the folders of ``simdist/``, and the modules
beside them are one more.

Three walks: a closure of one step on 3 workers and 2 parameter servers (a window of closures over their number, so the coordinator's
schedule and its part of the join are in it); a mirrored step of two replicas, with an all-reduce of the gradients; and a worker's
crash in the middle of its closure, from the crash's virtual second to the instant "retry" in the trace. All are steady: what is
traced, linked and planned once was so before. No internal function is named here, so the counts go on through renames.

Run: ``python -m simdist bench walks``, or this file with ``--list`` (each function, the most frequent first), ``--tree`` (the calls
of one step, indented, for reading) or ``--json``, and with the first letters of the walks that are wanted.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from _workloads import linear_step
from async_workers import Simulation, simulation

import simdist as sd

HOME = Path(sd.__file__).resolve().parent
WORKERS = 3


class Place(NamedTuple):
    """Where a function of ours is defined."""

    file: str
    function: str

    @property
    def package(self) -> str:
        """The folder of ``simdist/`` that it lies in."""
        return self.file.split("/")[0] if "/" in self.file else "simdist"


class Walk:
    """The calls of our functions while it is open, in their order: for each, the functions of ours on the stack, innermost first.

    The stack of a fiber ends where the fiber began; `fibers` tells them apart, call by call.

    Args:
        among: whether a call counts, asked at each; None: all do.
    """

    def __init__(self, among: Callable[[], bool] | None = None) -> None:
        self.calls: list[tuple[Place, ...]] = []
        self.fibers: list[int] = []
        self._among = among
        self._places: dict[CodeType, Place | None] = {}

    def __enter__(self) -> Walk:
        gc.collect()
        gc.disable()  # what it frees could be noticed by functions of ours, at any moment
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and self._place(frame.f_code) is not None and (self._among is None or self._among()):
            self._note(frame)

    def _note(self, innermost: FrameType) -> None:
        places, frame, fiber = list[Place](), innermost, 0
        while frame is not None:
            place, fiber = self._place(frame.f_code), id(frame)
            if place is not None:
                places.append(place)
            frame = frame.f_back
        self.calls.append(tuple(places))
        self.fibers.append(fiber)

    def _place(self, code: CodeType) -> Place | None:
        if code not in self._places:
            path = Path(code.co_filename)
            inside = path.is_relative_to(HOME)
            self._places[code] = Place(path.relative_to(HOME).as_posix(), code.co_qualname) if inside else None
        return self._places[code]


# The event loop: the only function of ours that this file names.
LOOP = Place("simulation/kernel.py", "Clock._loop")


def comes_back(stack: tuple[Place, ...]) -> bool:
    """Whether the innermost call entered a package that was left for the one that it was called from."""
    if LOOP in stack[:-1]:
        # What happens in an event is no part of the call that waits for it, as it is none where fibers have stacks of their own.
        stack = stack[: stack.index(LOOP)]
    if len(stack) < 3 or stack[0].package == stack[1].package:
        return False
    packages = [package for package, _ in groupby(place.package for place in stack)]
    return len(packages) > 2 and packages[2] == packages[0]


class Counts(NamedTuple):
    """What a walk comes to, for each step."""

    calls: float
    files: int
    there_and_back: float
    functions: dict[str, float]


def counts(walk: Walk, steps: int) -> Counts:
    """Add a walk of so many steps up."""
    functions = Counter(f"{stack[0].file}:{stack[0].function}" for stack in walk.calls)
    return Counts(
        len(walk.calls) / steps,
        len({stack[0].file for stack in walk.calls}),
        sum(map(comes_back, walk.calls)) / steps,
        {name: number / steps for name, number in sorted(functions.items(), key=lambda item: (-item[1], item[0]))},
    )


def tree(walk: Walk) -> list[str]:
    """The calls, each below the one that it is called from; equal lines in a row are one, with their number.

    A line of dots is a switch to another fiber: its calls are indented by its own stack.
    """
    lines, least = list[str](), min((len(stack) for stack in walk.calls), default=0)
    for _, together in groupby(zip(walk.fibers, walk.calls, strict=True), key=lambda item: item[0]):
        lines += ["...."] if lines else []
        shown = (f"{'  ' * (len(stack) - least)}{stack[0].function}  ({stack[0].file})" for _, stack in together)
        lines += [
            f"{line}{f'  x {number}' if number > 1 else ''}" for line, number in ((line, len(list(same))) for line, same in groupby(shown))
        ]
    return lines


# -- the walks ----------------------------------------------------------------------------------------------------------------------


def run_closures(simulation: Simulation, closures: int) -> None:
    """Schedule so many closures of one step each, and wait for them."""
    for _ in range(closures):
        simulation.coordinator.schedule(simulation.step, args=(simulation.iterator,))
    simulation.coordinator.join()


def parameter_servers(numerics: str, steps: int) -> Walk:
    """Closures of one step each, after as many and a pass over the data."""
    servers = simulation("linear", WORKERS, numerics)
    run_closures(servers, steps + WORKERS * 20)
    with servers.cluster, Walk() as walk:
        run_closures(servers, steps)
    return walk


def mirrored(numerics: str, steps: int) -> Walk:
    """Steps of two replicas, called directly."""
    cluster = sd.Cluster({}, numerics=numerics)
    step, iterator, _ = linear_step(sd.MirroredStrategy(2, cluster=cluster))
    for _ in range(steps + 20):
        step(iterator)
    with cluster, Walk() as walk:
        for _ in range(steps):
            step(iterator)
    return walk


def crash(numerics: str, _: int) -> Walk:
    """A worker's crash in the middle of its only closure, until the closure is to be run again; nothing else happens then."""
    servers = simulation("linear", 1, numerics)
    run_closures(servers, 20)
    cluster, began_s = servers.cluster, servers.cluster.now
    run_closures(servers, 1)
    compute = cluster.trace.spans.where(lane="worker:0", category="compute")[-1]
    crash_s = cluster.now + (compute.start_s + compute.end_s) / 2 - began_s
    cluster.faults.crash("worker:0", at=crash_s, restart_after=1.0)

    def on_the_way() -> bool:
        return cluster.now >= crash_s and not cluster.trace.instants.where(category="retry")

    with cluster, Walk(on_the_way) as walk:
        run_closures(servers, 1)
    if not cluster.trace.instants.where(category="retry"):
        raise RuntimeError("The crash did not hit the closure: nothing was run again.")
    return walk


class Case(NamedTuple):
    """A walk, how it is measured, and how many steps it has when all are counted."""

    title: str
    measure: Callable[[str, int], Walk]
    numerics: str
    steps: int


CASES = {
    "servers": Case("a step on parameter servers, timing only", parameter_servers, "off", 120),
    "servers-numbers": Case("a step on parameter servers, with numbers", parameter_servers, "deferred", 120),
    "mirrored": Case("a mirrored step of two replicas, timing only", mirrored, "off", 20),
    "mirrored-numbers": Case("a mirrored step of two replicas, with numbers", mirrored, "deferred", 20),
    "crash": Case("a crash to its retry, timing only", crash, "off", 1),
    "crash-numbers": Case("a crash to its retry, with numbers", crash, "deferred", 1),
}


def measured(name: str, quick: bool = False) -> Counts:
    """The counts of one case; quickly: of few steps."""
    case = CASES[name]
    steps = min(case.steps, 6) if quick else case.steps
    return counts(case.measure(case.numerics, steps), steps)


def main(arguments: list[str] | None = None) -> int:
    """Print the table, the functions, the trees, or everything as JSON."""
    parser = argparse.ArgumentParser(description="Calls of our own functions in one steady step.")
    parser.add_argument("cases", nargs="*", metavar="case", help=f"first letters of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="a small sample: few steps, without numbers")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--list", action="store_true", help="the functions of a step, the most frequent first")
    shown.add_argument("--tree", action="store_true", help="the calls of one step, each below the one that it is called from")
    shown.add_argument("--json", action="store_true", help="everything as JSON")
    options = parser.parse_args(arguments)
    chosen = [name for name in CASES if name.startswith(tuple(options.cases or [""])) and not (options.quick and name.endswith("-numbers"))]
    if not chosen:
        parser.error(f"no walk begins with {' or '.join(options.cases)}; there are: {', '.join(CASES)}")
    if options.json:
        print(json.dumps({name: measured(name, options.quick)._asdict() for name in chosen}, indent=1))
        return 0
    for name in chosen if options.tree else []:
        print(f"{CASES[name].title}:", *tree(CASES[name].measure(CASES[name].numerics, 1)), sep="\n  ")
    if not options.tree:
        print_table(chosen, options.quick, options.list)
    return 0


def print_table(names: list[str], quick: bool, with_functions: bool) -> None:
    """One line for each walk, and below it its functions if they are wanted."""
    print(f"{'our own functions, each step':<46} {'calls':>8} {'files':>6} {'there and back':>15}")
    for name in names:
        count = measured(name, quick)
        print(f"{CASES[name].title:<46} {count.calls:>8.1f} {count.files:>6} {count.there_and_back:>15.1f}", flush=True)
        for function, number in count.functions.items() if with_functions else []:
            print(f"  {number:>8.2f}  {function}")


if __name__ == "__main__":
    sys.exit(main())
