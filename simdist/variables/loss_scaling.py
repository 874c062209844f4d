"""Dynamic loss scaling: Keras' `LossScaleOptimizer`, on the tasks that hold the variables.

Whether a step's gradients are finite is a matter of all of them, so the task that computed them decides: it takes the scale off, with the
very scale that it multiplied the loss by, and where one gradient is not finite it makes all of them so. Each task that holds
variables then sees from its own part what has been decided: it takes the step or skips it, and moves its scale as all others do.

Source: Micikevicius et al., Mixed Precision Training, 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from simdist.errors import FailedPreconditionError
from simdist.variables.keras_objects import LossScaleOptimizer, clipped

__all__ = ["Apply", "Flat", "Given", "scaled_apply", "unscaled"]

Flat = Sequence[jax.Array]
Given = Sequence[jax.Array | None]
# (values, state, gradients) -> (new values, new state); a gradient of None leaves its variable alone.
Apply = Callable[[Flat, Flat, Given], tuple[Flat, Flat]]


def unscaled(optimizer: LossScaleOptimizer, gradients: Flat, clips_later: bool) -> list[jax.Array]:
    """Gradients of a scaled loss, without the scale and clipped as the inner optimizer asks; all NaN where one is not finite.

    Args:
        optimizer: whose scale it was.
        gradients: p arrays, one for each variable.
        clips_later: whether they are clipped with the update, and not here.

    Raises:
        FailedPreconditionError: the optimizer has no scale yet.
    """
    if not optimizer.built:
        raise FailedPreconditionError(
            "A LossScaleOptimizer needs its scale before the first step. Call sd.Optimizer(optimizer).build(model.trainable_variables) "
            "outside of the step; model.fit does so by itself."
        )
    inner, scale = optimizer.inner_optimizer, optimizer.dynamic_scale.value
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(gradient)) for gradient in gradients]))
    gradients = [gradient / scale for gradient in gradients]
    if not clips_later:
        gradients = clipped(inner, gradients)
    return [jnp.where(finite, gradient, jnp.nan) for gradient in gradients]


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
