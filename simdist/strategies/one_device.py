"""`OneDeviceStrategy`: everything on one device. What all other strategies are compared with."""

from __future__ import annotations

from typing import Any

from simdist import debugging
from simdist.errors import OutOfRangeError
from simdist.program.function import BoundCall, StepFunction
from simdist.program.values import Bundle
from simdist.runtime.interpreter import run_step
from simdist.runtime.linked import LinkedProgram
from simdist.runtime.linking import link
from simdist.runtime.simulated_task import SimulatedTask
from simdist.simulation.task_context import active_context
from simdist.strategies.base import Strategy
from simdist.strategies.context import get_strategy, register_default

__all__ = ["LocalStrategy", "OneDeviceStrategy", "run_local"]


class LocalStrategy(Strategy):
    """A strategy whose steps run on one task, and whose variables lie there."""

    def __init__(self) -> None:
        here = active_context().locals.get("here")
        self._task = None if here is None else here[1].name
        super().__init__(None if here is None else here[0])
        self.linked: dict[int, LinkedProgram] = {}

    @property
    def home(self) -> str:
        return self._task or super().home

    def run_step(self, fn: StepFunction, call: BoundCall) -> tuple[LinkedProgram, Bundle]:
        """Run one step on this strategy's task; it takes virtual time."""
        try:
            program = fn.program(call, context=id(self))
        except StopIteration:
            raise OutOfRangeError("The dataset has run out. Ask for fewer steps, or end it with .repeat().") from None
        linked = self.linked.get(id(program))
        if linked is None or linked.version != self.store.layout.version:
            linked = self.linked[id(program)] = link(program, self.store.layout, self.runtime.ledger)
        linked.require_memory(self.runtime.tasks[self.home].memory, max(1, len(self.devices)))
        task = SimulatedTask(self.runtime, self.runtime.tasks[self.home], devices=self.devices)
        try:
            return linked, run_step(linked, task, call.iterators, call.arrays)
        except Exception as error:
            here = self.runtime.tasks[self.home]
            debugging.report(error, f"step {here.steps} of {fn.name}", self.home, here.incarnation, 0, self.runtime.now)
            raise

    @property
    def devices(self) -> list[str]:
        """The lanes of this strategy's devices; empty for the task's own lane."""
        return []


class OneDeviceStrategy(LocalStrategy):
    """All variables and all computation on one device.

    Args:
        device: its name, for people; default "cpu:0".

    Example:
        >>> import simdist as sd
        >>> strategy = sd.OneDeviceStrategy("cpu:0")
        >>> with strategy.scope():
        ...     v = sd.Variable(2.0, name="v")
        >>> float(v)
        2.0
    """

    def __init__(self, device: str = "cpu:0") -> None:
        self.device = device
        super().__init__()


def run_local(fn: StepFunction, call: BoundCall) -> Any:
    """Run a step under the strategy in scope, for a caller that wants its values."""
    strategy = get_strategy()
    if not isinstance(strategy, LocalStrategy):
        raise TypeError(
            f"A step was called directly under {type(strategy).__name__}, whose steps run on workers. "
            "Use ClusterCoordinator(strategy).schedule(fn, args=...)."
        )
    linked, bundle = strategy.run_step(fn, call)
    return linked.rebuild(list(strategy.runtime.ledger.arrays(bundle)))


StepFunction.run_here = staticmethod(run_local)
register_default(OneDeviceStrategy)
