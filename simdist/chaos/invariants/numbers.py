"""Invariants of numbers: every plan and every process computes the same, however often they are read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simdist.chaos.evidence import Evidence, Invariant, Print

__all__ = ["NUMBERS"]

SAME_RTOL = 1e-5  # float32, other orders of addition
PLAIN_RTOL = 2e-4  # float32 against float64


def _same(found: Print | None, expected: Print, where: str) -> Iterator[str]:
    if found is not None and found != expected:
        what = "digest" if found.digest != expected.digest else "bits"
        yield f"another {what} {where}: {found}, not {expected}"


def _same_digest(evidence: Evidence) -> Iterator[str]:
    if evidence.again is None and evidence.elsewhere is None:
        return
    own = Print.of(evidence.run)
    yield from _same(evidence.again, own, "when it runs again")
    yield from _same(evidence.elsewhere, own, "in another process")


def _same_bits_by_plan(evidence: Evidence) -> Iterator[str]:
    for plan, found in evidence.plans.items():
        yield from _same(found, Print.of(evidence.run), f"with numerics={plan!r} and without looks")


def _close(found: np.ndarray, expected: np.ndarray, rtol: float) -> bool:
    scale = float(np.max(np.abs(expected), initial=1.0))
    return found.shape == expected.shape and bool(np.all(np.abs(found - expected) <= rtol * scale))


def _difference(name: str, found: np.ndarray, expected: np.ndarray) -> str:
    return f"{name} = {np.ravel(found).tolist()}, expected {np.ravel(expected).tolist()}"


def _sync_equals_undisturbed(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    if not run.workload.same_result or not evidence.ended_well or evidence.calm.error is not None:
        return
    kept = set(run.workload.expected(run.scenario)) or set(run.stage.values)
    for name, value in run.stage.values.items():
        expected = evidence.calm.stage.values.get(name)
        if name in kept and expected is not None and not _close(value, expected, SAME_RTOL):
            yield _difference(name, value, expected)


def _equals_plain(evidence: Evidence) -> Iterator[str]:
    """Of the run and of the undisturbed one, which comes to its end where the other cannot."""
    for name, expected in evidence.run.workload.expected(evidence.scenario).items():
        for run, where in ((evidence.run, ""), (evidence.calm, " in the undisturbed run")):
            found = run.stage.values.get(name)
            if run.error is None and found is not None and not _close(found, expected, PLAIN_RTOL):
                yield _difference(name, found, expected) + where


def _equals_replay(evidence: Evidence) -> Iterator[str]:
    """Of both runs, each by its trace."""
    for run, where in ((evidence.run, ""), (evidence.calm, " in the undisturbed run")):
        if run.error is None and run.scenario.has_numbers:
            for name, expected in run.workload.replayed(run).items():
                if not _close(run.stage.values[name], expected, PLAIN_RTOL):
                    yield _difference(name, run.stage.values[name], expected) + where


def _finite(evidence: Evidence) -> Iterator[str]:
    for run, where in ((evidence.run, ""), (evidence.calm, " in the undisturbed run")):
        for name, value in run.stage.values.items():
            if not np.all(np.isfinite(value)):
                yield f"{name} = {np.ravel(value).tolist()}{where}"


def _replicas_agree(evidence: Evidence) -> Iterator[str]:
    for name, copies in evidence.run.stage.copies.items():
        if len({copy.tobytes() for copy in copies}) > 1:
            yield f"the copies of {name} differ: {[np.ravel(copy).tolist() for copy in copies]}"


NUMBERS = [
    Invariant("same-digest", "The same scenario has the same digest and the same bits, in every process.", _same_digest),
    Invariant("same-bits-by-plan", "All plans give the same bits, and reads change none.", _same_bits_by_plan),
    Invariant("sync-equals-undisturbed", "Where a run recovers, its numbers are those of the undisturbed run.", _sync_equals_undisturbed),
    Invariant("equals-plain", "Numbers are those of plain numpy.", _equals_plain),
    Invariant("equals-replay", "Numbers are those of plain numpy, by the trace's account of what was applied, and when.", _equals_replay),
    Invariant("finite", "All numbers of a run are finite.", _finite),
    Invariant("replicas-agree", "Copies of a mirrored variable are identical.", _replicas_agree),
]
