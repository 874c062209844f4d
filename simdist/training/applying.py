"""Keras optimizers that a step applies as they are, without `simdist.Optimizer` around them.

Programs written for tf.distribute call ``optimizer.apply_gradients`` in a replica and expect the gradients of all replicas to be
added up first. Keras on JAX knows no replicas and would let each of them make its own change. So in a step, and for variables that
belong to a strategy, the call goes where `simdist.Optimizer` takes it. ``stateless_apply``, which a ``train_step`` of the user's own calls,
goes there as well, and what is assigned to ``learning_rate``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import jax
from keras.src.backend.common import stateless_scope
from keras.src.optimizers import base_optimizer, loss_scale_optimizer

from simdist.arguments import flag
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.runtime.work import running_closure
from simdist.training.adoption import StepScope
from simdist.training.stateless_step import Values, current_step
from simdist.variables.handles import own_variable
from simdist.variables.keras_objects import KerasOptimizer, KerasVariable, LearningRate, trained_variables
from simdist.variables.optimizer import Optimizer, renew_rules
from simdist.variables.variable import Variable

__all__ = ["install"]

Gradients: TypeAlias = Sequence[jax.Array | None]
Applied: TypeAlias = tuple[Values, Values]


def _applied_by_strategies(original: Callable[..., None]) -> Callable[..., None]:
    """Keras' `apply`, but for variables of strategies, which apply the update themselves."""

    def apply(self: KerasOptimizer, grads: Gradients, trainable_variables: Sequence[KerasVariable] | None = None) -> None:
        variables = list(trained_variables(self) if trainable_variables is None else trainable_variables)
        if not isinstance(stateless_scope.get_stateless_scope(), StepScope) and not _is_step_of_its_own(variables):
            original(self, grads, trainable_variables)
            return
        step = current_step()
        gradients = list(grads) if step is None else step.weighed(grads, variables)
        _wrapped(self).apply_gradients(zip(gradients, variables, strict=True))

    apply.__doc__ = original.__doc__
    return apply


def _is_step_of_its_own(variables: Sequence[KerasVariable]) -> bool:
    """Whether an update outside of every step is one: in a plain function that runs on a worker it goes to the servers.

    So is one of variables that are none of Keras' own: Keras would change them, and then miss what only its own have.
    """
    closure = running_closure.get()
    on_worker = closure is not None and closure.is_plain
    return any(isinstance(variable, Variable) or (on_worker and own_variable(variable) is not None) for variable in variables)


def _counting_by_strategies(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' `apply_gradients`, but in a step without its result: a step that passed the count of updates on would read it, after them.

    It has the argument of TensorFlow's that says that the gradients are those of all replicas already.
    """

    def apply_gradients(
        self: KerasOptimizer,
        grads_and_vars: Iterable[tuple[ArrayLike | None, KerasVariable]],
        skip_gradients_aggregation: bool = False,
    ) -> Any:
        if not isinstance(stateless_scope.get_stateless_scope(), StepScope):
            return original(self, grads_and_vars)
        if flag(skip_gradients_aggregation, "skip_gradients_aggregation"):
            _wrapped(self).apply_gradients(grads_and_vars, skip_gradients_aggregation=True)
        else:
            original(self, grads_and_vars)
        return None

    apply_gradients.__doc__ = original.__doc__
    return apply_gradients


def _stateless_by_strategies(original: Callable[..., Any]) -> Callable[..., Applied]:
    """Keras' `stateless_apply`, but in a step of a strategy: there the values that it returns are read after the update."""

    def stateless_apply(self: KerasOptimizer, optimizer_variables: Values, grads: Gradients, trainable_variables: Values) -> Applied:
        step = current_step()
        if step is None:
            return original(self, optimizer_variables, grads, trainable_variables)
        trained = trained_variables(self)
        if len(trainable_variables) != len(trained) or len(optimizer_variables) != len(self.variables):
            raise InvalidArgumentError(
                f"stateless_apply was given {len(trainable_variables)} values of trained variables and {len(optimizer_variables)} of the "
                f"optimizer's own; {type(self).__name__} was built for {len(trained)}, and has {len(self.variables)}. Pass all of them, in "
                "the order of the variables."
            )
        step.keep_values(self.variables, optimizer_variables)
        step.keep_values(trained, trainable_variables)
        gradients = step.weighed(grads, trained)
        _wrapped(self).apply_gradients(zip(gradients, trained, strict=True))
        if step.sees_updates:
            weights, own = original(self, optimizer_variables, gradients, trainable_variables)
            step.foresee([*trained, *self.variables], [*weights, *own])
        return step.read(trained), step.read(self.variables)

    stateless_apply.__doc__ = original.__doc__
    return stateless_apply


def _followed_by_strategies(original: property) -> property:
    """Keras' `learning_rate`; a schedule that is assigned counts from the next step on."""
    assign = original.fset
    assert assign is not None

    def learning_rate(self: KerasOptimizer, rate: LearningRate | float) -> None:
        assign(self, rate)
        if callable(rate):
            renew_rules(self)

    return property(original.fget, learning_rate, doc=original.__doc__)


def _wrapped(optimizer: KerasOptimizer) -> Optimizer:
    return optimizer.__dict__.setdefault("_simdist_optimizer", Optimizer(optimizer))


def install() -> None:
    """Put these in the place of Keras' `apply`, `apply_gradients`, `stateless_apply` and `learning_rate`. Done once."""
    for kind in (base_optimizer.BaseOptimizer, loss_scale_optimizer.LossScaleOptimizer):
        if kind.apply.__module__ != __name__:
            kind.apply = _applied_by_strategies(kind.apply)
        if kind.stateless_apply.__module__ != __name__:
            kind.stateless_apply = _stateless_by_strategies(kind.stateless_apply)
            kind.learning_rate = _followed_by_strategies(kind.learning_rate)
    if base_optimizer.BaseOptimizer.apply_gradients.__module__ != __name__:
        base_optimizer.BaseOptimizer.apply_gradients = _counting_by_strategies(base_optimizer.BaseOptimizer.apply_gradients)
