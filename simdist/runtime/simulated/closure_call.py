"""A closure on its way to a worker and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simdist.errors import TimedOutError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.runtime.work import Worker, WorkerStep
from simdist.simulation.fiber import Gate

__all__ = ["ClosureCall"]


class ClosureCall:
    """A closure on its way to a worker and back: what the coordinator holds of it, as `Handle`.

    Args:
        world: where it is.
        task: the worker.
        number: of the closure.
        work: the step; or
        function: what is called.

    Attributes:
        updates: of the chief's variables, which count if the coordinator accepts the reply.
        step: that ran last, from 1 on.
        began_s: when the worker began with it.
    """

    def __init__(
        self, world: World, task: Task, number: int, work: WorkerStep | None = None, function: Callable[[Worker], Any] | None = None
    ) -> None:
        self.world = world
        self.task = task
        self.number = number
        self.work = work
        self.function = function
        self.value: Any = None
        self.error: BaseException | None = None
        self.updates: list[tuple[Apply, PricedProgram, Bundle]] = []
        self.step = 0
        self.began_s = 0.0
        self.has_replied = False
        self._told: list[Callable[[], None]] = []
        self._sent_s = world.clock.now

    def reply(self, _: Any) -> None:
        """The reply has come to the chief."""
        if not self.has_replied:
            self.has_replied = True
            for told in self._told:
                told()

    def wait(self) -> Any:
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
            self._told.append(replied)

    def accept(self) -> None:
        """The reply counts: what travelled with it is applied on the chief."""
        chief = self.world.chief
        now, server = self.world.now, self.world.servers[chief.name]
        for update, priced, operands in self.updates:
            server.commit(update, priced, operands, now, now, (chief.name, chief.steps, now), None)

    def keep(self, update: Apply, priced: PricedProgram, operands: Bundle) -> None:
        """An update that travels with the reply."""
        self.updates.append((update, priced, operands))

    def unheard(self, _: Any) -> None:
        """The closure, or its reply, was lost, and nobody says so: it ends by its time-out."""
        delay_s = max(0.0, self._sent_s + CALL_TIMEOUT_S - self.world.now)
        self.world.clock.after(delay_s, self._timed_out)

    def _timed_out(self, _: Any) -> None:
        if not self.has_replied:
            self.error = TimedOutError(f"{self.task.name} did not reply to closure {self.number} within {CALL_TIMEOUT_S:g} s.")
            self.reply(None)
