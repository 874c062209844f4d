"""Local SGD: every replica takes several steps on its own, and only then they average their variables.

Each replica has trainable variables and optimizer slots of its own. After `every` steps the replicas' variables are averaged
in one all-reduce. Without an outer optimizer all go on from the average. With one (DiLoCo), the way from where all began to
the average counts as a gradient, and the outer optimizer takes a step with it from there. That is 1 / every of the bytes.

Where all began is a companion of each variable, its *anchor*. What is assigned from outside of a step moves it as well.
Between two averages the replicas differ: an evaluation takes their average, and gives each its values back.

Source: Stich, Local SGD Converges Fast and Communicates Little, 2019; Douillard et al., DiLoCo: Distributed Low-Communication
Training of Language Models, 2023 (outer Nesterov momentum).

Taught in lesson 03b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias, TypeGuard
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp

from simdist.arguments import whole_number
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array
from simdist.program.function import StepFunction
from simdist.program.half_precision import widened
from simdist.program.operations import Operation, Program, Update
from simdist.program.saved_parts import SavedState, built
from simdist.program.tracing import active_tracer
from simdist.strategies.synchronous.policies import EveryReplica
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.companions import keep_beside
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, is_keras_optimizer
from simdist.variables.optimizer import Optimizer
from simdist.variables.reachability import KnownVariable
from simdist.variables.variable import Variable

__all__ = ["LocalSteps", "OuterOptimizer"]


AVERAGE = "average variables"
EVALUATED = "average variables for an evaluation"
SHARED = "share where all begin"
ASSIGNED = "average what the mains have assigned"
ANCHOR = "anchor"

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
        self.num_steps = self.num_averages = 0
        self.anchors: list[Variable] = []
        self._makes_anchors = self._renews_outer = self._is_evaluating = self._has_assigned_anchors = False
        self._anchored: list[KnownVariable[Variable]] = []  # whose the anchors are
        self._average: StepFunction | None = None
        self._mean: StepFunction | None = None
        self._averages: list[Variable] = []  # what these two are about, and how many variables had been made then
        self._num_made = 0
        self._share: StepFunction | None = None

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
        self._make_averages(strategy)
        self._share = StepFunction(self._shared, name=SHARED, counts=False)

    def _make_averages(self, strategy: SteppingStrategy) -> None:
        """The steps that average: each is traced for the variables that there are."""
        self._average = StepFunction(lambda: self._averaged(strategy), name=AVERAGE, counts=False)
        self._mean = StepFunction(
            lambda: self._assign(self._trained(strategy), self._means(self._trained(strategy))), name=EVALUATED, counts=False
        )

    def _renew_averages(self, strategy: SteppingStrategy) -> None:
        """Average what was made since the last average as well: a model may be built after another one was trained."""
        num_made = strategy.known_variables.num_made
        if num_made == self._num_made:
            return
        trained, self._num_made = self._trained(strategy), num_made
        if [id(variable) for variable in trained] != [id(variable) for variable in self._averages]:
            self._averages = trained
            self._make_averages(strategy)

    def is_local(self, variable: Variable) -> bool:
        """Those that are trained; where all began is the same for all replicas."""
        return _is_trained(variable) and not self._makes_anchors

    def before(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """Before the first training step, remember where all began."""
        if self.outer is None or not _trains(programs):
            return
        if self._renews_outer:
            self._renew_outer(strategy)
        if self.anchors:
            self._require_anchors(programs)
            self._share_anchors(strategy)
            return
        _require_unused(self.outer.wrapped, self)
        trained, self._makes_anchors = self._trained(strategy), True
        try:
            with strategy.scope():
                self.anchors = [keep_beside(variable, ANCHOR, partial(_first_copy, variable)) for variable in trained]
                self._anchored = [variable.known for variable in trained if variable.known is not None]
        finally:
            self._makes_anchors = False
        built(strategy)

    def _require_anchors(self, programs: Sequence[Program]) -> None:
        """Refuse to train what was made after the first step: the outer optimizer knows nothing of it, and would leave it apart."""
        updates = filter(_is_by_optimizer, programs[0].operations)
        changed = [variable for op in updates for variable in op.variables if isinstance(variable, Variable)]
        new = [variable.name for variable in changed if ANCHOR not in variable.companions and _is_trained(variable)]
        if new:
            raise FailedPreconditionError(
                f"{', '.join(new[:3])} {'was' if len(new) == 1 else 'were'} made after the first training step, in which the "
                "outer_optimizer of the strategy was built for the variables that there were. Build all models before that step; or make "
                "a strategy, with an outer_optimizer of its own, for each."
            )

    def _share_anchors(self, strategy: SteppingStrategy) -> None:
        """Mains that have assigned values of their own go on from those of the chief: otherwise they would never agree again."""
        if self._has_assigned_anchors and strategy.launched and strategy.num_replicas_in_sync > 1:
            assert self._share is not None
            strategy.step(self._share, (), {})
        self._has_assigned_anchors = False

    def _shared(self) -> None:
        tracer = active_tracer()
        assert tracer is not None
        values = tracer.collective("broadcast", [tracer.read(anchor) for anchor in self.anchors], label="variables")
        tracer.update("assign", self.anchors, values)

    def after(self, strategy: SteppingStrategy, programs: Sequence[Program]) -> None:
        """After every so many training steps the replicas average their variables."""
        if not _trains(programs):
            return
        self.num_steps += 1
        if self.num_steps % self.every == 0:
            self._take_average(strategy)
            self.num_averages += 1

    def _take_average(self, strategy: SteppingStrategy) -> None:
        self._renew_averages(strategy)
        assert self._average is not None
        try:
            strategy.step(self._average, (), {})
        except BaseException as error:
            if not strategy.launched:  # another main may have its average, and counts on
                self.num_steps -= 1
                error.add_note(self._what_was_taken(strategy))
            raise

    def _what_was_taken(self, strategy: SteppingStrategy) -> str:
        average = f"It was the average of sync_every={self.every}"
        if not all(member.alive for member in strategy.members):
            return f"{average}, after a step that all replicas had taken."
        return f"{average}. All replicas have taken the step before it: do not repeat that step. The next step is followed by the average."

    def _trained(self, strategy: SteppingStrategy) -> list[Variable]:
        """The variables that differ among the replicas: those that are trained."""
        return [v for v in strategy.known_variables.all() if _is_trained(v) and v.beginning is None and v.placement.spread == "replicas"]

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

    def _averaged(self, strategy: SteppingStrategy) -> None:
        tracer = active_tracer()
        assert tracer is not None
        trained = self._trained(strategy)
        values = self._means(trained)
        if self.outer is not None:
            means = {id(variable): value for variable, value in zip(trained, values, strict=True)}
            began = [tracer.read(anchor) for anchor in self.anchors]
            owners = [id(known.present()) for known in self._anchored]
            moved = [first - means.get(owner, first) for first, owner in zip(began, owners, strict=True)]
            self.outer.apply_gradients(zip(moved, self.anchors, strict=True), skip_gradients_aggregation=True)
            means |= {owner: tracer.read(anchor) for owner, anchor in zip(owners, self.anchors, strict=True)}
            values = [means[id(variable)] for variable in trained]
        self._assign(trained, values)

    def agree(self, strategy: SteppingStrategy, variables: Sequence[Variable]) -> None:
        known = self._trained(strategy)
        given = [variable for variable in variables if any(variable is own for own in known)]
        if given and strategy.launched and strategy.num_replicas_in_sync > 1:
            strategy.once(lambda: self._average_assigned(given), ASSIGNED, counts=False)

    def _average_assigned(self, variables: Sequence[Variable]) -> None:
        means = self._means(variables)
        self._assign(variables, means)
        if self._is_evaluating:
            return
        moved = [
            (variable.companions[ANCHOR], mean) for variable, mean in zip(variables, means, strict=True) if ANCHOR in variable.companions
        ]
        self._assign([anchor for anchor, _ in moved], [mean for _, mean in moved])

    # -- what is kept from step to step ---------------------------------------------------------------------------

    @property
    def kept(self) -> Mapping[str, object]:
        return {"local_steps": self} if self.outer is None else {"local_steps": self, "outer_optimizer": self.outer}

    def state_dict(self) -> SavedState:
        """How many steps were taken, and how often the replicas have averaged."""
        return {"steps": self.num_steps, "averages": self.num_averages}

    def load_state_dict(self, state: SavedState) -> None:
        """Go to a saved state. An outer optimizer that had no slots then gets new ones before the next step."""
        self._renews_outer = (self._renews_outer or self.num_averages > 0) and not state["averages"]
        self.num_steps, self.num_averages = int(state["steps"]), int(state["averages"])

    def _renew_outer(self, strategy: SteppingStrategy) -> None:
        """Make the outer optimizer anew."""
        assert self.outer is not None
        inner = self.outer.wrapped
        self.outer = Optimizer(type(inner).from_config(inner.get_config()) if is_keras_optimizer(inner) else inner)
        self._renews_outer = False
        self._make_averages(strategy)

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        anchor = variable.companions.get(ANCHOR)
        if anchor is not None and not self._is_evaluating:
            anchor.placement.store.update(rule, [anchor], [operand])
            self._has_assigned_anchors = True

    @contextmanager
    def temporarily(self) -> Iterator[None]:
        before, self._is_evaluating = self._is_evaluating, True
        try:
            yield
        finally:
            self._is_evaluating = before

    @contextmanager
    def evaluating(self, strategy: SteppingStrategy) -> Iterator[None]:
        if self._is_evaluating or self.num_steps % self.every == 0:
            yield
            return
        self._renew_averages(strategy)
        assert self._mean is not None
        store, trained = strategy.store, self._trained(strategy)
        values = [] if strategy.engine.numerics == "off" else [(variable, store.local_values(variable)) for variable in trained]
        self._is_evaluating = True
        try:
            strategy.step(self._mean, (), {})
            yield
        finally:
            for variable, of_replicas in values:
                store.assign_local(variable, of_replicas)
            self._is_evaluating = False


def _first_copy(variable: Variable) -> Array:
    return variable.placement.store.cell_value(variable, variable.placement.cells[0])


_users: WeakKeyDictionary[KerasOptimizer, ref[LocalSteps]] = WeakKeyDictionary()
"""Whose outer optimizer each is, from the first training step on."""


def _require_unused(outer: KerasOptimizer | GradientTransformation, user: LocalSteps) -> None:
    """Refuse a Keras optimizer that another strategy has: it keeps slots for the variables of one."""
    if not is_keras_optimizer(outer):
        return
    known = _users.get(outer)
    if outer.built or (known is not None and known() not in (None, user)):
        raise InvalidArgumentError(
            f"The outer_optimizer ({type(outer).__name__}) is that of another strategy or model, and keeps slots for its variables. Make "
            "one for each strategy, and where mains are launched inside of the main."
        )
    _users[outer] = ref(user)


def _is_trained(variable: Variable) -> bool:
    """Whether an optimizer can change a variable: all are trainable by default, also counts and truth values, which have no mean."""
    return variable.trainable and bool(jnp.issubdtype(variable.dtype, jnp.inexact))


def _trains(programs: Sequence[Program]) -> bool:
    """Whether a step changes variables by an optimizer, other than the outer one's."""
    program = programs[0]
    return program.name != AVERAGE and any(map(_is_by_optimizer, program.operations))


def _is_by_optimizer(op: Operation) -> TypeGuard[Update]:
    return isinstance(op, Update) and not isinstance(op.rule, str)
