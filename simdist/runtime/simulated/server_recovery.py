"""How a server gets back in place: what it held is kept elsewhere, and is brought back when its process has been started again.

While a server is away, or is being restored, calls to it fail and are repeated by their clients. A server that nobody else starts again is
started again by its supervisor after `SERVER_RESTART_S`.

Taught in lesson 07.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from simdist.cost.flops import Cost
from simdist.program.values import Bundle, num_bytes
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.state import GroupStates
from simdist.simulation.kernel import Clock
from simdist.trace import Trace
from simdist.trace.records import NO_CAUSE

__all__ = ["SERVER_RESTART_S", "Change", "Held", "ServerRecovery"]

SERVER_RESTART_S = 1.0

Held = dict[int, tuple[Bundle, int]]
"""The versions of groups that a server holds, with their numbers."""


class Rollback(NamedTuple):
    """A group whose changes after a version, up to the newest, are undone."""

    group: int
    version: int
    newest: int


@dataclass(eq=False)
class Change:
    """One change of what a server holds: an update, one that waits for its round, or a round.

    Attributes:
        size_bytes: of what a copy of the server needs to repeat it.
        costs: of what a device computes for it, in order; none where there is nothing to compute.
        undo: takes it back.
        done: is called when it will survive a crash of the server.
        is_safe: whether it does.
        cause: the number of the server's record that its copy waits for; -1: of nothing but the copy's device.
    """

    size_bytes: int
    costs: Sequence[Cost]
    undo: Callable[[], None]
    done: Callable[[], None]
    is_safe: bool = field(default=False, init=False)
    cause: int = field(default=NO_CAUSE, init=False)


class ServerRecovery(ABC):
    """What is kept of one server, and how it is brought back.

    Where it goes back to an older state, the trace has an instant ``rollback`` for each group: its variables, the ``version`` of which it
    has the values again, and how many ``updates`` after that one are undone. The group goes on with the number of the version after these.

    Args:
        task: the server.
        clock, trace: the cluster's.
        states: the versions of all groups.
        forget: is called when what the server knew is lost: which updates it has applied, and those that wait for their round.

    Attributes:
        is_serving: whether it holds what it should.
        is_lost: whether what it held when it died last is gone for good.
        reason: why something was lost, as `why_lost` said then; empty where nothing was.
    """

    def __init__(self, task: Task, clock: Clock, trace: Trace, states: GroupStates, forget: Callable[[], None]) -> None:
        self.task = task
        self.clock = clock
        self.trace = trace
        self.states = states
        self.forget = forget
        self.is_serving = True
        self.is_lost = False
        self.reason = ""
        self.kept: Held = {}
        self._rollbacks: list[Rollback] = []  # of what is being brought back
        self._reserved: dict[str, int] = {}  # the memory for what is being brought back, by cell

    @abstractmethod
    def changed(self, change: Change) -> None:
        """The server has changed what it holds."""

    def changed_at_once(self) -> None:  # noqa: B027
        """Variables of the server were assigned to between steps, or their groups were joined: that holds, with all changes before it."""

    def assigned(self) -> None:
        """Variables of the server were assigned to between steps."""
        self.changed_at_once()

    @abstractmethod
    def _saved(self) -> Held | None:
        """What is left of a server that has just died; None if it is lost."""

    @abstractmethod
    def why_lost(self) -> str:
        """Two sentences for an error: why nothing is left of what the server held, and what keeps it next time."""

    @abstractmethod
    def _bring_back(self, process: Incarnation, size_bytes: int) -> None:
        """Bring what was kept to this process; ends in `_restored`."""

    def died(self, task: Task) -> None:
        """A task has died; what it held has not been dropped yet."""
        if task is self.task:
            self._reserved = {}  # went with the memory of its process
        if task is self.task and (self.is_serving or self.is_lost):  # else what was kept is still kept: it was not back yet
            self.is_serving, self._rollbacks = False, []
            held = self.held()
            saved = self._saved()
            if not held:  # it has nothing to lose; but one whose variables are lost gets none back because a copy has none, either
                saved = None if self.is_lost else {}
            self.is_lost, self.kept = saved is None, self._rolled_back(saved or {}, held)
            if saved is None:
                self._note_reason(held)
                self.forget()

    def lose(self) -> None:
        """What was kept is gone while the server is away; one that held nothing has lost nothing."""
        self._note_reason(self.kept)
        self.is_lost, self.kept, self._rollbacks = self.is_lost or bool(self.kept), {}, []
        self._give_up_reserved()
        self.is_serving = self.task.alive
        self.forget()

    def _note_reason(self, lost: Held) -> None:
        if lost:
            self.reason = self.why_lost()

    def has_lost(self, groups: Sequence[int]) -> bool:
        """Whether one of these groups is gone for good: others may have been made since, which are kept. Without groups: whether any is."""
        if not (groups and self.is_serving and self.task.alive):
            return self.is_lost
        return any(self.states.bundles[self.states.joint(group)] is None for group in groups)

    def started(self, task: Task) -> None:
        """The server's process has been started again."""
        size_bytes = self._kept_bytes()
        if self.is_lost or not self.kept:
            self.is_serving = True
        else:
            self._reserve()
            self._bring_back(task.process, size_bytes)

    def _rolled_back(self, saved: Held, held: Held) -> Held:
        """What is left of what a server held, with numbers of versions that no other state has had.

        To go back is a change like others: it takes the next number. Workers that had read a lost version still send updates, whose
        staleness counts from it.
        """
        kept = dict(saved)
        for number, (bundle, version) in saved.items():
            newest = held[number][1]
            if newest > version:
                kept[number] = bundle, newest + 1
                self._rollbacks.append(Rollback(number, version, newest))
        return kept

    def _record_rollbacks(self, restored: int) -> None:
        """Record what the server has gone back to, after this record."""
        rollbacks, self._rollbacks = self._rollbacks, []
        for group, version, newest in rollbacks:
            cells = self.states.groups[group].cells
            variables = ", ".join(dict.fromkeys(cell.name for cell in cells if cell.kind != "slot"))
            updates = newest - version
            facts = {"variables": variables, "version": version, "updates": updates}
            text = f"{updates} update{'s' if updates > 1 else ''} rolled back"
            self.trace.instant(self.task.name, "rollback", text, self.clock.now, cause=restored, **facts)

    def held(self) -> Held:
        """What the server holds now."""
        states, only = self.states, (self.task.name,)
        found: Held = {}
        for number, (devices, bundle) in enumerate(zip(states.devices, states.bundles, strict=True)):
            if devices == only and bundle is not None:
                found[number] = bundle, states.versions[number]
        return found

    def _restored(self, process: Incarnation, began_s: float) -> None:
        if process is not self.task.process or not process.alive or self.is_lost:
            return
        self._give_up_reserved()
        for number, (bundle, version) in self.kept.items():
            self.states.bundles[number], self.states.versions[number] = bundle, version
            self.states.lie_at(number, (self.task.name,))
            for cell in self.states.groups[number].kept:
                self.task.memory.allocate(cell.name, cell.aval.size_bytes)
        size_bytes = self._kept_bytes()
        text = f"variables of {self.task.name} are back"
        self.task.trouble = self.trace.span(
            self.task.name, "setup", text, began_s, self.clock.now, cause=self.task.trouble, bytes=size_bytes, groups=len(self.kept)
        )
        self.task.processor.last = self.task.trouble
        self._record_rollbacks(self.task.trouble)
        self.kept, self.is_serving = {}, True

    def _kept_bytes(self) -> int:
        return sum(num_bytes(bundle.avals) for bundle, _ in self.kept.values())

    def _reserve(self) -> None:
        """Hold the memory for what is brought back: a variable that is made meanwhile and leaves no room for it is refused."""
        for number in self.kept:
            for cell in self.states.groups[number].kept:
                self.task.memory.allocate(cell.name, cell.aval.size_bytes)
                self._reserved[cell.name] = self._reserved.get(cell.name, 0) + cell.aval.size_bytes

    def _give_up_reserved(self) -> None:
        reserved, self._reserved = self._reserved, {}
        for name, size_bytes in reserved.items():
            self.task.memory.release(name, size_bytes)
