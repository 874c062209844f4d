"""A closure call: a closure that is sent to a worker, and its reply."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from simdist.errors import TimedOutError
from simdist.program.arrays import bytes_of_arrays
from simdist.program.values import Bundle
from simdist.runtime.closure_updates import ClosureUpdates
from simdist.runtime.linked import Apply
from simdist.runtime.serving import NOT_IN_ROUNDS, Ticket
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.served import Served
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.runtime.work import Drawn, PlainFunction, Returned, StepResult, WorkerStep
from simdist.simulation.fiber import Gate
from simdist.trace.records import NO_CAUSE

__all__ = ["ClosureCall"]

KeptChange = tuple[Apply, PricedProgram, Bundle]
"""An update, the prices of its program, and its operands."""


class ClosureCall:
    """A closure that is sent to a worker, and its reply; the coordinator's `Handle`.

    Args:
        world: where it is.
        task: the worker.
        number: of the closure.
        work: the step; or
        function: what is called.
        served: the servers of its coordinator.
        ticket: what its messages to servers carry.
        argument_bytes: of the arrays among its arguments.

    Attributes:
        updates: of the chief's variables, which count if the coordinator accepts the reply.
        drawn: as of the steps that it takes; a plain function has one from its first step on.
        step: that ran last, from 1 on.
        began_s: when the worker began with it.
        ordinal: its number among those that this worker was sent.
        cause: the number of the last record that the closure waited for; of its reply, that of its own record.
    """

    def __init__(
        self,
        world: World,
        task: Task,
        number: int,
        served: Served,
        work: WorkerStep | None = None,
        function: PlainFunction | None = None,
        ticket: Ticket = NOT_IN_ROUNDS,
        argument_bytes: int = 0,
    ) -> None:
        self.world = world
        self.served = served
        self.rounds = served.rounds or None
        self.ticket = ticket
        self.argument_bytes = argument_bytes
        self.task = task
        self.number = number
        self.work = work
        self.function = function
        self.value: Returned = None
        self.error: BaseException | None = None
        self.updates: ClosureUpdates[KeptChange] = ClosureUpdates(partial(_changed, world, task))  # not a method, which would hold this
        self.drawn: dict[int, Drawn] = {} if work is None else work.drawn
        self.step = 0
        self.began_s = 0.0
        self.ordinal = 0
        self.cause = NO_CAUSE
        self.has_replied = False
        self._listeners: list[Callable[[], None]] = []
        self._sent_s = world.clock.now

    def reply(self, _: object) -> None:
        """The reply has arrived at the chief."""
        if not self.has_replied:
            self.has_replied = True
            self.world.chief.processor.last = self.cause
            listeners, self._listeners = self._listeners, []  # they know the call, and would keep it until the collector comes by
            for listener in listeners:
                listener()

    def wait(self) -> Returned:
        """Block until there is a reply."""
        gate = Gate(self.world.clock)
        self.then(gate.open)
        gate.wait(f"closure {self.number}")
        if self.error is not None:
            raise self.error
        return self.value

    def then(self, replied: Callable[[], None]) -> None:
        """Call a function when the reply has come."""
        if self.has_replied:
            replied()
        else:
            self._listeners.append(replied)

    def accept(self) -> None:
        """Accept the reply: what travelled with it is applied on the chief."""
        chief = self.world.chief
        now, server = self.world.now, self.world.servers[chief.name]
        for update, priced, operands in self.updates.all:
            server.commit(update, priced.sites[update.number], operands, now, now, (chief.name, chief.steps, now), None)
        for listener in self.world.closure_completed:
            listener()

    def draw(self) -> Drawn:
        """What the random numbers of the step that runs now follow from; the worker that runs it first counts it."""
        if self.step not in self.drawn:
            self.drawn[self.step] = self.task.name, self.task.draws
            self.task.draws += 1
        return self.drawn[self.step]

    def not_drawn(self) -> None:
        """The step that runs now has failed, and is no draw of its worker."""
        if self.drawn.get(self.step) == (self.task.name, self.task.draws - 1):
            del self.drawn[self.step]
            self.task.draws -= 1

    def keep(self, update: Apply, priced: PricedProgram, operands: Bundle) -> None:
        """Add an update that travels with the reply."""
        self.updates.add(update.group, (update, priced, operands))

    @property
    def reply_bytes(self) -> int:
        """The bytes of the arrays that its reply brings: results, and operands of updates."""
        updates = sum([update.size_bytes for update, _, _ in self.updates.all])
        if self.error is not None:
            return 0
        return updates + (self.value.size_bytes if isinstance(self.value, StepResult) else bytes_of_arrays(self.value))

    @property
    def has_changes(self) -> bool:
        """Whether there are updates of the chief's variables."""
        return bool(self.updates.all)

    def seen(self, group: int, present: Bundle) -> Bundle:
        """A group as the closure sees it, which has perhaps changed it."""
        return self.updates.seen(group, present)

    def unheard(self, _: object) -> None:
        """The closure, or its reply, was lost without an error: the call ends by its time-out."""
        delay_s = max(0.0, self._sent_s + CALL_TIMEOUT_S - self.world.now)
        self.world.clock.after(delay_s, self._timed_out)

    def _timed_out(self, _: object) -> None:
        if not self.has_replied:
            self.error = TimedOutError(f"{self.task.name} did not reply to closure {self.number} within {CALL_TIMEOUT_S:g} s.")
            self.reply(None)


def _changed(world: World, task: Task, version: Bundle, change: KeptChange) -> Bundle:
    """The next version of a group, as a closure on a task sees it."""
    update, priced, operands = change
    where = task.name, task.steps, world.now
    return world.ledger.call(priced.sites[update.number], [version, operands], None, (), where)[0]
