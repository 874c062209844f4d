"""Invariants of the engine: time, links, memory and queues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite

from simdist.chaos.evidence import Evidence, Invariant
from simdist.trace.records import task_of

__all__ = ["ENGINE"]

ROUNDING = 1e-6  # of bytes that were stopped on the way


def _time_forward(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    trace = run.cluster.trace
    for before, after in pairwise(run.probe.clock_s):
        if not after >= before:
            yield f"the clock went from {before} to {after} s"
    for span in trace.spans:
        if not (isfinite(span.start_s) and isfinite(span.end_s) and 0.0 <= span.start_s <= span.end_s):
            yield f"{span} begins or ends at no time, or ends before it begins"
    for before, after in pairwise(trace.instants):
        if not after.time_s >= before.time_s:
            yield f"{after} comes after {before}"


def _bytes_conserved(evidence: Evidence) -> Iterator[str]:
    """What leaves ports enters ports, what goes up to racks comes down; no more is carried than was sent."""
    run = evidence.run
    carried = {link.name: link.bytes_carried for link in run.cluster.world.fabric.links()}
    sums = {end: sum(size for name, size in carried.items() if name.endswith(end)) for end in ("/out", "/in", "/up", "/down")}
    for one, other in (("/out", "/in"), ("/up", "/down")):
        if abs(sums[one] - sums[other]) > ROUNDING * max(1.0, sums[one]):
            yield f"links that end in {one} carried {sums[one]} B, those in {other} {sums[other]} B"
    sent: dict[str, float] = {}
    for (lane, name), size in run.cluster.trace.totals.items():
        if name == "bytes_sent":
            sent[lane] = sent.get(lane, 0.0) + size
    for lane, size in sent.items():
        link = carried.get(f"{lane}/out")
        if link is not None and link > size + ROUNDING * max(1.0, size):
            yield f"{lane}/out carried {link} B, but {lane} sent {size} B"
        elif (
            link is not None
            and not run.processes.downs
            and not run.silences.begun
            and evidence.ended_well
            and link < size * (1.0 - ROUNDING)
            and run.workload.same_result
        ):
            yield f"{lane} sent {size} B, but {lane}/out carried {link} B"


def _queues_end_empty(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    runtime = run.cluster.world
    yield from _listeners_leave(evidence)
    if not evidence.ended_well or run.quiet_error is not None or run.processes.crashed(["chief:0"]) or run.silences.last_for_ever:
        return
    still = [link.name for link in runtime.fabric.links() if link.flows or link.quiet is not None]
    if still:
        yield f"there are still bytes on {still}"
    calls = [task.name for task in runtime.tasks.values() if task.calls]
    if calls:
        yield f"there are still calls of {calls}"
    left = len(runtime.clock.queue) - runtime.clock.daemons
    if left > 0:
        yield f"{left} events are still pending, and no fiber waits for them"
    if not runtime.detection.membership.beliefs and run.waiting:
        yield f"when it had ended, a fiber or a step still ran on {run.waiting}"


def _listeners_leave(evidence: Evidence) -> Iterator[str]:
    """A listener for deaths removes itself when it is over, however it ended; mains and workers may still run."""
    run, calm = evidence.run, evidence.calm
    if run.stage.closures or run.workload.has_mains or calm.error is not None:
        return
    found, expected = len(run.cluster.world.listeners), len(calm.cluster.world.listeners)
    if found > expected or (evidence.ended_well and found < expected):
        yield f"{found} listeners for deaths are left, {expected} in the undisturbed run"


def _memory_account(evidence: Evidence) -> Iterator[str]:
    run = evidence.run
    if not evidence.ended_well or evidence.calm.error is not None or not run.workload.same_memory:
        return
    for device, calm_bytes in evidence.calm.held.items():
        task, found = task_of(device), run.held.get(device, 0)
        if not run.processes.is_up(task, run.end_s):
            continue
        may_lack = bool(run.processes.of(task)) or run.silences.begun
        if found > calm_bytes or (found < calm_bytes and not may_lack):
            yield f"{device} holds {found} B in the end, {calm_bytes} B in the undisturbed run"


ENGINE = [
    Invariant("time-forward", "Virtual time never goes back, and spans have a finite start and end.", _time_forward),
    Invariant("bytes-conserved", "Links carry what was sent over them, and no byte more.", _bytes_conserved),
    Invariant("queues-end-empty", "In the end no message is on its way, and no fiber waits.", _queues_end_empty),
    Invariant("memory-account", "Tasks that are up hold what they hold in the undisturbed run.", _memory_account),
]
