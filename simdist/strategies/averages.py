"""Averages of losses over the global batch: each replica scales its part, so that the sum over the replicas is right.

Taught in lesson 02.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.program.arrays import has_dtype
from simdist.program.tracing import active_tracer
from simdist.strategies.context import ReplicaContext, get_replica_context, get_strategy

__all__ = ["compute_average_loss", "scale_regularization_loss"]


def compute_average_loss(per_example_loss: Any, sample_weight: Any = None, global_batch_size: int | None = None) -> Any:
    """The sum of the losses of this replica's examples, divided by the size of the global batch.

    The gradients of the replicas then add up to that of the whole batch. Without `global_batch_size` it is taken from the
    batch that the step took from a distributed dataset, so that an uneven last batch is weighed exactly; where the step has
    its data from elsewhere, the other replicas are taken to have as many examples as this one.

    Args:
        per_example_loss: array (b, ...) with one axis or more, the first over the b examples of this replica.
        sample_weight: array (b, ...), the weight of each example; default 1.
        global_batch_size: examples of all replicas together.

    Returns:
        A scalar; 0 for no examples.

    Raises:
        InvalidArgumentError: a scalar loss, or a negative size.
        TypeError: the size is no whole number.
        FailedPreconditionError: called across the replicas.

    Example:
        >>> float(compute_average_loss(jnp.array([1.0, 2.0, 3.0, 4.0]), global_batch_size=8))
        1.25
    """
    context = _replica("compute_average_loss")
    losses = jnp.asarray(per_example_loss)
    if losses.ndim == 0:
        raise InvalidArgumentError("compute_average_loss was given a scalar; give the loss of each example, of shape (batch,).")
    losses = losses if jnp.issubdtype(losses.dtype, jnp.floating) else losses.astype(jnp.float32)
    if sample_weight is not None:
        weight = jnp.asarray(sample_weight, losses.dtype)
        losses = losses * weight.reshape(weight.shape + (1,) * (losses.ndim - weight.ndim))
    size = context.global_batch_size(losses.shape[0]) if global_batch_size is None else _checked(global_batch_size)
    return jnp.sum(losses) / size if size else jnp.zeros((), losses.dtype)


def scale_regularization_loss(regularization_loss: Any) -> Any:
    """A loss that is equal on all replicas, divided by their number, so that it counts once.

    Raises:
        FailedPreconditionError: called across the replicas.
    """
    return jnp.sum(jnp.asarray(regularization_loss)) / _replica("scale_regularization_loss").num_replicas_in_sync


def _replica(what: str) -> ReplicaContext:
    context = get_replica_context()
    # In a step of a parameter-server worker, or of one device, all code belongs to its one replica.
    if context is None and active_tracer() is not None and get_strategy().num_replicas_in_sync == 1:
        return ReplicaContext(get_strategy())
    if context is None:
        raise FailedPreconditionError(f"{what} was called across the replicas; call it inside strategy.run.")
    return context


def _checked(size: Any) -> int:
    if not _is_whole(size):
        raise TypeError(f"global_batch_size={size!r} must be a whole number.")
    if _is_negative(size):
        raise InvalidArgumentError(f"global_batch_size={size} must not be negative.")
    return size


def _is_whole(size: object) -> bool:
    if isinstance(size, (bool, int)):
        return not isinstance(size, bool)
    return has_dtype(size) and jnp.issubdtype(size.dtype, jnp.integer)


def _is_negative(size: object) -> bool:
    """Whether a size is known to be negative; that of an array of JAX, or of a variable, may have no number yet."""
    return isinstance(size, (int, np.integer, np.ndarray)) and bool(size < 0)
