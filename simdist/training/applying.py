"""Keras optimizers that a step applies as they are, without `simdist.Optimizer` around them.

Programs written for tf.distribute call ``optimizer.apply_gradients`` in a replica and expect the gradients of all replicas to be
added up first. Keras on JAX knows no replicas and would let each of them make its own change. So in a step, and for variables that
belong to a strategy, the call goes where `simdist.Optimizer` takes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend.common import stateless_scope
from keras.src.optimizers import base_optimizer, loss_scale_optimizer

from simdist.training.adoption import StepScope
from simdist.variables.optimizer import Optimizer

__all__ = ["install"]


def _applied_by_strategies(original: Callable[..., None]) -> Callable[..., None]:
    """Keras' `apply`, but for variables of strategies, which apply the update themselves."""

    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        if not isinstance(stateless_scope.get_stateless_scope(), StepScope):
            original(self, grads, trainable_variables)
            return
        variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
        self.__dict__.setdefault("_simdist_optimizer", Optimizer(self)).apply_gradients(zip(list(grads), variables, strict=True))

    apply.__doc__ = original.__doc__
    return apply


def install() -> None:
    """Put this in the place of Keras' `apply`. Done once."""
    for kind in (base_optimizer.BaseOptimizer, loss_scale_optimizer.LossScaleOptimizer):
        if kind.apply.__module__ != __name__:
            kind.apply = _applied_by_strategies(kind.apply)
