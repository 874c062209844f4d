"""Local SGD: every replica takes several steps on its own, and only then they average their variables.

Each replica has trainable variables and optimizer slots of its own. After `every` steps the replicas' variables are averaged
in one all-reduce. Without an outer optimizer all go on from the average. With one (DiLoCo), the way from where all began to
the average counts as a gradient, and the outer optimizer takes a step with it from there. That is 1 / every of the bytes.

Source: Stich, Local SGD Converges Fast and Communicates Little, 2019; Douillard et al., DiLoCo: Distributed Low-Communication
Training of Language Models, 2023 (outer Nesterov momentum).

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.function import StepFunction
from simdist.program.operations import Program, Update
from simdist.program.tracing import active_tracer
from simdist.strategies.synchronous.policies import EveryReplica
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

__all__ = ["LocalSteps", "OuterOptimizer"]


AVERAGE = "average variables"

OuterOptimizer: TypeAlias = KerasOptimizer | GradientTransformation | Optimizer | None
"""What moves the shared variables with the average of all replicas; None: nothing, they become the average."""


class LocalSteps(EveryReplica):
    """Counts the training steps of the replicas, and averages their variables after every so many.

    Args:
        every: steps between two averages.
        outer_optimizer: a Keras optimizer or an Optax transformation; None: the average itself.

    Raises:
        TypeError: `every` is no whole number.
        InvalidArgumentError: `every` is below 1, or an outer optimizer is given though the variables are averaged in each step; when it
            is attached, options that concern gradients, or another strategy has this policy.
    """

    def __init__(self, every: int, outer_optimizer: OuterOptimizer = None) -> None:
        every = whole_number(every, "sync_every", 1)
        if outer_optimizer is not None and every == 1:
            raise InvalidArgumentError("outer_optimizer is for replicas that take steps of their own: give sync_every=2 or more with it.")
        self.every = every
        inner = outer_optimizer.wrapped if isinstance(outer_optimizer, Optimizer) else outer_optimizer
        self.outer = None if inner is None else Optimizer(inner)
        self.num_steps = 0
        self.anchors: list[Variable] = []
        self._makes_anchors = False
        self._average: StepFunction | None = None

    @property
    def local_updates(self) -> bool:
        return True

    def attach(self, strategy: SteppingStrategy) -> None:
        if self._average is not None:
            raise InvalidArgumentError("This LocalSteps counts the steps of another strategy. Make one for each strategy.")
        wanted = [name for name, said in strategy.options.of_gradients().items() if said]
        if wanted:
            raise InvalidArgumentError(
                f"{', '.join(wanted)} of communication_options concern gradients, and with sync_every={self.every} variables are exchanged "
                "instead. Leave one of them out."
            )
        self._average = StepFunction(lambda: self._averaged(strategy), name=AVERAGE)

    def is_local(self, variable: Variable) -> bool:
        """Those that are trained; where all began is the same for all replicas."""
        return variable.trainable and not self._makes_anchors

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """Before the first training step, remember where all began."""
        if self.outer is None or self.anchors or not _trains(programs):
            return
        trained, self._makes_anchors = self._trained(strategy), True
        try:
            with strategy.scope():
                for variable in trained:
                    value = variable.placement.store.cell_value(variable, variable.placement.cells[0])
                    self.anchors.append(Variable(value, f"{variable.name}/anchor"))
        finally:
            self._makes_anchors = False

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """After every so many training steps the replicas average their variables."""
        if not _trains(programs):
            return
        self.num_steps += 1
        if self.num_steps % self.every == 0:
            assert self._average is not None
            strategy.step(self._average, (), {})

    def _trained(self, strategy: SteppingStrategy) -> list[Variable]:
        """The variables that differ among the replicas: those that are trained."""
        anchors = set(map(id, self.anchors))
        return [v for v in strategy.variables if v.trainable and id(v) not in anchors and v.placement.spread == "replicas"]

    def _averaged(self, strategy: SteppingStrategy) -> None:
        tracer = active_tracer()
        assert tracer is not None
        trained = self._trained(strategy)
        totals = tracer.collective("all_reduce", [tracer.read(variable) for variable in trained], label="variables")
        values = [total / tracer.num_replicas for total in totals]
        if self.outer is not None:
            moved = [tracer.read(anchor) - value for anchor, value in zip(self.anchors, values, strict=True)]
            self.outer.apply_gradients(zip(moved, self.anchors, strict=True), skip_gradients_aggregation=True)
            values = [tracer.read(anchor) for anchor in self.anchors]
        for variable, value in zip(trained, values, strict=True):
            tracer.update("assign", [variable], [value])


def _trains(programs: Sequence[Program]) -> bool:
    """Whether a step changes variables by an optimizer, other than the outer one's."""
    program = programs[0]
    return program.name != AVERAGE and any(isinstance(op, Update) and not isinstance(op.rule, str) for op in program.operations)
