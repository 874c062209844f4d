"""The server loop: a task answers reads of the variables that it holds, and applies the updates that it receives.

An update is applied when the task's device is free, one after the other, each once: one that arrives twice is recognised
(`remembered.py`), takes the device no time, and is only confirmed again. When each of them begins and ends, `planned_updates.py` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from simdist.cost.flops import Cost
from simdist.errors import AbortedError, FailedPreconditionError, UnavailableError
from simdist.ledger.entry import Site
from simdist.ledger.ledger import Ledger
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.linked_rows import RowOperands, inputs_of
from simdist.runtime.serving import Ticket
from simdist.runtime.simulated.calls import ServerCall
from simdist.runtime.simulated.planned_updates import Planned, PlannedUpdates
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.remembered import Remembered
from simdist.runtime.simulated.rounds import KeptUpdate, RoundServer
from simdist.runtime.simulated.server_recovery import Change, ServerRecovery
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.state import GroupStates
from simdist.simulation.kernel import Clock
from simdist.trace import Trace
from simdist.trace.records import NO_CAUSE

__all__ = ["ServerLoop"]

NOTHING = Cost(0, 0, 0.0)


class ServerLoop:
    """Serves the groups of one task, through all its incarnations.

    Args:
        task: that holds them.
        clock, trace: the cluster's.
        ledger: computes updates.
        states: the versions of all groups.
        updated: are called after each update that others have sent.

    Attributes:
        remembered: the updates that it has applied.
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
        self.rounds: list[RoundServer] = []  # of the coordinators whose workers proceed in rounds
        self.recovery: ServerRecovery | None = None
        self.remembered = Remembered()
        # Of a coordinator's worker, up to which closure of which incarnation.
        self._given_up: dict[tuple[int, str], tuple[int, int]] = {}
        self.planned = PlannedUpdates(task, clock, self._apply)
        self._kinds: dict[tuple[str, str, bool], int] = {}  # by the name of a kernel: an update would keep its variables

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
        """Receive an update: it is applied when the device is free, or with its round."""
        update = part.update
        assert update is not None
        now = self.clock.now
        if self._given_up and self._is_given_up(push):
            self._refuse(push, part, f"an update of {push.client.name} is refused: its closure was given away")
            return
        errand = push.errand
        if push.rounds is not None and errand is not None and (rounds := push.rounds.get(self.task.name)) is not None:
            self._keep(rounds, push, errand.ticket, part)
            return
        may_come_again = push.repeats or push.applied or push.identity is not None
        is_copy = may_come_again and self._has_received(push, part, process)
        start, end = self.task.occupy(now, NOTHING if is_copy else push.priced.costs[update.number])
        self.planned.add(Planned(push, part, process, now, start, end))

    def _has_received(self, push: Pushing, part: ServerCall, process: Incarnation) -> bool:
        """Whether this incarnation has applied an update, or will do so before the copy that has come now."""
        if self.remembered.has(push, part):
            return True
        if not push.repeats:
            return False
        before, push.received[part] = push.received.get(part), process
        return before is process

    def _keep(self, rounds: RoundServer, push: Pushing, ticket: Ticket, part: ServerCall) -> None:
        """Keep an update for its round; one that comes twice is kept once."""
        update, seen = part.update, self.remembered
        assert update is not None
        if seen.has(push, part):
            self.secure(0, (), lambda: None, lambda: push.confirm(part, self.clock.now))
            return
        read_version = push.read_versions.get(update.group)
        rule = None if update.of_rule is None else update.of_rule.reference()
        kept = KeptUpdate(ticket.clock, update, push.priced, push.operands[part.position], read_version, rule)
        if not rounds.can_be_averaged(ticket.number, kept):
            push.fail(self._not_averaged(kept))
            return
        rounds.keep(ticket.number, kept)
        seen.add(push, part)

        def undo() -> None:
            rounds.take_back(ticket.number, kept)
            seen.take_back(push, part)

        self.secure(int(push.plan.loaded(part).size_bytes), (), undo, lambda: push.confirm(part, self.clock.now))

    def _not_averaged(self, kept: KeptUpdate) -> FailedPreconditionError:
        names = ", ".join(cell.name for cell in self.states.groups[kept.update.group].cells if cell.kind == "parameter")
        return FailedPreconditionError(
            f"{self.task.name}: closures of round {kept.clock} have gradients for different variables among {names}, so they cannot be "
            "averaged; or they are for different optimizers. Let all closures of a round give one optimizer gradients for the same "
            "variables (zeros where there are none), or train with mode='async'."
        )

    def _refuse(self, push: Pushing, part: ServerCall, why: str) -> None:
        self.trace.instant(self.task.name, "drop", why, self.clock.now, task=push.client.name)
        push.fail_later(part, AbortedError(f"{self.task.name}: {why}."), "reset")

    def give_up(self, given: tuple[int, str, int, int]) -> None:
        """A coordinator has given the closures of a worker to others, up to this one: what it still sends for them is refused."""
        coordinator, worker, incarnation, ordinal = given
        known = self._given_up.get((coordinator, worker), (-1, 0))
        self._given_up[coordinator, worker] = max(known, (incarnation, ordinal))  # an older notice may come after a newer one

    def _is_given_up(self, push: Pushing) -> bool:
        errand = push.errand
        if errand is None:
            return False
        incarnation, ordinal = self._given_up.get((errand.served.number, push.client.name), (-1, 0))
        return push.client.process.incarnation == incarnation and errand.ordinal <= ordinal

    # -- surviving a crash ----------------------------------------------------------------------------------------

    def occupied(self, end_s: float) -> None:
        """The device is busy with a round until then."""
        self.planned.occupied(end_s)

    def stood_still(self, from_s: float, until_s: float) -> None:
        """The task goes on after a pause."""
        self.planned.stood_still(from_s, until_s)
        for rounds in self.rounds:
            rounds.stood_still(from_s, until_s)

    def died(self) -> None:
        """The process has died."""
        self.planned.clear()
        for rounds in self.rounds:
            rounds.died()

    def forget(self) -> None:
        """What was in the memory of the process is lost."""
        self.remembered.clear()
        for rounds in self.rounds:
            rounds.forget()

    def versions_of(self, groups: Iterable[int]) -> Callable[[], None]:
        """What takes these groups back to their present versions."""
        states = self.states
        before = [(group, states.bundles[group], states.versions[group]) for group in map(states.joint, groups)]

        def take_back() -> None:
            for group, bundle, version in before:
                states.bundles[group], states.versions[group] = bundle, version

        return take_back

    def secure(self, size_bytes: int, costs: Sequence[Cost], undo: Callable[[], None], done: Callable[[], None]) -> None:
        """See to it that a change survives a crash; then `done` is called."""
        if self.recovery is None:
            done()
        else:
            self.recovery.changed(Change(size_bytes, costs, undo, done))

    def _apply(self, planned: Planned) -> None:
        push, part, process = planned.push, planned.part, planned.process
        # An update of an incarnation that is dead by now is refused: no caller waits for it any more.
        if planned.is_over or not push.open or not process.alive:
            planned.is_over = True
            self.planned.forget_ended()
            return
        if self.task.held is not None:
            self.task.held.append((self._apply, planned))
            push.silenced(part.there)
            return
        if (planned.is_moved or planned.known < self.planned.num_changes) and not self.planned.is_due(planned):
            return
        planned.is_over = True
        if self.planned.waiting:
            self.planned.forget_ended()
        start, end = planned.start_s, planned.end_s
        update = part.update
        assert update is not None
        is_new = not self.remembered.has(push, part)
        take_back = None if self.recovery is None else self.versions_of((update.group,) if is_new else ())
        try:
            if is_new:
                where = (push.client.name, push.step, end)
                cause = push.began_after if start <= planned.received_s else NO_CAUSE
                site, read_version = push.priced.sites[update.number], push.read_versions.get(update.group)
                self.commit(update, site, push.operands[part.position], start, end, where, read_version, cause)
                self.remembered.add(push, part, push.errand.ticket.oldest if push.errand is not None else 0)
        except UnavailableError as lost:
            push.fail_later(part, lost, "update_reply")
            return
        except Exception as error:
            push.fail(error)
            return
        last = self.task.processor.last
        if take_back is None:
            push.confirm(part, end, last)
        else:
            self._secure_update(push, part, take_back if is_new else None)
        if is_new:
            for listener in self.updated:
                listener(self.task.name)

    def _secure_update(self, push: Pushing, part: ServerCall, take_back: Callable[[], None] | None) -> None:
        """Confirm an update when it will survive a crash; `take_back` is None where it was applied before."""
        update, last = part.update, self.task.processor.last
        assert update is not None

        def undo() -> None:
            if take_back is not None:
                take_back()
                self.remembered.take_back(push, part)

        size_bytes = 0 if take_back is None else int(push.plan.loaded(part).size_bytes)
        costs = () if take_back is None else (push.priced.costs[update.number],)
        self.secure(size_bytes, costs, undo, lambda: push.confirm(part, self.clock.now, last))

    def commit(
        self,
        update: Apply,
        site: Site,
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
            site: of its kernel.
            operands: what it is changed with.
            start, end: when the device was busy with it.
            where: whose step it belongs to: task, step and second.
            read_version: of the group, that this step has read last; None if none.
            cause: the record that the update waited for; -1: the one before on this device.
        """
        states, group = self.states, update.group
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
        kind = self._kinds.get((site.kernel.name, where[0], read_version is None))
        if kind is None:
            kind = self._kind(site.kernel.name, where[0], read_version is None)
        last = processor.last if cause == NO_CAUSE else cause
        if read_version is None:
            processor.last = self.trace.add(kind, start, end, version, 0.0, last)
        else:
            # The staleness of the update follows from these two: version - 1 - read_version.
            processor.last = self.trace.add(kind, start, end, read_version, version, last)

    def _kind(self, name: str, worker: str, is_blind: bool) -> int:
        """The kind of the spans of an update by a worker; a blind one has read no version."""
        numbers = {"version": int} if is_blind else {"read_version": int, "version": int}
        kind = self._kinds[name, worker, is_blind] = self.trace.kind(self.task.name, "apply", name, numbers, worker=worker)
        return kind
