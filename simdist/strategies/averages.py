"""Averages of losses over the global batch: each replica scales its part, so that the sum over the replicas is right.

Taught in lesson 02.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import has_dtype
from simdist.program.global_sizes import GivenSize
from simdist.program.half_precision import widened
from simdist.program.narrowing import numbers_for_jax, require_unmasked
from simdist.program.tracing import active_tracer
from simdist.strategies.context import ReplicaContext, get_replica_context, get_strategy

__all__ = ["compute_average_loss", "scale_regularization_loss"]


def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None) -> Any:
    """The sum of the losses of this replica's examples, divided by the size of the global batch.

    The gradients of the replicas then add up to that of the whole batch. Without `global_batch_size` it is taken from the
    batch that the step took from a distributed dataset, so that an uneven last batch is weighed exactly, if the losses of all
    replicas have the rows of their parts. Otherwise it is how many examples they have together; the replicas of other launched mains are
    taken to have as many as this one.

    Args:
        per_example_loss: array (b, ...) with one axis or more, the first over the b examples of this replica.
        sample_weight: array (b, ...), the weight of each example; default 1. It has as many axes as the losses, or fewer, or one more
            of length 1; it may be a scalar.
        global_batch_size: examples of all replicas together: a whole number, or an array or variable of one that the step computes.

    Returns:
        A scalar of the dtype of the losses, float32 for whole numbers; 0 for no examples. Of half precision the sum is taken in float32.

    Raises:
        InvalidArgumentError: a scalar loss, weights that do not fit the losses, a negative size, or, without a size,
            losses of different lengths of which only some have the rows of their parts of a batch. At the next collective: replicas gave
            different numbers, also those of other mains (each its own rows, or these by the number of replicas, is no difference).
        TypeError: the size is no whole number.
        FailedPreconditionError: called across the replicas.

    Example:
        >>> float(compute_average_loss(jnp.array([1.0, 2.0, 3.0, 4.0]), global_batch_size=8))
        1.25
    """
    context = _replica("compute_average_loss")
    losses = _array(per_example_loss, "compute_average_loss")
    if losses.ndim == 0:
        raise InvalidArgumentError("compute_average_loss was given a scalar; give the loss of each example, of shape (batch,).")
    losses = losses if jnp.issubdtype(losses.dtype, jnp.floating) else losses.astype(jnp.float32)
    wide = widened(losses)  # their sum may be too large for half precision though the average is not
    if sample_weight is not None:
        wide = wide * _weights(sample_weight, wide)
    if global_batch_size is None:
        return _quotient(jnp.sum(wide), context.global_batch_size(losses.shape[0])).astype(losses.dtype)
    size, tracer = _checked(global_batch_size), active_tracer()
    if tracer is not None and not isinstance(size, jax.core.Tracer):
        tracer.given_sizes.append(GivenSize(losses.shape[0], int(size)))
    return _quotient(jnp.sum(wide), size).astype(losses.dtype)


def scale_regularization_loss(regularization_loss: Any) -> Any:
    """A loss that is equal on all replicas, divided by their number, so that it counts once.

    Args:
        regularization_loss: a scalar, or an array of which the sum is taken.

    Raises:
        FailedPreconditionError: called across the replicas.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(2)
        >>> parts = strategy.run(lambda: sd.scale_regularization_loss(3.0))
        >>> float(strategy.reduce("sum", parts, axis=None))
        3.0
    """
    what = "scale_regularization_loss"
    return jnp.sum(_array(regularization_loss, what)) / _replica(what).num_replicas_in_sync


def _array(losses: Any, what: str) -> jax.Array:
    """Losses as an array; whole numbers of 64 bits as floats, since JAX would drop their upper digits."""
    given = numbers_for_jax(losses, what)
    is_wide = isinstance(given, (np.ndarray, np.generic)) and given.dtype.kind in "iu" and given.dtype.itemsize > 4
    return jnp.asarray(given, jnp.float32 if is_wide else None)


def _weights(sample_weight: Any, losses: jax.Array) -> jax.Array:
    """Weights with as many axes as the losses: a last axis of length 1 more is left out, fewer axes are filled up."""
    require_unmasked(sample_weight, "sample_weight")
    weights = jnp.asarray(numbers_for_jax(sample_weight, "sample_weight"), losses.dtype)
    if weights.ndim == losses.ndim + 1 and weights.shape[-1] == 1:
        weights = weights[..., 0]
    fitting = weights.reshape(weights.shape + (1,) * (losses.ndim - weights.ndim))
    pairs = zip(fitting.shape, losses.shape, strict=False)
    if fitting.ndim != losses.ndim or any(given not in (1, expected) for given, expected in pairs):
        raise InvalidArgumentError(
            f"sample_weight has shape {jnp.shape(sample_weight)}, and the losses have shape {losses.shape}. Give one weight for each "
            f"example, of shape {losses.shape[:1]} or {(losses.shape[0], 1)}, or one for each loss."
        )
    return fitting


def _replica(what: str) -> ReplicaContext:
    context = get_replica_context()
    # In a step of a parameter-server worker, or of one device, all code belongs to its one replica.
    if context is None and active_tracer() is not None and get_strategy().num_replicas_in_sync == 1:
        return ReplicaContext(get_strategy())
    if context is None:
        raise FailedPreconditionError(f"{what} was called across the replicas; call it inside strategy.run.")
    return context


def _quotient(total: jax.Array, size: Any) -> jax.Array:
    """A sum divided by a size; 0 where the size is 0, which a size that the step computes may be or not."""
    if isinstance(size, jax.core.Tracer):
        return jnp.where(size == 0, 0, total / jnp.where(size == 0, 1, size)).astype(total.dtype)
    return total / size if size else jnp.zeros((), total.dtype)


def _checked(given: Any) -> Any:
    """A size that was given: a number, or a scalar array."""
    if not _is_whole(given):
        raise TypeError(f"global_batch_size={given!r} must be a whole number.")
    size = given if isinstance(given, (int, np.integer, np.ndarray, jax.Array)) else jnp.asarray(given)
    if jnp.ndim(size):
        raise InvalidArgumentError(f"global_batch_size has shape {jnp.shape(size)}. Give one number for all replicas: a scalar.")
    if not isinstance(size, jax.core.Tracer) and size < 0:
        raise InvalidArgumentError(f"global_batch_size={size} must not be negative.")
    return size


def _is_whole(size: object) -> bool:
    if isinstance(size, (bool, int)):
        return not isinstance(size, bool)
    return has_dtype(size) and jnp.issubdtype(size.dtype, jnp.integer)
