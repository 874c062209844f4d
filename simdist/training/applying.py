"""Keras optimizers that a step applies as they are, without `simdist.Optimizer` around them.

Programs written for tf.distribute call ``optimizer.apply_gradients`` in a replica and expect the gradients of all replicas to be
added up first. Keras on JAX knows no replicas and would let each of them make its own change. So in a step, and for variables that
belong to a strategy, the call goes where `simdist.Optimizer` takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
from keras.src.backend.common import stateless_scope
from keras.src.optimizers import base_optimizer, loss_scale_optimizer

from simdist.training.adoption import StepScope
from simdist.variables.keras_objects import KerasOptimizer, KerasVariable, trained_variables
from simdist.variables.optimizer import Optimizer

__all__ = ["install"]

Gradients: TypeAlias = Sequence[jax.Array | None]


def _applied_by_strategies(original: Callable[..., None]) -> Callable[..., None]:
    """Keras' `apply`, but for variables of strategies, which apply the update themselves."""

    def apply(self: KerasOptimizer, grads: Gradients, trainable_variables: Sequence[KerasVariable] | None = None) -> None:
        if not isinstance(stateless_scope.get_stateless_scope(), StepScope):
            original(self, grads, trainable_variables)
            return
        variables = list(trained_variables(self) if trainable_variables is None else trainable_variables)
        self.__dict__.setdefault("_simdist_optimizer", Optimizer(self)).apply_gradients(zip(list(grads), variables, strict=True))

    apply.__doc__ = original.__doc__
    return apply


def install() -> None:
    """Put this in the place of Keras' `apply`. Done once."""
    for kind in (base_optimizer.BaseOptimizer, loss_scale_optimizer.LossScaleOptimizer):
        if kind.apply.__module__ != __name__:
            kind.apply = _applied_by_strategies(kind.apply)
