"""Batch statistics over all replicas: what ``BatchNormalization(synchronized=True)`` asks for.

Keras computes moments for one device; on JAX it refuses to synchronise them. Where a step has several replicas, each
contributes the sum and the sum of squares of its rows, and how many they are, so that uneven parts count row by row. Of masked inputs only
what the mask leaves counts. The all-reduce is differentiated like everything else: the gradient of a sum over replicas is a sum over
replicas.

Source: Ioffe and Szegedy, Batch Normalization, 2015, equation for the mini-batch, here that of all replicas together.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from keras.src import backend
from keras.src.layers.normalization import batch_normalization

from simdist.program.half_precision import widened
from simdist.program.tracing import Tracer, active_tracer
from simdist.training.keras_model import Tensor

__all__ = ["install", "moments"]


class Moments(Protocol):
    """Keras' function that gives mean and variance."""

    def __call__(self, x: jax.Array, axes: int | Sequence[int], keepdims: bool = False, /) -> tuple[Tensor, Tensor]: ...


class Normalization(Protocol):
    """What is used of Keras' layer.

    Attributes:
        synchronized: whether the rows of all replicas count.
        _reduction_axes: over which it takes means.
    """

    synchronized: bool
    _reduction_axes: Sequence[int]


_of_one_device: list[Moments] = []


def moments(x: jax.Array, axes: int | Sequence[int], keepdims: bool = False, synchronized: bool = False) -> tuple[jax.Array, jax.Array]:
    """Mean and variance over axes; with `synchronized`, over the rows of all replicas.

    Args:
        x: array of any shape.
        axes: an axis, or several.
        keepdims: whether the axes stay, with length 1; default False.
        synchronized: whether the rows of all replicas count; default False.
    """
    tracer = _tracer_of_replicas()
    if not synchronized or tracer is None:
        return _of_one_device[0](x, axes, keepdims)
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    values = widened(x)
    count = jnp.asarray(np.prod([x.shape[axis] for axis in axes]), values.dtype)
    total, number = tracer.collective("all_reduce", [jnp.sum(values, axes, keepdims=True), count], label="batch statistics")
    mean = total / number
    # The second all-reduce is of deviations: the difference of two large squares would lose digits.
    squares = tracer.collective("all_reduce", [jnp.sum(jnp.square(values - mean), axes, keepdims=True)], label="batch statistics")[0]
    variance = squares / number
    if not keepdims:
        mean, variance = jnp.squeeze(mean, axes), jnp.squeeze(variance, axes)
    return mean.astype(x.dtype), variance.astype(x.dtype)


def _masked_moments(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Keras' moments of a layer's inputs, but of masked ones over the rows of all replicas where it is synchronised."""

    @wraps(original)
    def moments_of(self: Normalization, inputs: jax.Array, mask: jax.Array | None) -> Tensor:
        tracer = _tracer_of_replicas()
        if mask is None or not self.synchronized or tracer is None:
            return original(self, inputs, mask)
        return _of_masked(tracer, inputs, mask, tuple(self._reduction_axes))

    return moments_of


def _of_masked(tracer: Tracer, x: jax.Array, mask: jax.Array, axes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of what a mask leaves of the rows of all replicas; in the steps of Keras, with its smallest number of entries."""
    counts, values = jnp.broadcast_to(mask[..., None], x.shape).astype(bool), widened(x)

    def summed(array: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(counts, array, 0), axes, keepdims=True)

    total, number = tracer.collective("all_reduce", [summed(values), summed(jnp.ones_like(values))], label="batch statistics")
    number = number + backend.epsilon()
    mean = total / number
    squares = tracer.collective("all_reduce", [summed(jnp.square(values - mean))], label="batch statistics")[0]
    return jnp.squeeze(mean).astype(x.dtype), jnp.squeeze(squares / number).astype(x.dtype)


def _tracer_of_replicas() -> Tracer | None:
    """That of the step which is being traced, if it has several replicas."""
    tracer = active_tracer()
    return None if tracer is None or tracer.num_replicas == 1 else tracer


class _Backend:
    """Keras' backend as the layer's file sees it: one that can synchronise, which is all that the file asks its name for."""

    def backend(self) -> str:
        return "tensorflow"

    def __getattr__(self, name: str) -> object:
        return getattr(backend, name)


def install() -> None:
    """Put these in the place of Keras' functions, and let layers ask for them. Done once."""
    if not _of_one_device:
        _of_one_device.append(backend.nn.moments)
        backend.nn.moments = moments
        layer = batch_normalization.BatchNormalization
        layer._moments = _masked_moments(layer._moments)
        batch_normalization.backend = _Backend()
