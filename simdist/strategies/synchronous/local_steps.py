"""Local SGD: every replica takes several steps on its own, and only then they average their variables.

Each replica has trainable variables and optimizer slots of its own. After `every` steps the replicas' variables are averaged
in one all-reduce. Without an outer optimizer all go on from the average. With one (DiLoCo), the way from where all began to
the average counts as a gradient, and the outer optimizer takes a step with it from there. That is 1 / every of the bytes.

Between two averages the replicas differ: an evaluation takes their average, and gives each its values back.

Source: Stich, Local SGD Converges Fast and Communicates Little, 2019; Douillard et al., DiLoCo: Distributed Low-Communication
Training of Language Models, 2023 (outer Nesterov momentum).

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.arguments import whole_number
from simdist.caches import BoundedCache
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array
from simdist.program.function import KEPT_SIGNATURES, StepFunction
from simdist.program.half_precision import widened
from simdist.program.operations import Program, Reference
from simdist.program.saved_parts import SavedState
from simdist.program.tracing import active_tracer, is_under_a_trace
from simdist.strategies.synchronous.averaged_variables import AveragedVariables
from simdist.strategies.synchronous.outer_steps import SHARED, OuterSteps, is_by_optimizer, is_trained
from simdist.strategies.synchronous.policies import EveryReplica
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

__all__ = ["LocalSteps", "OuterOptimizer"]


AVERAGE = "average variables"
EVALUATED = "average variables for an evaluation"
ASSIGNED = "average what the mains have assigned"
OWN_STEPS = (AVERAGE, EVALUATED, ASSIGNED, SHARED)

OuterOptimizer: TypeAlias = KerasOptimizer | GradientTransformation | Optimizer | None
"""What moves the shared variables with the average of all replicas; None: nothing, they become the average."""


class LocalSteps(EveryReplica):
    """Counts the training steps of the replicas, and averages their variables after every so many.

    Args:
        every: steps between two averages.
        outer_optimizer: a Keras optimizer or an Optax transformation; None: the average itself.

    Raises:
        TypeError: `every` is no whole number.
        InvalidArgumentError: `every` is below 1, or an outer optimizer is given though the variables are averaged in each step, or it
            scales a loss; when it is attached, options that concern gradients, or another strategy has this policy.
    """

    def __init__(self, every: int, outer_optimizer: OuterOptimizer = None) -> None:
        every = whole_number(every, "sync_every", 1)
        if outer_optimizer is not None and every == 1:
            raise InvalidArgumentError("outer_optimizer is for replicas that take steps of their own: give sync_every=2 or more with it.")
        self.every = every
        inner = outer_optimizer.wrapped if isinstance(outer_optimizer, Optimizer) else outer_optimizer
        self.outer = None if inner is None else OuterSteps(inner)
        self.num_steps = self.num_averages = 0
        self._is_evaluating = False
        self._averages: BoundedCache[frozenset[int], StepFunction] = BoundedCache(KEPT_SIGNATURES)  # by what has changed
        self._mean: StepFunction | None = None
        self._reads: BoundedCache[Reference, StepFunction] = BoundedCache(KEPT_SIGNATURES)
        self._variables = AveragedVariables()  # what these two are about

    @property
    def local_updates(self) -> bool:
        return True

    def attach(self, strategy: SteppingStrategy) -> None:
        if self._mean is not None:
            raise InvalidArgumentError("This LocalSteps counts the steps of another strategy. Make one for each strategy.")
        wanted = [name for name, said in strategy.options.of_gradients().items() if said]
        if wanted:
            raise InvalidArgumentError(
                f"{', '.join(wanted)} of communication_options concern gradients, and with sync_every={self.every} variables are exchanged "
                "instead. Leave one of them out."
            )
        self._make_averages()

    def _make_averages(self) -> None:
        """The steps that average: each is traced for the variables that there are."""
        self._averages.clear()
        self._mean = StepFunction(lambda: self._assign_means(self._variables.present()), name=EVALUATED, counts=False)

    def _renew_averages(self, strategy: SteppingStrategy) -> None:
        """Average what was made since the last average as well: a model may be built after another one was trained."""
        if self._variables.are_outdated(strategy):
            self._mean = None  # these keep what they were traced for
            self._averages.clear()
            self._variables.find(strategy)
            self._make_averages()

    def _trained(self, strategy: SteppingStrategy) -> list[Variable]:
        """The variables that differ among the replicas."""
        self._renew_averages(strategy)
        return self._variables.present()

    def is_local(self, variable: Variable) -> bool:
        """Those that are trained; where all began is the same for all replicas."""
        return is_trained(variable) and not (self.outer is not None and self.outer.makes_anchors)

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """Before the first training step, remember where all began."""
        if self.outer is None or not _trains(programs):
            return
        if self.outer.renew():
            self._make_averages()
        self._renew_averages(strategy)
        self.outer.before(strategy, programs[0], self._variables.known)

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        if self.outer is not None and not self._is_evaluating:
            self.outer.assigned(variable, rule, operand)

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """After every so many training steps the replicas average their variables."""
        if self.outer is not None and programs[0].name not in OWN_STEPS:
            self.outer.note(programs[0])
        if not _trains(programs):
            return
        self.num_steps += 1
        if self.num_steps % self.every == 0:
            self._take_average(strategy)
            self.num_averages += 1

    def _take_average(self, strategy: SteppingStrategy) -> None:
        self._renew_averages(strategy)
        changed = frozenset[int]() if self.outer is None else self.outer.changed
        average = self._averages.get(changed, lambda: StepFunction(lambda: self._averaged(changed), name=AVERAGE, counts=False))
        try:
            strategy.step(average, (), {})
        except BaseException as error:
            if not strategy.launched:  # another main may have its average, and counts on
                self.num_steps -= 1
                error.add_note(self._what_was_taken(strategy))
            raise
        if self.outer is not None:
            self.outer.begin_anew()

    def _what_was_taken(self, strategy: SteppingStrategy) -> str:
        average = f"It was the average of sync_every={self.every}"
        if not all(member.alive for member in strategy.members):
            return f"{average}, after a step that all replicas had taken."
        return f"{average}. All replicas have taken the step before it: do not repeat that step. The next step is followed by the average."

    def _means(self, trained: Sequence[Variable]) -> list[jax.Array]:
        """The averages of variables over the replicas."""
        tracer = active_tracer()
        assert tracer is not None
        summands = [widened(tracer.read(variable)) for variable in trained]
        totals = tracer.collective("all_reduce", summands, label="variables", averaged=True)
        return [(total / tracer.num_replicas).astype(v.dtype) for v, total in zip(trained, totals, strict=True)]

    def _assign(self, trained: Sequence[Variable], values: Sequence[jax.Array]) -> None:
        tracer = active_tracer()
        assert tracer is not None
        if trained:  # all at once: each assignment is a kernel of all that a device holds
            tracer.update("assign", trained, values)

    def _assign_means(self, trained: Sequence[Variable]) -> None:
        self._assign(trained, self._means(trained))

    def _averaged(self, changed: frozenset[int]) -> None:
        trained = self._variables.present()
        values = self._means(trained)
        if self.outer is not None:
            values = self.outer.moved(trained, values, changed)
        self._assign(trained, values)

    def agree(self, strategy: SteppingStrategy, variables: Sequence[Variable]) -> None:
        given = [
            variable for variable in variables if variable.placement.spread == "replicas" and jnp.issubdtype(variable.dtype, jnp.inexact)
        ]
        if given and strategy.launched and strategy.num_replicas_in_sync > 1:
            strategy.once(lambda: self._average_assigned(given), ASSIGNED, counts=False)

    def _average_assigned(self, variables: Sequence[Variable]) -> None:
        means = self._means(variables)
        self._assign(variables, means)
        if self.outer is not None and not self._is_evaluating:
            self.outer.begin_at(variables, means)

    @property
    def _is_apart(self) -> bool:
        """Whether the replicas have taken steps since their last average, and have what these have made of it."""
        return self.num_steps % self.every > 0 and not self._is_evaluating

    def read_across(self, strategy: SteppingStrategy) -> Callable[[Variable], Array] | None:
        return partial(self._read, strategy) if strategy.launched and strategy.num_replicas_in_sync > 1 else None

    def _read(self, strategy: SteppingStrategy, variable: Variable) -> Array:
        """The average of all mains, as where one program drives all replicas, wherever each main may have another value."""
        differs = self._is_apart if is_trained(variable) else self.num_steps > 0  # slots are of each replica's own steps from the first on
        if not differs or strategy.evaluates_alone or is_under_a_trace():
            return strategy.store.value_here(variable)
        name = f"read {variable.name}"
        step = self._reads.get(variable.ref(), lambda: StepFunction(lambda: self._means([variable])[0], name=name, counts=False))
        return strategy.step(step, (), {}).value()

    # -- what is kept from step to step ---------------------------------------------------------------------------

    @property
    def kept(self) -> Mapping[str, object]:
        return {"local_steps": self} if self.outer is None else {"local_steps": self, "outer_optimizer": self.outer.optimizer}

    def state_dict(self) -> SavedState:
        """How many steps were taken, how often the replicas have averaged, and what has changed since then."""
        counts = {"steps": self.num_steps, "averages": self.num_averages}
        return counts if self.outer is None else {**counts, "changed": self.outer.changed_names}

    def load_state_dict(self, state: SavedState) -> None:
        """Go to a saved state. An outer optimizer that had no slots then gets new ones before the next step."""
        if self.outer is not None:
            self.outer.is_outdated = (self.outer.is_outdated or self.num_averages > 0) and not state["averages"]
            self.outer.begin_anew(state.get("changed"))
        self.num_steps, self.num_averages = int(state["steps"]), int(state["averages"])

    @contextmanager
    def temporarily(self) -> Iterator[None]:
        before, self._is_evaluating = self._is_evaluating, True
        try:
            yield
        finally:
            self._is_evaluating = before

    @contextmanager
    def evaluating(self, strategy: SteppingStrategy) -> Iterator[None]:
        if not self._is_apart or (strategy.evaluates_alone and len(strategy.local_members) == 1):
            yield
            return
        store, trained = strategy.store, self._trained(strategy)
        assert self._mean is not None
        values = [] if strategy.engine.numerics == "off" else [(variable, store.local_values(variable)) for variable in trained]
        with self.temporarily():
            try:
                if strategy.evaluates_alone:
                    for variable, of_replicas in values:
                        store.assign_local(variable, [store.value_here(variable)] * len(of_replicas))
                else:
                    strategy.step(self._mean, (), {})
                yield
            finally:
                for variable, of_replicas in values:
                    store.assign_local(variable, of_replicas)


def _trains(programs: Sequence[Program]) -> bool:
    """Whether a step changes variables by an optimizer, other than the outer one's."""
    program = programs[0]
    return program.name != AVERAGE and any(map(is_by_optimizer, program.operations))
