"""The outer optimizer of replicas that take steps of their own: it moves the shared variables by the way that the replicas have gone.

Where all began is a companion of each variable, its *anchor*. What is assigned from outside of a step moves it as well. A variable that no
step has changed since the last average has gone no way: the optimizer leaves it as it is, whatever its momentum.

Source: Douillard et al., DiLoCo: Distributed Low-Communication Training of Language Models, 2023 (outer Nesterov momentum).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TypeGuard
from weakref import WeakKeyDictionary, ref

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import Array
from simdist.program.function import StepFunction
from simdist.program.operations import Operation, Program, Update
from simdist.program.saved_parts import built
from simdist.program.tracing import active_tracer
from simdist.strategies.synchronous.protocols import SteppingStrategy
from simdist.variables.companions import keep_beside
from simdist.variables.keras_objects import GradientTransformation, KerasOptimizer, is_keras_optimizer, is_scaling
from simdist.variables.optimizer import Optimizer
from simdist.variables.reachability import KnownVariable
from simdist.variables.variable import Variable

__all__ = ["SHARED", "OuterSteps", "is_by_optimizer", "is_trained"]

SHARED = "share where all begin"
ANCHOR = "anchor"


class OuterSteps:
    """An outer optimizer, and where all replicas began.

    Args:
        inner: the user's optimizer.

    Raises:
        InvalidArgumentError: it scales a loss.

    Attributes:
        optimizer: it.
        anchors: where each variable began that was trained in the first step.
        makes_anchors: whether they are being made.
        is_outdated: whether the optimizer had no slots yet in the state that was restored.
    """

    def __init__(self, inner: KerasOptimizer | GradientTransformation) -> None:
        if is_keras_optimizer(inner) and is_scaling(inner):
            raise InvalidArgumentError(
                "outer_optimizer is a LossScaleOptimizer, and there is no loss that it could scale: it moves weights by what the replicas "
                "have made of them. Give the optimizer inside of it."
            )
        self.optimizer = Optimizer(inner)
        self.anchors: list[Variable] = []
        self.makes_anchors = self.is_outdated = False
        self._changed: frozenset[int] = frozenset()
        self._restored: Sequence[str] | None = ()  # the names of those that had been changed when the state was saved; None: all
        self._has_assigned_anchors = False
        self._anchored: list[KnownVariable[Variable]] = []  # whose the anchors are
        self._share = StepFunction(self._shared, name=SHARED, counts=False)

    def renew(self) -> bool:
        """Make an optimizer anew that is outdated; return whether it was."""
        if not self.is_outdated:
            return False
        inner = self.optimizer.wrapped
        self.optimizer = Optimizer(type(inner).from_config(inner.get_config()) if is_keras_optimizer(inner) else inner)
        self.is_outdated = False
        return True

    def before(self, strategy: SteppingStrategy, program: Program, trained: Sequence[KnownVariable[Variable]]) -> None:
        """Before the first training step, remember where these variables begin.

        Raises:
            InvalidArgumentError: the optimizer is that of another strategy or model.
            FailedPreconditionError: the step trains variables that were made later.
        """
        if self.anchors:
            self._require_anchors(program)
            self._share_anchors(strategy)
            return
        _require_unused(self.optimizer.wrapped, self)
        self.makes_anchors = True
        try:
            with strategy.scope():
                self.anchors = [keep_beside(known.present(), ANCHOR, partial(_first_copy, known)) for known in trained]
                self._anchored = list(trained)
        finally:
            self.makes_anchors = False
        built(strategy)

    def _require_anchors(self, program: Program) -> None:
        """Refuse to train what was made after the first step: the outer optimizer knows nothing of it, and would leave it apart."""
        updates = filter(is_by_optimizer, program.operations)
        changed = [variable for op in updates for variable in op.variables if isinstance(variable, Variable)]
        new = [variable.name for variable in changed if ANCHOR not in variable.companions and is_trained(variable)]
        if new:
            raise FailedPreconditionError(
                f"{', '.join(new[:3])} {'was' if len(new) == 1 else 'were'} made after the first training step, in which the "
                "outer_optimizer of the strategy was built for the variables that there were. Build all models before that step; or make "
                "a strategy, with an outer_optimizer of its own, for each."
            )

    def _share_anchors(self, strategy: SteppingStrategy) -> None:
        """Mains that have assigned values of their own go on from those of the chief: otherwise they would never agree again."""
        if self._has_assigned_anchors and strategy.launched and strategy.num_replicas_in_sync > 1:
            strategy.step(self._share, (), {})
        self._has_assigned_anchors = False

    def _shared(self) -> None:
        tracer = active_tracer()
        assert tracer is not None
        values = tracer.collective("broadcast", [tracer.read(anchor) for anchor in self.anchors], label="variables")
        tracer.update("assign", self.anchors, values)

    # -- which variables have gone a way --------------------------------------------------------------------------

    @property
    def changed(self) -> frozenset[int]:
        """The numbers of the anchors whose variables steps have changed since the last average."""
        names = self._restored
        if self.anchors and (names is None or names):
            restored = [number for number, known in enumerate(self._anchored) if names is None or known.present().name in names]
            self._changed, self._restored = self._changed.union(restored), ()
        return self._changed

    @property
    def changed_names(self) -> list[str]:
        """The names of these variables, for a checkpoint."""
        return sorted({self._anchored[number].present().name for number in self.changed}.union(self._restored or ()))

    def note(self, program: Program) -> None:
        """A step has run: what it has changed has gone a way."""
        updates = [op for op in program.operations if isinstance(op, Update)]
        variables = {id(variable.known) for op in updates for variable in op.variables if isinstance(variable, Variable)}
        self._changed = self._changed.union(number for number, known in enumerate(self._anchored) if id(known) in variables)

    def begin_anew(self, names: Sequence[str] | None = ()) -> None:
        """All have arrived: nothing has gone a way since then; or the variables with these names, or all of them (None)."""
        self._changed, self._restored = frozenset(), names

    def moved(self, trained: Sequence[Variable], averages: Sequence[jax.Array], changed: frozenset[int]) -> list[jax.Array]:
        """Take a step from where all began, and begin there: the new values of these variables, whose averages are given.

        Args:
            trained: the variables.
            averages: theirs.
            changed: the numbers of the anchors that move.
        """
        tracer = active_tracer()
        assert tracer is not None
        means = {id(variable): value for variable, value in zip(trained, averages, strict=True)}
        began = [tracer.read(anchor) for anchor in self.anchors]
        owners = [id(known.present()) for known in self._anchored]
        ways = [first - means.get(owner, first) for first, owner in zip(began, owners, strict=True)]
        self._move(began, ways, changed)
        means |= {owner: tracer.read(anchor) for owner, anchor in zip(owners, self.anchors, strict=True)}
        return [means[id(variable)] for variable in trained]

    def _move(self, began: Sequence[jax.Array], gradients: Sequence[jax.Array], changed: frozenset[int]) -> None:
        tracer = active_tracer()
        assert tracer is not None
        # A transformation may need to know of all; then the others are put back.
        needs_all = not is_keras_optimizer(self.optimizer.wrapped)
        left = [number for number in range(len(gradients)) if number not in changed]
        given: list[jax.Array | None] = list(gradients)
        for number in left:
            given[number] = jnp.zeros_like(gradients[number]) if needs_all else None
        self.optimizer.apply_gradients(zip(given, self.anchors, strict=True), skip_gradients_aggregation=True)
        if left and needs_all:
            tracer.update("assign", [self.anchors[number] for number in left], [began[number] for number in left])

    def begin_at(self, variables: Sequence[Variable], values: Sequence[jax.Array]) -> None:
        """In a step: let these variables begin at other values."""
        tracer = active_tracer()
        assert tracer is not None
        moved = [(v.companions[ANCHOR], value) for v, value in zip(variables, values, strict=True) if ANCHOR in v.companions]
        if moved:
            tracer.update("assign", [anchor for anchor, _ in moved], [value for _, value in moved])

    def assigned(self, variable: Variable, rule: str, operand: Array) -> None:
        """A variable was changed from outside of every step."""
        anchor = variable.companions.get(ANCHOR)
        if anchor is not None:
            anchor.placement.store.update(rule, [anchor], [operand])
            self._has_assigned_anchors = True


def _first_copy(known: KnownVariable[Variable]) -> Array:
    variable = known.present()
    return variable.placement.store.cell_value(variable, variable.placement.cells[0])


_users: WeakKeyDictionary[KerasOptimizer, ref[OuterSteps]] = WeakKeyDictionary()
"""Whose outer optimizer each is, from the first training step on."""


def _require_unused(outer: KerasOptimizer | GradientTransformation, user: OuterSteps) -> None:
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


def is_trained(variable: Variable) -> bool:
    """Whether an optimizer can change a variable: all are trainable by default, also counts and truth values, which have no mean."""
    return variable.trainable and bool(jnp.issubdtype(variable.dtype, jnp.inexact))


def is_by_optimizer(op: Operation) -> TypeGuard[Update]:
    """Whether an operation of a step is an update by an optimizer."""
    return isinstance(op, Update) and not isinstance(op.rule, str)
