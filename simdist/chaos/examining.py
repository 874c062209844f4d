"""The examination of a scenario: the runs that it needs, and the invariants that it breaks."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import simdist as sd
from simdist.chaos.evidence import Evidence, Print
from simdist.chaos.invariants import COLLECTED, INVARIANTS
from simdist.chaos.runs import ScenarioRun, run
from simdist.chaos.scenarios import Scenario
from simdist.runtime.simulated.world import World

__all__ = ["Finding", "broken", "evidence_of", "examine", "still_there", "warm_up", "without_disturbances"]

PLANS = ("eager", "loop", "deferred")
MESSAGES = 3  # of one invariant and scenario; the others say the same


@dataclass(frozen=True)
class Finding:
    """An invariant that does not hold, and why not."""

    invariant: str
    message: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.message}"


def examine(scenario: Scenario, again: bool = True, forgotten: bool = True) -> list[Finding]:
    """The findings of a scenario.

    Args:
        scenario: which.
        again: whether it runs twice, to see that both runs are the same.
        forgotten: whether to see that its cluster is collected, which takes a tenth of a second.

    Example:
        >>> examine(Scenario("mains", {"naps": 2, "nap_s": 0.5}, workers=2))
        []
    """
    warm_up()
    with evidence_of(scenario, again=again) as evidence:
        findings, remembered = broken(evidence), weakref.ref(evidence.run.cluster.world)
    del evidence
    if not forgotten:
        return findings
    gc.collect()
    return [*findings, *still_there(remembered)]


def still_there(remembered: weakref.ref[World]) -> list[Finding]:
    """The finding for a cluster that has no reference any more and has not been collected."""
    message = "its cluster was closed and forgotten, and is still in memory"
    return [] if remembered() is None else [Finding(COLLECTED, message)]


def warm_up() -> None:
    """Trace a step: whatever is alive at the first one of a process is taken out of garbage collection for good."""
    if not _warm:
        _warm.append(True)
        sd.function(lambda: None)()


_warm: list[bool] = []


def broken(evidence: Evidence) -> list[Finding]:
    """The invariants that some evidence breaks."""
    return [
        Finding(name, message)
        for name, invariant in INVARIANTS.items()
        for message, _ in zip(invariant.broken(evidence), range(MESSAGES), strict=False)
    ]


@contextmanager
def evidence_of(scenario: Scenario, calm: ScenarioRun | None = None, again: bool = True) -> Iterator[Evidence]:
    """The runs of a scenario; they are closed when the block is left."""
    runs: list[ScenarioRun] = []

    def run_of(of: Scenario) -> ScenarioRun:
        runs.append(run(of))
        return runs[-1]

    try:
        undisturbed = calm if calm is not None else run_of(without_disturbances(scenario))
        evidence = Evidence(scenario, run_of(scenario), undisturbed)
        if scenario.has_numbers:
            evidence.plans = {plan: Print.of(run_of(other)) for plan, other in _by_other_plans(scenario).items()}
        elif again:
            evidence.again = Print.of(run_of(scenario))
        yield evidence
    finally:
        for one in runs:
            one.close()


def without_disturbances(scenario: Scenario) -> Scenario:
    """The scenario without disturbances and without reads."""
    return replace(scenario, disturbances=(), reads=())


def _by_other_plans(scenario: Scenario) -> dict[str, Scenario]:
    """The scenario by one other plan, without reads."""
    plan = next(plan for plan in PLANS[scenario.seed % 2 :] if plan != scenario.numerics)
    kept = tuple(d for d in scenario.disturbances if "look" not in d.figures)
    return {plan: replace(scenario, numerics=plan, reads=(), disturbances=kept)}
