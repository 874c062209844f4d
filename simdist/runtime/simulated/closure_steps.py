"""The steps of one closure on its worker: by callbacks, as long as no code of users has to run between them."""

from __future__ import annotations

from collections.abc import Callable

from simdist.program.bound_call import BoundCall
from simdist.runtime.interpreter import Step
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.simulated.closure_call import ClosureCall
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World
from simdist.runtime.work import StepResult

__all__ = ["ClosureSteps"]


class ClosureSteps:
    """The steps of one closure, one after the other.

    Args:
        world, task: where.
        closure: whose steps they are.
        call: the bound arguments.
        ended: is called when they are over, have failed, or need code of users to go on.
    """

    def __init__(
        self, world: World, task: Task, closure: ClosureCall, call: BoundCall, ended: Callable[[ClosureSteps, BaseException | None], None]
    ) -> None:
        assert closure.work is not None
        self.world = world
        self.task = task
        self.closure = closure
        self.call = call
        self.ended = ended
        self.work = closure.work
        self.left = closure.work.repeat
        self.runtime: SimulatedTask
        self.step: Step
        self.linked: LinkedProgram
        self.is_under_way = False

    def run(self, linked: LinkedProgram, priced: PricedProgram) -> None:
        """Take steps until none is left, or the program does not fit the next one."""
        self.linked = linked
        self.runtime = SimulatedTask(self.world, self.task, priced, self.closure)
        self.step = Step(linked, self.runtime, self.call.iterators, self.call.arrays, self._stepped)
        self.closure.step += 1
        self.is_under_way = True
        self.step.go()

    def _stepped(self, step: Step) -> bool:
        """Whether to take another step at once."""
        self.left -= 1
        if step.error is None:
            if self.left and self.work.still_fits(self.linked, self.call):
                self.closure.step += 1
                return True
            self.closure.value = StepResult(self.linked, step.result)
        step.over = True
        self.is_under_way = False
        self.ended(self, step.error)
        return False

    def stop(self) -> None:
        """Stop the steps without calling `ended`."""
        self.step.stop()
        self.runtime.drop_call()

    def waits_for(self) -> str | Callable[[], str]:
        return self.runtime.waits_for
