"""The steps of one closure on its worker: by callbacks, as long as no code of users has to run between them."""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import TimedOutError
from simdist.program.bound_call import BoundCall
from simdist.program.values import Bundle
from simdist.runtime.interpreter import OVER, Step
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.simulated.closure_call import ClosureCall
from simdist.runtime.simulated.closure_replicas import ClosureReplicas
from simdist.runtime.simulated.collective_plans import CollectivePlans
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.task_runtime import SimulatedTask
from simdist.runtime.simulated.world import World
from simdist.runtime.work import LinkedStep, StepCall, StepResult, WorkerStep
from simdist.runtime.worker_replicas import LinkedReplicas, LocalReplicas, ReplicaCalls

__all__ = ["ClosureSteps", "WorkerDevices"]


class WorkerDevices:
    """The devices on which a worker takes its steps: its own, or one for each of its replicas.

    Args:
        world, task: the worker.
        local: its replicas; None: it is one.
    """

    def __init__(self, world: World, task: Task, local: LocalReplicas | None) -> None:
        self.world = world
        self.task = task
        self.local = local
        self.plans = CollectivePlans()
        self.processors = [task.processor] if local is None else [world.add_device(device) for device in local.on(task.name)]

    def priced(self, linked: LinkedStep) -> list[PricedProgram]:
        """The prices of a step on each device.

        Raises:
            ResourceExhaustedError: it does not fit into the memory of a device.
        """
        programs = linked.programs if isinstance(linked, LinkedReplicas) else (linked,)
        found = list(map(self.world.prices.of, programs))
        for priced, processor in zip(found, self.processors, strict=True):
            priced.require_memory(processor.memory, self.world.states.make_room)
        return found

    def stop_computing(self) -> None:
        """Free the devices: the result of their work is not needed."""
        for processor in self.processors:
            processor.free_s = min(processor.free_s, self.world.clock.now)


class ClosureSteps:
    """The steps of one closure, one after the other.

    Args:
        devices: where.
        closure: whose steps they are.
        work: the steps: what the closure is, or one in the middle of its plain function.
        call: the bound arguments.
        ended: is called when they are over, have failed, or need code of users to go on.
    """

    def __init__(
        self,
        devices: WorkerDevices,
        closure: ClosureCall,
        work: WorkerStep,
        call: StepCall,
        ended: Callable[[ClosureSteps, BaseException | None], None],
    ) -> None:
        self.devices = devices
        self.closure = closure
        self.call = call
        self.ended = ended
        self.work = work
        self.left = work.repeat
        self.before: list[StepResult] = []  # of the steps that have ended, where the closure keeps them
        self.running: _OnOneDevice | ClosureReplicas
        self.linked: LinkedStep
        self.is_under_way = False

    def run(self, linked: LinkedStep, priced: list[PricedProgram]) -> None:
        """Take steps until none is left, or the program does not fit the next one."""
        self.linked = linked
        self.running = self._running(linked, priced)
        self.closure.step += 1
        self.is_under_way = True
        self.running.go()

    def _running(self, linked: LinkedStep, priced: list[PricedProgram]) -> _OnOneDevice | ClosureReplicas:
        devices, call, closure = self.devices, self.call, self.closure
        if isinstance(linked, LinkedReplicas):
            assert isinstance(call, ReplicaCalls) and devices.local is not None
            where = devices.world, devices.task, devices.local, devices.plans
            return ClosureReplicas(*where, linked, priced, call, closure, self._replicas_stepped)
        assert isinstance(call, BoundCall)
        runtime = SimulatedTask(devices.world, devices.task, priced[0], closure)
        return _OnOneDevice(runtime, Step(linked, runtime, call.iterators, call.arrays, self._stepped))

    def _stepped(self, step: Step) -> bool:
        """Whether to take another step at once."""
        assert isinstance(self.linked, LinkedProgram)
        if self._goes_on(step.error, (self.linked,), (step.result,)):
            return True
        step.over = True
        self._end(step.error)
        step.task.step = OVER
        return False

    def _replicas_stepped(self, replicas: ClosureReplicas) -> bool:
        """As `_stepped`, of several replicas."""
        if self._goes_on(replicas.error, replicas.linked.programs, replicas.results):
            return True
        replicas.over = True
        self._end(replicas.error)
        return False

    def _goes_on(self, error: BaseException | None, programs: tuple[LinkedProgram, ...], results: tuple[Bundle, ...]) -> bool:
        """A step has ended: whether another one follows at once; otherwise its results are those of the closure."""
        self.left -= 1
        if error is not None:
            if not isinstance(error, TimedOutError):  # after which the closure is run again
                self.closure.not_drawn()
            return False
        if self.left and self.work.keeps_each:
            self.before.append(StepResult(programs, results))
        if self.left and self.work.still_fits(self.linked, self.call):
            self.closure.step += 1
            return True
        self.closure.value = StepResult(programs, results, tuple(self.before))
        return False

    def _end(self, error: BaseException | None) -> None:
        self.is_under_way = False
        self.ended(self, error)

    def stop(self) -> None:
        """Stop the steps without calling `ended`."""
        self.running.stop()

    def waits_for(self) -> str | Callable[[], str]:
        return self.running.waits_for()


class _OnOneDevice:
    """The steps of the only replica of a worker."""

    def __init__(self, runtime: SimulatedTask, step: Step) -> None:
        self.runtime = runtime
        self.step = step

    def go(self) -> None:
        self.step.go()

    def stop(self) -> None:
        self.step.stop()
        self.runtime.drop_call()

    def waits_for(self) -> str | Callable[[], str]:
        return self.runtime.waits_for
