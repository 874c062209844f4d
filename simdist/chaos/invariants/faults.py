"""Invariants of faults: each has its effect, for its time, whatever else happens."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.scenarios import Disturbance
from simdist.trace.records import task_of

__all__ = ["FAULTS"]


DEATHS = ("crash", "lose_host")


def _timed(evidence: Evidence, *kinds: str) -> list[Disturbance]:
    return [d for d in evidence.run.fired if d.kind in kinds and d.at_s is not None]


def _crash_takes_effect(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    crashes = _timed(evidence, *DEATHS)
    unknown = {d.task for d in run.fired if d.kind == "preempt" or (d.kind in DEATHS and d.at_s is None)}
    for crash in crashes:
        at_s, back_s = crash.at_s or 0.0, crash.figures["restart_after"]
        others = [other for other in crashes if other.task == crash.task and other is not crash]
        restarts_now = crash.task in unknown or any(other.figures["restart_after"] == 0.0 and other.at_s == at_s for other in others)
        if back_s != 0.0 and not restarts_now and run.processes.is_up(crash.task, at_s):
            yield f"{crash.task} is up right after its crash at {at_s} s"
        if back_s is None or crash.task in unknown or at_s + back_s >= run.quiet_s:
            continue
        later = any(at_s <= (other.at_s or 0.0) <= at_s + back_s for other in others)
        if not later and not run.processes.is_up(crash.task, at_s + back_s):
            yield f"{crash.task} is not up at {at_s + back_s} s, when its last crash was to be over"


def _factors_multiply(evidence: Evidence) -> Iterator[str]:
    """The time that a kernel takes is that of the undisturbed run, times the factors in force when it began."""
    run = evidence.run
    if (
        evidence.scenario.chips.jitter != "none"
        or not run.workload.same_costs
        or any(d.at_s is None for d in run.fired if d.kind == "slow")
    ):
        return
    calm: dict[tuple[str, str], set[float]] = {}
    for span in evidence.calm.cluster.trace.spans.where(category="compute"):
        calm.setdefault((span.lane, span.name), set()).add(float(f"{span.duration_s:.6g}"))
    slows = _timed(evidence, "slow")
    edges = [edge for d in slows for edge in (d.at_s, d.figures["until"]) if edge is not None]
    for span in run.cluster.trace.spans.where(category="compute"):
        known = calm.get((span.lane, span.name), set())
        if run.silences.stood_still(task_of(span.lane), span.start_s, span.end_s):
            continue
        if len(known) != 1 or any(abs(span.start_s - edge) < 1e-9 for edge in edges):
            continue
        factor = prod(d.figures["factor"] for d in slows if d.task == task_of(span.lane) and _in_force(d, span.start_s))
        expected = next(iter(known)) * factor
        if abs(span.duration_s - expected) > 1e-4 * expected + 1e-12:
            yield f"{span.name} on {span.lane} took {span.duration_s} s from {span.start_s} s on, expected {expected}: a factor of {factor}"


def _in_force(slow: Disturbance, time_s: float) -> bool:
    until = slow.figures["until"]
    return (slow.at_s or 0.0) <= time_s and (until is None or time_s < until)


FAULTS = [
    Invariant("crash-takes-effect", "A task is down after each crash until that crash's restart.", _crash_takes_effect),
    Invariant("factors-multiply", "Slow factors in force multiply, and each keeps its own end.", _factors_multiply),
]
