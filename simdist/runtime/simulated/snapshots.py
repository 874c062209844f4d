"""Snapshots: a server writes what it holds to its disk from time to time, and begins with the last one when it is started again.

What was changed after that is lost, also where it was confirmed: a parameter server with snapshots goes on with older variables, and other
servers with present ones. A snapshot counts when all of it is on the disk. The disk survives a crash of the process, and is lost with the
machine.

Not simulated: the time that the processor takes for it; other files on the disk.

Source: Dean et al., Large Scale Distributed Deep Networks, 2012, section 4.1: servers whose shards are saved asynchronously.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.hardware.disks import DiskModel, nvme
from simdist.program.values import num_bytes
from simdist.runtime.simulated.server_recovery import Change, Held, ServerRecovery
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.world import World

__all__ = ["SNAPSHOT_INTERVAL_S", "Snapshots"]

SNAPSHOT_INTERVAL_S = 10.0
"""From the end of one snapshot of a server to the beginning of the next."""


class Snapshots(ServerRecovery):
    """A server that writes snapshots.

    Args:
        world: where it is.
        task: the server.
        forget: as of `ServerRecovery`.
        interval_s: from the end of one snapshot to the beginning of the next, in seconds.
        disk: the figures of its disk.

    Attributes:
        last: the last snapshot that is complete.
    """

    def __init__(
        self, world: World, task: Task, forget: Callable[[], None], interval_s: float = SNAPSHOT_INTERVAL_S, disk: DiskModel = nvme
    ) -> None:
        super().__init__(task, world.clock, world.trace, world.states, forget)
        self.interval_s = interval_s
        self.disk = disk
        self.last: Held = {}
        self._writing: Incarnation | None = None
        self._groups = 0  # of the whole cluster, when it last looked for new ones
        self._write(None)
        world.clock.after_daemon(interval_s, self._beat)

    def _beat(self) -> None:
        self._write(None)
        self.clock.after_daemon(self.interval_s, self._beat)

    def _write(self, _: object) -> None:
        """Begin a snapshot, unless one is being written or nothing has changed."""
        held = self.held()
        process = self.task.process
        is_at_work = process.alive and self.is_serving and self.task.held is None
        if self._writing is process or not is_at_work:
            return
        self._groups = len(self.states.bundles)
        if _versions(held) == _versions(self.last):
            return
        self._writing = process
        size_bytes = sum(num_bytes(bundle.avals) for bundle, _ in held.values())
        seconds = self.disk.write_seconds(size_bytes) + self.disk.fsync
        self.clock.after(seconds, self._written, (held, process, self.clock.now, size_bytes))

    def _written(self, what: tuple[Held, Incarnation, float, int]) -> None:
        held, process, began_s, size_bytes = what
        if process.alive and self.task.held is not None:
            self.task.held.append((self._written, what))
            return
        if self._writing is process:
            self._writing = None
        if process.alive:
            self.last = held
            self.trace.span(self.task.name, "checkpoint", "snapshot", began_s, self.clock.now, bytes=size_bytes, groups=len(held))

    def changed(self, change: Change) -> None:
        change.done()
        if len(self.states.bundles) > self._groups:
            self._write(None)

    def _saved(self) -> Held | None:
        held = self.held()
        self.forget()
        if self.task.process.lost:
            self.last = {}
        saved = {number: self.last[number] for number in held if number in self.last}
        return saved if len(saved) == len(held) else None

    def _bring_back(self, process: Incarnation, size_bytes: int) -> None:
        self.clock.after(self.disk.read_seconds(size_bytes), lambda began_s: self._restored(process, began_s), self.clock.now)


def _versions(held: Held) -> dict[int, int]:
    return {number: version for number, (_, version) in held.items()}
