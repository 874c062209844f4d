"""Dynamic loss scaling: Keras' `LossScaleOptimizer`, on the tasks that hold the variables.

Whether a step's gradients are finite is a matter of all of them, so the task that computed them decides: it takes the scale off, with the
very scale that it multiplied the loss by, and where one gradient is not finite it makes all of them so. Each task that holds
variables then sees from its own part what has been decided: it takes the step or skips it, and moves its scale as all others do.

Where gradients travel under a compressor that keeps what it has not sent, the scale is taken off before: it may be another one when the
rest is sent. Whether they are finite is asked of all replicas then, and where they are not nothing is sent, and nothing is kept.

Source: Micikevicius et al., Mixed Precision Training, 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError
from simdist.variables.keras_objects import LossScaleOptimizer, clipped

__all__ = ["Apply", "Flat", "Given", "all_finite", "scaled_apply", "unscaled", "without_scale"]

Flat = Sequence[jax.Array]
Given = Sequence[jax.Array | None]
# (values, state, gradients) -> (new values, new state); a gradient of None leaves its variable alone.
Apply = Callable[[Flat, Flat, Given], tuple[Flat, Flat]]


def unscaled(
    optimizer: LossScaleOptimizer, gradients: Flat, clips_later: bool, has_scale: bool = True, new_values: Flat = ()
) -> list[jax.Array]:
    """Gradients of a scaled loss, without the scale and clipped as the inner optimizer asks; all NaN where one is not finite.

    Args:
        optimizer: whose scale it was.
        gradients: p arrays, one for each variable.
        clips_later: whether they are clipped with the update, and not here.
        has_scale: whether the scale is to be taken off; default True.
        new_values: of variables that are overwritten with their gradients, which have no scale and are not clipped; they stand last in
            what is returned. Default: there are none.

    Raises:
        FailedPreconditionError: the optimizer has no scale yet.
    """
    finite = all_finite([*gradients, *new_values])
    if has_scale:
        gradients = without_scale(optimizer, gradients)
    if not clips_later:
        gradients = clipped(optimizer.inner_optimizer, list(gradients))
    return [jnp.where(finite, gradient, jnp.nan) for gradient in [*gradients, *new_values]]


def all_finite(gradients: Flat) -> jax.Array:
    """Whether all numbers of some gradients are finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(gradient)) for gradient in gradients]))


def without_scale(optimizer: LossScaleOptimizer, gradients: Flat) -> list[jax.Array]:
    """Gradients of a loss, of those of the scaled loss.

    Raises:
        FailedPreconditionError: the optimizer has no scale yet.
    """
    if not optimizer.built:
        raise FailedPreconditionError(
            "A LossScaleOptimizer needs its scale before the first step. Call sd.Optimizer(optimizer).build(model.trainable_variables) "
            "outside of the step; model.fit does so by itself."
        )
    scale = optimizer.dynamic_scale.value
    return [gradient / scale for gradient in gradients]


def scaled_apply(copy: LossScaleOptimizer) -> Apply:
    """The function that applies gradients of `unscaled` to the cells for which a built `LossScaleOptimizer` is a copy."""
    own = copy.variables[: len(copy.variables) - len(copy.inner_optimizer.variables)]
    counter_at, scale_at = (next(i for i, v in enumerate(own) if v is wanted) for wanted in (copy.step_counter, copy.dynamic_scale))

    def apply(values: Flat, old: Flat, gradients: Given) -> tuple[Flat, Flat]:
        # All are finite, or none of any: one element tells, and shards need not reduce.
        finite = jnp.isfinite(next(gradient for gradient in gradients if gradient is not None and gradient.size).reshape(-1)[0])
        inner_old = list(old[len(own) :])
        new_values, inner_new = copy.inner_optimizer.stateless_apply(inner_old, list(gradients), list(values))
        counter, scale = old[counter_at], old[scale_at]
        grown = finite & (counter == copy.dynamic_growth_steps - 1)
        state = list(old[: len(own)])
        state[counter_at] = jnp.where(finite & ~grown, counter + 1, 0).astype(counter.dtype)
        state[scale_at] = jnp.where(finite, jnp.where(grown, scale * 2.0, scale), scale * 0.5)
        return _chosen(finite, new_values, values), [*state, *_chosen(finite, inner_new, inner_old)]

    return apply


def _chosen(condition: jax.Array, ones: Flat, others: Flat) -> list[jax.Array]:
    return [jnp.where(condition, one, other) for one, other in zip(ones, others, strict=True)]
