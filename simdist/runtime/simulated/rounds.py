"""The rounds of one server: it keeps the updates of a round that is open, and applies them when the coordinator says that it is complete.

The updates of a round change each group once: those of an optimizer are averaged, increments are added up, and of assignments the last one
counts; changes of single elements are made one after the other. All that goes in the order of the coordinator's tickets. A read waits until
the rounds are applied that its step needs. An attempt that is in no round leaves no mark.

Not simulated: the memory of updates that wait for their round.

Sources: Ho et al., More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013; Chen et al., Revisiting
Distributed Synchronous SGD, 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from simdist.caches import BoundedCache
from simdist.cost.flops import Cost, cost_of
from simdist.errors import UnavailableError
from simdist.ledger.entry import Site
from simdist.ledger.ledger import Ledger
from simdist.program.values import Bundle
from simdist.runtime.combined_updates import CombinedUpdate, combined
from simdist.runtime.linked import Apply
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.serving import Round
from simdist.runtime.simulated.legs import Leg
from simdist.runtime.simulated.pricing import PricedProgram, cost_of_change
from simdist.runtime.simulated.round_order import in_order
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.simulation.kernel import Clock
from simdist.trace import Trace
from simdist.trace.records import NO_CAUSE
from simdist.variables.update_rule import UpdateRule

__all__ = ["Committer", "KeptUpdate", "RoundCaller", "RoundServer"]

# Combinations of updates that are kept: the workers of a round, group by group; with backup workers, others each time.
KEPT_COMBINATIONS = 256


@dataclass(frozen=True, eq=False)
class KeptUpdate:
    """An update that waits for its round.

    Attributes:
        clock: its round.
        update, priced, operands: what changes, and with what.
        read_version: of its group, that its step has read; None if none.
        rule: of an optimizer, by which it is combined with others: the step may have ended, and its program be gone.
    """

    clock: int
    update: Apply
    priced: PricedProgram
    operands: Bundle | RowOperands
    read_version: int | None
    rule: UpdateRule | None = None


class RoundCaller(Protocol):
    """The coordinator's call that says that a round is complete."""

    @property
    def open(self) -> bool: ...
    @property
    def cause(self) -> int:
        """The number of the last record that it waits for: what completed the round."""
        ...

    def applied(self, leg: Leg, record: int) -> None:
        """A server has applied the round, as this record says; -1: it had nothing to change."""
        ...

    def silenced(self, leg: Leg) -> None:
        """It stands still."""
        ...

    def fail(self, error: BaseException) -> None:
        """It cannot be applied."""
        ...


class Committer(Protocol):
    """The server loop, as far as rounds need it."""

    task: Task
    clock: Clock
    ledger: Ledger
    trace: Trace
    updated: Sequence[Callable[[str], None]]
    rounds: list[RoundServer]

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
        """Make the next version of a group."""
        ...

    def versions_of(self, groups: Iterable[int]) -> Callable[[], None]:
        """What takes these groups back to their present versions."""
        ...

    def occupied(self, end_s: float) -> None:
        """The device is busy with a round until then."""
        ...

    def secure(self, size_bytes: int, costs: Sequence[Cost], undo: Callable[[], None], done: Callable[[], None]) -> None:
        """See to it that a change survives a crash; then `done` is called."""
        ...


@dataclass(frozen=True)
class GroupChange:
    """What a round makes of one group: the updates that are combined, how if they are several, and when the device is busy with it.

    Attributes:
        costs: of what the device computes for it.
        cause: the number of the record that it waits for; -1: the one before on this device.
    """

    updates: list[KeptUpdate]
    combined: CombinedUpdate | None
    start_s: float
    end_s: float
    costs: Sequence[Cost]
    cause: int

    @property
    def group(self) -> int:
        """The one that changes."""
        return self.updates[0].update.group if self.combined is None else self.combined.update.group

    def after_pause(self, from_s: float, until_s: float) -> GroupChange:
        """The same where the process has stood still: what was not over comes later by the length of the pause."""
        start_s, end_s = [moment if moment < from_s else moment + until_s - from_s for moment in (self.start_s, self.end_s)]
        return replace(self, start_s=start_s, end_s=end_s)


