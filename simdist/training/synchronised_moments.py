"""Batch statistics over all replicas: what ``BatchNormalization(synchronized=True)`` asks for.

Keras computes moments for one device; on JAX it refuses to synchronise them. Where a step has several replicas, each
contributes the sum and the sum of squares of its rows, and how many they are, so that uneven parts count row by row. The
all-reduce is differentiated like everything else: the gradient of a sum over replicas is a sum over replicas.

Source: Ioffe and Szegedy, Batch Normalization, 2015, equation for the mini-batch, here that of all replicas together.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from keras.src import backend
from keras.src.layers.normalization import batch_normalization

from simdist.program.tracing import active_tracer
from simdist.training.keras_model import Tensor

__all__ = ["install", "moments"]


class Moments(Protocol):
    """Keras' function that gives mean and variance."""

    def __call__(self, x: jax.Array, axes: int | Sequence[int], keepdims: bool = False, /) -> tuple[Tensor, Tensor]: ...


_of_one_device: list[Moments] = []


def moments(x: jax.Array, axes: int | Sequence[int], keepdims: bool = False, synchronized: bool = False) -> tuple[jax.Array, jax.Array]:
    """Mean and variance over axes; with `synchronized`, over the rows of all replicas.

    Args:
        x: array of any shape.
        axes: an axis, or several.
        keepdims: whether the axes stay, with length 1; default False.
        synchronized: whether the rows of all replicas count; default False.
    """
    tracer = active_tracer()
    if not synchronized or tracer is None or tracer.num_replicas == 1:
        return _of_one_device[0](x, axes, keepdims)
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    values = x.astype(jnp.float32) if x.dtype in (jnp.float16, jnp.bfloat16) else x
    count = jnp.asarray(np.prod([x.shape[axis] for axis in axes]), values.dtype)
    total, number = tracer.collective("all_reduce", [jnp.sum(values, axes, keepdims=True), count], label="batch statistics")
    mean = total / number
    # The second all-reduce is of deviations: the difference of two large squares would lose digits.
    squares = tracer.collective("all_reduce", [jnp.sum(jnp.square(values - mean), axes, keepdims=True)], label="batch statistics")[0]
    variance = squares / number
    if not keepdims:
        mean, variance = jnp.squeeze(mean, axes), jnp.squeeze(variance, axes)
    return mean.astype(x.dtype), variance.astype(x.dtype)


class _Backend:
    """Keras' backend as the layer's file sees it: one that can synchronise, which is all that the file asks its name for."""

    def backend(self) -> str:
        return "tensorflow"

    def __getattr__(self, name: str) -> object:
        return getattr(backend, name)


def install() -> None:
    """Put `moments` in the place of Keras' function, and let layers ask for it. Done once."""
    if not _of_one_device:
        _of_one_device.append(backend.nn.moments)
        backend.nn.moments = moments
        batch_normalization.backend = _Backend()
