"""Snapshots: a server writes what it holds to its disk from time to time, and begins with the last one when it is started again.

What was changed after that is lost, also where it was confirmed: a parameter server with snapshots goes on with older variables, and other
servers with present ones. A snapshot counts when all of it is on the disk. The disk survives a crash of the process, and is lost with the
machine. Snapshots wait for other work of the disk; one that finds no room is left out, and the next interval tries again. Where variables
are assigned to between steps, as by a restore, a snapshot does not wait for the interval: one server would go back behind the restore, and
the others not.

There are two files, which are written in turns, so that the last snapshot is whole while the next one is written. They are not read back:
that a snapshot is torn is found when it is needed, and then the one before it counts, unless it was overwritten since.

Not simulated: the time that the processor takes for it.

Source: Dean et al., Large Scale Distributed Deep Networks, 2012, section 4.1: servers whose shards are saved asynchronously.

Taught in lesson 07.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import ResourceExhaustedError
from simdist.program.values import num_bytes
from simdist.runtime.simulated.remembered import Known, Remembered
from simdist.runtime.simulated.server_recovery import Change, Held, ServerRecovery
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.world import World
from simdist.simulation.disk import Work

__all__ = ["SNAPSHOT_INTERVAL_S", "Snapshots"]

SNAPSHOT_INTERVAL_S = 10.0
"""From the beginning of one snapshot of a server to that of the next; one that would begin while another is written is left out."""


class Snapshots(ServerRecovery):
    """A server that writes snapshots.

    Args:
        world: where it is.
        task: the server.
        forget: as of `ServerRecovery`.
        remembered: the updates that the server has applied; a snapshot has those that are in it.
        interval_s: from the beginning of one snapshot to that of the next, in seconds.

    Attributes:
        last: the last snapshot that is complete.
    """

    def __init__(
        self, world: World, task: Task, forget: Callable[[], None], remembered: Remembered, interval_s: float = SNAPSHOT_INTERVAL_S
    ) -> None:
        super().__init__(task, world.clock, world.trace, world.states, forget)
        self.remembered = remembered
        self.interval_s = interval_s
        self.disk = world.disk(task.name)
        self.disk.lost.append(self._disk_lost)
        self.last: Held = {}
        self._known = remembered.snapshot()  # the updates that are in `last`
        self._written: dict[int, int] = {}  # the versions of the groups that were written last, torn or not
        self._file = self._last_file = 0  # the numbers of the files that have these, and `last`
        self._writing: Incarnation | None = None
        self._disk_is_lost = False
        self._is_due = False  # a snapshot, because variables were assigned to
        self._groups = 0  # of the whole cluster, when it last looked for new ones
        self._write()
        world.clock.after_daemon(interval_s, self._beat)

    def _beat(self) -> None:
        self._write()
        self.clock.after_daemon(self.interval_s, self._beat)

    def assigned(self) -> None:
        super().assigned()
        if not self._is_due:
            self._is_due = True
            self.clock.after_daemon(0.0, self._write_due)  # by then the others of a restore have their values, too

    def _write_due(self) -> None:
        if self._is_due and self._writing is not self.task.process:
            self._write()

    def _write(self) -> None:
        """Begin a snapshot, unless one is being written or nothing has changed."""
        held = self.held()
        process = self.task.process
        is_at_work = process.alive and self.is_serving and self.task.held is None
        if self._writing is process or not is_at_work:
            return
        self._groups, self._is_due = len(self.states.bundles), False
        if _versions(held) == self._written:
            return
        self._writing = process
        self.disk.run(self._snapshot(held, self.remembered.snapshot()), lambda error: self._over(process, error))

    def _snapshot(self, held: Held, known: Known) -> Work:
        """Write a snapshot over the file that is not the last one."""
        number, last, began_s = 1 - self._file, self.last, self.clock.now
        cause = max(self.disk.last, self.task.processor.last)
        size_bytes = sum(num_bytes(bundle.avals) for bundle, _ in held.values())
        if number == self._last_file:  # the other file is torn, and this one is overwritten
            self.last = {}
        try:
            written = yield from self.disk.disk.write_synced(f"snapshot-{number}", size_bytes)
        except ResourceExhaustedError:
            self.last = last
            raise
        self._file, self._written = number, _versions(held)
        if written.is_whole:
            self.last, self._last_file, self._known = held, number, known
            self._disk_is_lost = False
        facts = {"bytes": size_bytes, "groups": len(held)}
        self.disk.last = self.trace.span(self.task.name, "checkpoint", "snapshot", began_s, self.clock.now, cause=cause, **facts)

    def _over(self, process: Incarnation, error: BaseException | None) -> None:
        if self._writing is process:
            self._writing = None
        if isinstance(error, ResourceExhaustedError):
            self.disk.note("no snapshot: the disk is full")
        self._write_due()

    def changed(self, change: Change) -> None:
        change.done()
        if len(self.states.bundles) > self._groups:
            self._write()

    def died(self, task: Task) -> None:
        super().died(task)
        if task is self.task and not self.is_lost:
            self.last.update(self.kept)  # the same numbers of versions
            self._written = _versions(self.last)

    def _saved(self) -> Held | None:
        held = self.held()
        self.forget()
        self._file, self._written = self._last_file, _versions(self.last)  # what is read back later shows what is torn
        saved = {number: self.last[number] for number in held if number in self.last}
        if len(saved) < len(held):
            return None
        self.remembered.restore(self._known)
        return saved

    def why_lost(self) -> str:
        if self._disk_is_lost:
            return "Its snapshots were on a disk that was lost with its machine. recovery='replica' keeps a copy on another server."
        return (
            "It had no complete snapshot of its variables yet, so they are lost. Snapshots take the time of the disk: let the fault come "
            "later, or use recovery='replica', which loses nothing."
        )

    def _disk_lost(self) -> None:
        self.last, self._written = {}, {}
        self._disk_is_lost = True
        self.lose()

    def _bring_back(self, process: Incarnation, size_bytes: int) -> None:
        began_s = self.clock.now
        self.disk.run(self._reading(size_bytes), lambda error: self._restored(process, began_s) if error is None else None)

    def _reading(self, size_bytes: int) -> Work:
        yield self.disk.model.read_seconds(size_bytes)


def _versions(held: Held) -> dict[int, int]:
    return {number: version for number, (_, version) in held.items()}
