"""Invariants of closures beside their ends: what an error does to the others."""

from __future__ import annotations

from collections.abc import Iterator

from simdist.chaos.evidence import Evidence, Invariant
from simdist.trace.records import Instant, task_of

__all__ = ["CLOSURES"]


def _cancelled_with_the_error(evidence: Evidence) -> Iterator[str]:
    """When a closure fails, each other worker may end what it has; all that waits is cancelled, and never runs."""
    run = evidence.run
    if run.silences.begun:  # an attempt that nobody hears of may go on beside another one
        return
    trace = run.cluster.trace
    scheduled_s = [note.time_s for note in run.stage.notes if note.what == "scheduled"]
    others = sum(task.startswith("worker") for task in run.cluster.tasks) - 1
    has_retries = len(trace.instants.where(category="retry")) > 0
    for error in trace.instants.where(category="error"):
        ran = _ran_after(evidence, error, sum(at_s < error.time_s for at_s in scheduled_s))
        closures, workers = {closure for closure, _ in ran}, [worker for _, worker in ran]
        wrong = len(closures) > others
        if not has_retries:
            wrong = wrong or task_of(error.lane) in workers or len(workers) > len(set(workers))
        if wrong:
            yield f"closures {sorted(closures)} ran on {sorted(set(workers))} after {error.name!r} at {error.time_s} s"


def _ran_after(evidence: Evidence, error: Instant, scheduled: int) -> list[tuple[int, str]]:
    """Closure and worker of each attempt that ended after an error, of the closures that had been scheduled before it."""
    spans = evidence.run.cluster.trace.spans.where(category="closure")
    found = [(int(span.facts["closure"]), task_of(span.lane)) for span in spans if span.end_s > error.time_s]
    return [(closure, worker) for closure, worker in found if closure < scheduled and closure != error.facts["closure"]]


CLOSURES = [
    Invariant("cancelled-with-the-error", "A closure that waits when another one fails is cancelled.", _cancelled_with_the_error),
]