@dataclass(frozen=True, eq=False)
class RoundWork:
    """A round that is being applied.

    Attributes:
        complete, caller, leg: as the coordinator has called.
        process: that applies it.
        changes: of groups, in order.
        end_s: when all of them are over.
    """

    complete: Round
    caller: RoundCaller
    leg: Leg
    process: Incarnation
    changes: Sequence[GroupChange]
    end_s: float


class RoundServer:
    """The rounds of one coordinator at one server.

    Args:
        server: applies updates.

    Attributes:
        applied: how many rounds it has applied.
        kept: updates that wait for their round, by ticket.
    """

    def __init__(self, server: Committer) -> None:
        self.server = server
        self.applied = 0
        self.kept: dict[int, list[KeptUpdate]] = {}
        self._waiting: list[tuple[int, Callable[[Leg], None], Leg]] = []
        self._listeners: list[Callable[[], object]] = []  # when one more round is applied; no messages, so a crash loses none
        self._later: dict[int, tuple[Round, RoundCaller, Leg, Incarnation]] = {}
        self._work: RoundWork | None = None  # what is being applied
        self._lost: set[int] = set()  # tickets with updates that were lost with the server's memory
        self._averaged: dict[tuple[int, int, int], Hashable] = {}  # of a round, a group, and the n-th update of each ticket
        self._combined: BoundedCache[tuple[Apply, ...], CombinedUpdate] = BoundedCache(KEPT_COMBINATIONS)
        server.rounds.append(self)

    def keep(self, ticket: int, kept: KeptUpdate) -> None:
        """Keep an update until its round is complete; if that is over, it does not count."""
        if kept.clock >= self.applied:
            self.kept.setdefault(ticket, []).append(kept)

    def can_be_averaged(self, ticket: int, kept: KeptUpdate) -> bool:
        """Whether an optimizer changes the same variables of a group here as in the other closures of the round."""
        if kept.update.combination != "mean":
            return True
        group = kept.update.group
        before = [one for one in self.kept.get(ticket, ()) if one.update.combination == "mean" and one.update.group == group]
        return self._averaged.setdefault((kept.clock, group, len(before)), kept.update.combined_by) == kept.update.combined_by

    def take_back(self, ticket: int, kept: KeptUpdate) -> None:
        """An update was taken back: its worker sends it again."""
        updates = self.kept.get(ticket, [])
        if kept in updates:
            updates.remove(kept)

    def wait(self, needs: int, asked: Callable[[Leg], None], leg: Leg) -> bool:
        """Whether a read must wait for rounds that it needs; then `asked` is called when they are applied."""
        if needs <= self.applied:
            return False
        self._waiting.append((needs, asked, leg))
        return True

    def notify(self, listener: Callable[[], object]) -> None:
        """Call a function once, when one more round is applied."""
        self._listeners.append(listener)

    def complete(self, complete: Round, caller: RoundCaller, leg: Leg, process: Incarnation) -> None:
        """A round is complete: it is applied when the device is free, after the rounds before it."""
        if complete.clock < self.applied:
            self._confirm_again(caller, leg)
        elif complete.clock > self.applied or self._work is not None:
            self._later[complete.clock] = complete, caller, leg, process
        else:
            self._begin(complete, caller, leg, process, caller.cause)

    def _confirm_again(self, caller: RoundCaller, leg: Leg) -> None:
        """It was called before: what it asks for is applied, but may not be safe yet."""
        record = self.server.task.processor.last
        self.server.secure(0, (), lambda: None, lambda: caller.applied(leg, record))

    def _begin(self, complete: Round, caller: RoundCaller, leg: Leg, process: Incarnation, cause: int = NO_CAUSE) -> None:
        """Occupy the device for a round, after the record `cause`; -1: after what the device did before."""
        task, now = self.server.task, self.server.clock.now
        changes: list[GroupChange] = []
        end = now
        for updates in in_order([self.kept.get(ticket, ()) for ticket in complete.tickets]):
            one = self._as_one([kept.update for kept in updates])
            first = updates[0]
            costs = [first.priced.costs[first.update.number]] if one is None else [cost_of_change(one.update.kernel), cost_of(one.kernel)]
            busy = [task.occupy(now, cost) for cost in costs]
            start, end = busy[0][0], busy[-1][1]
            changes.append(GroupChange(updates, one, start, end, costs, NO_CAUSE if changes or start > now else cause))
        if changes:
            self.server.occupied(end)
        self._plan(RoundWork(complete, caller, leg, process, changes, end))

    def _plan(self, work: RoundWork) -> None:
        self._work = work
        self.server.clock.after(work.end_s - self.server.clock.now, self._apply, work)

    def stood_still(self, from_s: float, until_s: float) -> None:
        """The process goes on after a pause: what it applies ends later by the length of the pause, as all that it has received."""
        work = self._work
        if work is not None and work.end_s > from_s:
            changes = [change.after_pause(from_s, until_s) for change in work.changes]
            self._plan(replace(work, changes=changes, end_s=max([until_s, *(change.end_s for change in changes)])))

    def _as_one(self, updates: Sequence[Apply]) -> CombinedUpdate | None:
        # Updates that change nothing here are counted as the one that the round makes of them.
        return None if len(updates) == 1 or not updates[0].cells else self._combined.get(tuple(updates), lambda: combined(updates))

    def _apply(self, work: RoundWork) -> None:
        complete, changes, caller, leg = work.complete, work.changes, work.caller, work.leg
        task = self.server.task
        if work is not self._work or not work.process.alive:
            return
        if task.held is not None:
            task.held.append((self._apply, work))
            caller.silenced(leg)
            return
        take_versions_back = self.server.versions_of([change.group for change in changes])
        try:
            for change in changes:
                self._change(complete.clock, change)
        except UnavailableError as lost:
            self._work = None
            caller.fail(lost)
            self._go_on()
            return
        kept, self.applied, self._work = self.kept, complete.clock + 1, None
        self.kept = {ticket: updates for ticket, updates in kept.items() if not updates or updates[0].clock >= self.applied}
        self._averaged = {key: kernel for key, kernel in self._averaged.items() if key[0] >= self.applied}
        self._tell_lost(complete)

        def undo() -> None:
            take_versions_back()
            self.applied = complete.clock
            self.kept = {**kept, **self.kept}

        record, costs = task.processor.last if changes else NO_CAUSE, [cost for change in changes for cost in change.costs]
        self.server.secure(0, costs, undo, lambda: caller.applied(leg, record))
        self._go_on()
        for listener in self.server.updated if changes else ():
            listener(task.name)

    def _tell_lost(self, complete: Round) -> None:
        lost = self._lost.intersection(complete.tickets)
        if lost:
            self._lost -= lost
            task, trace = self.server.task, self.server.trace
            text = f"{len(lost)} updates of round {complete.clock} were lost with the server's memory"
            trace.instant(task.name, "drop", text, self.server.clock.now, cause=task.trouble, round=complete.clock, updates=len(lost))

    def _change(self, clock: int, change: GroupChange) -> None:
        ledger, updates, one = self.server.ledger, change.updates, change.combined
        first, where = updates[0], ("round", clock, change.end_s)
        if one is None:
            update, site, operands = first.update, first.priced.sites[first.update.number], first.operands
        else:
            update, given = one.update, [kept.operands for kept in updates]
            joint = one.joint_ids(given)
            bundles, hosts = one.inputs(given, joint)
            operands = one.operands(ledger.call(ledger.site(one.kernel, one.reads, one.writes), bundles, None, hosts, where), joint)
            site = ledger.site(update.kernel, update.reads, [update.state])
        read = [kept.read_version for kept in updates if kept.read_version is not None]
        self.server.commit(update, site, operands, change.start_s, change.end_s, where, min(read, default=None), change.cause)

    def _go_on(self) -> None:
        """What has waited for this round goes on."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        waiting, self._waiting = self._waiting, []
        for needs, asked, leg in waiting:
            if needs <= self.applied:
                asked(leg)
            else:
                self._waiting.append((needs, asked, leg))
        for clock in [clock for clock in self._later if clock < self.applied]:
            _, caller, leg, _ = self._later.pop(clock)
            self._confirm_again(caller, leg)
        following = self._later.pop(self.applied, None)
        if following is not None:
            self._begin(*following)

    def died(self) -> None:
        """The process has died: nobody waits here any more."""
        self._waiting.clear()
        self._later.clear()
        self._work = None

    def forget(self) -> None:
        """What was in the memory of the process is lost: the updates that wait for their round."""
        self._lost.update(self.kept)
        self.kept.clear()
        self._averaged.clear()
