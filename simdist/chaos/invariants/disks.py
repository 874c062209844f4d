"""Invariants of disks and of machines that are taken away."""

from __future__ import annotations

from collections.abc import Iterator

from simdist.chaos.evidence import Evidence, Invariant
from simdist.trace.records import Instant

__all__ = ["DISKS"]


def _whole(evidence: Evidence) -> Iterator[str]:
    """In the end no work is left, no temporary file, and no file is torn unless a fault has torn it."""
    run = evidence.run
    torn = {mark.lane for mark in run.cluster.trace.instants.where(category="torn_write")}
    for name, disk in run.cluster.world.disks.used.items():
        files = disk.disk.files
        if files.used_bytes > disk.model.capacity:
            yield f"{files.used_bytes} bytes are on the disk of {name}, which has room for {disk.model.capacity:.0f}"
        for path in files.list():
            if path.endswith(".tmp") and not disk.disk.is_busy:
                yield f"{path!r} was left on the disk of {name}"
            elif not files.content(path).is_whole and name not in torn:
                yield f"{path!r} on the disk of {name} is torn: {files.content(path)}"
        if disk.disk.is_busy and not run.silences.last_for_ever and evidence.ended_well and not run.processes.crashed(["chief:0"]):
            yield f"the disk of {name} is still at work"


def _killed_after_notice(evidence: Evidence) -> Iterator[str]:
    """A task that has notice dies at the second of which it has notice, unless it has lost its machine before."""
    run = evidence.run
    instants = run.cluster.trace.instants
    notices = list(instants.where(category="preempt"))
    kills = [(mark.lane, _kill_s(mark)) for mark in notices]
    for mark, (task, kill_s) in zip(notices, kills, strict=True):
        moved = [other.time_s for other in instants.where(category="lose_host") if other.lane == task]
        moved += [other_s for other, other_s in kills if other == task and other_s < kill_s]
        if kill_s >= run.quiet_s or any(mark.time_s <= at_s <= kill_s for at_s in moved):
            continue
        if not any(death.lane == task and death.time_s == kill_s for death in instants.where(category="crash")):
            yield f"{task} had notice at {mark.time_s} s that it dies at {kill_s} s, and did not"


def _kill_s(notice: Instant) -> float:
    return notice.time_s + notice.facts["notice_s"]


DISKS = [
    Invariant("files-whole", "What is on a disk in the end is whole, and no work of it is left.", _whole),
    Invariant("killed-after-notice", "A task that has notice is killed at that second.", _killed_after_notice),
]
