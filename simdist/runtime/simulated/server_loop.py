"""The server loop: a task answers reads of the variables that it holds, and applies the updates that it receives.

An update is applied when the task's device is free, one after the other, each once: a message that arrives twice is recognised
by its identity and is only confirmed again. Updates that others have sent are work of the server's process, and stand still with it: a
pause puts off the end of the one that has begun, and all that wait, by its length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simdist.errors import UnavailableError
from simdist.ledger.ledger import Ledger
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.linked_rows import RowOperands, inputs_of
from simdist.runtime.simulated.calls import ServerCall
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.state import GroupStates
from simdist.simulation.kernel import Clock
from simdist.trace import Trace
from simdist.trace.records import NO_CAUSE

__all__ = ["ServerLoop"]

# At least so many messages are remembered; a client has far fewer on their way at once.
REMEMBERED = 1_024

Identity = tuple[tuple[str, int, int], int]
# Its push, which part of that, for which incarnation, when it was received, when it is planned to start and to end, and how many pauses are
# counted in this plan.
Received = tuple[Pushing, ServerCall, Incarnation, float, float, float, int]


class ServerLoop:
    """Serves the groups of one task, through all its incarnations.

    Args:
        task: that holds them.
        clock, trace: the cluster's.
        ledger: computes updates.
        states: the versions of all groups.
        updated: are called after each update that others have sent.
    """

    def __init__(
        self, task: Task, clock: Clock, trace: Trace, ledger: Ledger, states: GroupStates, updated: Sequence[Callable[[str], None]]
    ) -> None:
        self.task = task
        self.clock = clock
        self.trace = trace
        self.ledger = ledger
        self.states = states
        self.updated = updated
        self._seen: dict[Identity, None] = {}
        self._pauses: list[tuple[float, float]] = []  # (from, until) in seconds
        self._busy_until_s = 0.0  # with updates that others have sent
        self._kinds: dict[tuple[Apply, str, bool], int] = {}

    def answer(self, groups: Sequence[tuple[int, int]], found: list[Bundle | None], versions: list[int]) -> UnavailableError | None:
        """Put the present versions of groups into the reply, by position; an error where one is lost."""
        states, error = self.states, None
        for group, position in groups:
            found[position] = states.bundles[group]
            versions[position] = states.versions[group]
            if found[position] is None:
                try:
                    found[position], versions[position] = states.present(group), states.version(group)
                except UnavailableError as lost:
                    error = lost
        return error

    def receive(self, push: Pushing, part: ServerCall, process: Incarnation) -> None:
        """Receive an update: it is applied when the device is free."""
        update = part.update
        assert update is not None
        now = self.clock.now
        start, end = self.task.occupy(now, push.priced.costs[update.number])
        self._busy_until_s = end
        self.clock.after(end - now, self._apply, (push, part, process, now, start, end, len(self._pauses)))

    def stood_still(self, from_s: float, until_s: float) -> None:
        """The task goes on after a pause: what it has received is applied later by the length of the pause."""
        self._pauses.append((from_s, until_s))
        if self._busy_until_s > from_s:
            self._busy_until_s += until_s - from_s
            self.task.processor.free_s += until_s - from_s

    def _apply(self, received: Received) -> None:
        push, part, process, received_s, start, end, pauses = received
        # An update of an incarnation that is dead by now is refused: no caller waits for it any more.
        if not push.open or not process.alive:
            return
        if self.task.held is not None:
            self.task.held.append((self._apply, received))
            push.silenced(part.there)
            return
        if pauses < len(self._pauses):
            self._put_off(received)
            return
        update, identity = part.update, (push.identity, part.position)
        assert update is not None
        is_new = identity not in self._seen
        try:
            if is_new:
                where = (push.client.name, push.step, end)
                cause = push.began_after if start <= received_s else NO_CAUSE
                self.commit(
                    update, push.priced, push.operands[part.position], start, end, where, push.read_versions.get(update.group), cause
                )
                self._seen[identity] = None
        except UnavailableError as lost:
            push.fail_later(part, lost, "update_reply")
            return
        except Exception as error:
            push.fail(error)
            return
        if len(self._seen) > 2 * REMEMBERED:
            self._seen = dict.fromkeys(list(self._seen)[REMEMBERED:])
        push.confirm(part, end, self.task.processor.last)
        if is_new:
            for listener in self.updated:
                listener(self.task.name)

    def _put_off(self, received: Received) -> None:
        """Apply an update later by the pauses that it did not know of."""
        push, part, process, received_s, start, end, pauses = received
        for from_s, until_s in self._pauses[pauses:]:
            length_s = until_s - from_s
            start, end = start if start < from_s else start + length_s, end + length_s
        left_s, later = end - self.clock.now, (push, part, process, received_s, start, end, len(self._pauses))
        if left_s > 0.0:
            self.clock.after(left_s, self._apply, later)
        else:
            self._apply(later)  # it had ended when the pause began: before what arrived after that

    def commit(
        self,
        update: Apply,
        priced: PricedProgram,
        operands: Bundle | RowOperands,
        start: float,
        end: float,
        where: tuple[str, int, float],
        read_version: int | None,
        cause: int = NO_CAUSE,
    ) -> None:
        """Make the next version of a group.

        Args:
            update: what changes, and how.
            priced: the prices of its program.
            operands: what it is changed with.
            start, end: when the device was busy with it.
            where: whose step it belongs to: task, step and second.
            read_version: of the group, that this step has read last; None if none.
            cause: the record that the update waited for; -1: the one before on this device.
        """
        states, group, site = self.states, update.group, priced.sites[update.number]
        before = states.bundles[group] or states.present(group)
        given, ids = inputs_of(operands)
        (bundle,) = self.ledger.call(site, (before, *given), None, ids, where)
        if group in states.joined:
            version = states.put(group, bundle)
        else:
            states.bundles[group] = bundle
            states.versions[group] = version = states.versions[group] + 1
        self.task.updates += 1
        processor = self.task.processor
        if processor.late_s > start:
            start = processor.began(start, end)
        kind = self._kinds.get((update, where[0], read_version is None))
        if kind is None:
            kind = self._kind(update, site.kernel.name, where[0], read_version is None)
        last = processor.last if cause == NO_CAUSE else cause
        if read_version is None:
            processor.last = self.trace.add(kind, start, end, version, 0.0, last)
        else:
            # The staleness of the update follows from these two: version - 1 - read_version.
            processor.last = self.trace.add(kind, start, end, read_version, version, last)

    def _kind(self, update: Apply, name: str, worker: str, is_blind: bool) -> int:
        """The kind of the spans of an update by a worker; a blind one has read no version."""
        numbers = {"version": int} if is_blind else {"read_version": int, "version": int}
        kind = self._kinds[update, worker, is_blind] = self.trace.kind(self.task.name, "apply", name, numbers, worker=worker)
        return kind
