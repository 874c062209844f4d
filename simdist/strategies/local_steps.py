"""Local SGD: every replica takes several steps on its own, and only then they bring their variables together.

Each replica has trainable variables and optimizer slots of its own. After `every` steps the replicas' variables are averaged
in one all-reduce. Without an outer optimizer all go on from the average. With one (DiLoCo), the way from where all began to
the average counts as a gradient, and the outer optimizer takes a step with it from there. That is 1 / every of the bytes.

Source: Stich, Local SGD Converges Fast and Communicates Little, 2019; Douillard et al., DiLoCo: Distributed Low-Communication
Training of Language Models, 2023 (outer Nesterov momentum).

Taught in lesson 03.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.function import StepFunction
from simdist.program.operations import Program, Update
from simdist.program.tracing import active_tracer
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

__all__ = ["LocalSteps"]


class LocalSteps:
    """Counts the steps of a strategy's replicas, and brings their variables together.

    Args:
        strategy: whose.
        every: steps between two meetings; 1: in each step, without any of this.
        outer_optimizer: a Keras optimizer or an Optax transformation; None: the average itself.

    Raises:
        TypeError: `every` is no whole number.
        InvalidArgumentError: `every` is below 1, or an outer optimizer is given though every step meets.
    """

    def __init__(self, strategy: Any, every: int, outer_optimizer: Any = None) -> None:
        every = whole_number(every, "sync_every", 1)
        if outer_optimizer is not None and every == 1:
            raise InvalidArgumentError("outer_optimizer is for replicas that take steps of their own: give sync_every=2 or more with it.")
        self.strategy = strategy
        self.every = every
        self.outer = None if outer_optimizer is None else Optimizer(getattr(outer_optimizer, "wrapped", outer_optimizer))
        self.steps = 0
        self.anchors: list[Variable] = []
        self._together = StepFunction(self._average, name="average variables")

    def own(self) -> list[Variable]:
        """The variables that differ among the replicas: those that are trained."""
        anchors = set(map(id, self.anchors))
        return [v for v in self.strategy.variables if v.trainable and id(v) not in anchors and v.placement.spread == "replicas"]

    def before(self, programs: Sequence[Program]) -> None:
        """A step is about to run; where the first training step is, remember where all began."""
        if self.outer is None or self.anchors or not _trains(programs):
            return
        own, self.strategy.local_updates = self.own(), False
        with self.strategy.scope():
            for variable in own:
                self.anchors.append(
                    Variable(variable.placement.store.cell_value(variable, variable.placement.cells[0]), f"{variable.name}/anchor")
                )
        self.strategy.local_updates = True

    def after(self, programs: Sequence[Program]) -> None:
        """A step is over; every so many training steps the replicas meet."""
        if not self.strategy.local_updates or not _trains(programs):
            return
        self.steps += 1
        if self.steps % self.every == 0:
            self.strategy.step(self._together, (), {})

    def _average(self) -> None:
        tracer = active_tracer()
        assert tracer is not None
        own = self.own()
        totals = tracer.collective("all_reduce", [tracer.read(variable) for variable in own], label="variables")
        values = [total / tracer.num_replicas for total in totals]
        if self.outer is not None:
            moved = [tracer.read(anchor) - value for anchor, value in zip(self.anchors, values, strict=True)]
            self.outer.apply_gradients(zip(moved, self.anchors, strict=True), skip_gradients_aggregation=True)
            values = [tracer.read(anchor) for anchor in self.anchors]
        for variable, value in zip(own, values, strict=True):
            tracer.update("assign", [variable], [value])


def _trains(programs: Sequence[Program]) -> bool:
    """Whether a step changes variables by an optimizer, other than the outer one's."""
    program = programs[0]
    return program.name != "average variables" and any(isinstance(op, Update) and not isinstance(op.rule, str) for op in program.operations)
