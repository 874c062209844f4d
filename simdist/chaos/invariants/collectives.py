"""Invariants of collectives: how long their bytes travel."""

from __future__ import annotations

from collections.abc import Iterator

from simdist.chaos.evidence import Evidence, Invariant
from simdist.chaos.runs import ScenarioRun
from simdist.collectives import ALL_REDUCE
from simdist.trace import Span

__all__ = ["COLLECTIVES"]

ROUNDING = 1e-6


def _last_as_their_closed_form(evidence: Evidence) -> Iterator[str]:
    """At least so long; in the undisturbed run, where no racks are between the tasks and no checkpoint travels meanwhile, exactly so long.

    Of a collective that was broken off, some ranks have spans, and nothing says how many there were.
    """
    for run in (evidence.run, evidence.calm):
        if run.processes.downs or run.silences.begun:
            continue
        is_calm = run is evidence.calm and not run.scenario.wires.tasks_per_rack
        checkpoints = list(run.cluster.trace.spans.where(category="checkpoint")) if is_calm else []
        for spans, expected_s in _all_reduces(run):
            start_s, end_s = spans[0].start_s, max(span.end_s for span in spans)
            lasted_s, tolerance_s = end_s - start_s, ROUNDING * max(expected_s, start_s * 1e-6)
            is_exact = is_calm and not any(saved.start_s < end_s and saved.end_s > start_s for saved in checkpoints)
            if lasted_s < expected_s - tolerance_s or (is_exact and lasted_s > expected_s + tolerance_s):
                yield f"{spans[0]} lasted {lasted_s} s among {len(spans)} ranks, without contention {expected_s} s"


def _all_reduces(run: ScenarioRun) -> Iterator[tuple[list[Span], float]]:
    """The spans of each all-reduce between machines, one for each rank, and the seconds that it takes on an idle network."""
    together: dict[tuple[float, str], list[Span]] = {}
    for span in run.cluster.trace.spans.where(category="collective"):
        together.setdefault((span.start_s, span.name), []).append(span)
    wires = run.scenario.wires
    for spans in together.values():
        facts = spans[0].facts
        if spans[0].name.startswith("all_reduce ") and not any("/" in span.lane for span in spans):
            algorithm = ALL_REDUCE[facts["algorithm"]]
            yield spans, algorithm.seconds(len(spans), facts["bytes"], wires.latency_s, wires.bandwidth)


COLLECTIVES = [
    Invariant("closed-forms", "A collective lasts at least as long as on an idle network.", _last_as_their_closed_form),
]
