"""Shrinking: the smallest scenario that still breaks an invariant, by greedy search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from simdist.chaos.examining import examine
from simdist.chaos.invariants import COLLECTED
from simdist.chaos.kinds import KINDS
from simdist.chaos.scenarios import Chips, Disturbance, Scenario, Wires
from simdist.chaos.workloads import WORKLOADS

__all__ = ["breaks", "shrink", "smaller"]


def breaks(invariant: str) -> Callable[[Scenario], bool]:
    """Whether a scenario breaks this invariant."""
    return lambda scenario: any(finding.invariant == invariant for finding in examine(scenario, forgotten=invariant == COLLECTED))


def shrink(scenario: Scenario, fails: Callable[[Scenario], bool], limit_s: float = 20.0) -> Scenario:
    """A smaller scenario that fails too.

    Args:
        scenario: one that fails.
        fails: whether another one does; what cannot be run at all does not.
        limit_s: seconds of real time after which the search ends with what it has.

    Example:
        >>> big = Scenario("mains", {"naps": 5, "nap_s": 0.1}, workers=7)
        >>> small = shrink(big, lambda scenario: scenario.workers >= 2)
        >>> small.workers, small.options["naps"]
        (2, 1)
    """
    until = time.monotonic() + limit_s
    found: Scenario | None = scenario
    while found is not None:
        scenario, found = found, None
        for candidate in smaller(scenario):
            if time.monotonic() > until:
                return scenario
            if fails(candidate):
                found = candidate
                break
    return scenario


def smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios with less in them, the boldest first."""
    disturbances = scenario.disturbances
    for number in range(len(disturbances)):
        yield replace(scenario, disturbances=disturbances[:number] + disturbances[number + 1 :])
    for workers in dict.fromkeys((1, 2, 3, scenario.workers // 2, scenario.workers - 1)):
        if 0 < workers < scenario.workers:
            yield _with_tasks(replace(scenario, workers=workers))
    if scenario.servers > 1:
        yield _with_tasks(replace(scenario, servers=1))
    for options in WORKLOADS[scenario.workload].smaller(scenario):
        yield replace(scenario, options=options)
    if scenario.reads:
        yield replace(scenario, reads=())
    if scenario.chips != Chips():
        yield replace(scenario, chips=Chips())
    if scenario.wires != Wires():
        yield replace(scenario, wires=Wires())
    if scenario.has_numbers and not WORKLOADS[scenario.workload].needs_numbers:
        yield replace(scenario, numerics="off", reads=())
    for number, disturbance in enumerate(disturbances):
        for simpler in _simpler(disturbance):
            yield replace(scenario, disturbances=(*disturbances[:number], simpler, *disturbances[number + 1 :]))
    if scenario.seed:
        yield replace(scenario, seed=0)


def _with_tasks(scenario: Scenario) -> Scenario:
    """Without what befalls tasks that are not there any more."""
    there = {task for tasks in WORKLOADS[scenario.workload].roles(scenario).values() for task in tasks}
    left = [KINDS[d.kind].among(d, there) for d in scenario.disturbances]
    return replace(scenario, disturbances=tuple(d for d in left if d is not None))


def _simpler(disturbance: Disturbance) -> Iterator[Disturbance]:
    """With less in it, and moments and figures of fewer digits."""
    yield from KINDS[disturbance.kind].smaller(disturbance)
    if disturbance.at_s and float(f"{disturbance.at_s:.2g}") != disturbance.at_s:
        yield replace(disturbance, at_s=float(f"{disturbance.at_s:.2g}"))
    for name, value in disturbance.figures.items():
        if isinstance(value, float) and float(f"{value:.2g}") != value:
            yield replace(disturbance, figures={**disturbance.figures, name: float(f"{value:.2g}")})
