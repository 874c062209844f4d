"""PowerSGD: a gradient matrix as the product of two thin ones.

One step of the power method, with the right factor of the last time as a start: left = M right; make its columns orthonormal;
right = M' left. What is sent is both factors, r (n + m) numbers instead of n m. Both are linear in M, so that an all-reduce
can average them: with several workers the result is what one worker would get for the mean gradient. A column of the right factor that is
zero, as after a gradient of zeros, is no start for the next time: it begins anew.

A tensor of more than two axes becomes a matrix whose columns are its last axis; vectors and scalars are sent as they
are. Error feedback: each worker keeps what *its* gradient has beyond the common approximation.

With several workers the order is ``left`` - all-reduce - ``right`` - all-reduce - ``finish``; `compress` does all of it for one
worker. All workers must begin with the same state, and so they do: it depends on the seed and the shape alone.

Class of numbers: E0 for the same backend; QR and matrix products differ in their last bits between backends.

Source: Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization,
NeurIPS 2019, algorithms 1 and 2.

Taught in lesson 03b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from simdist.arguments import whole_number

__all__ = ["PowerSGD", "PowerSGDState"]

Shape = tuple[int, ...]


class PowerSGDState(NamedTuple):
    """What passes from step to step: the residual, in the gradient's shape, and the right factor, m x r."""

    residual: jax.Array
    right: jax.Array


@dataclass(frozen=True)
class PowerSGD:
    """Low-rank compression with a warm start and error feedback. For two all-reduces, one for each factor.

    Args:
        rank: columns of a factor; at most the smaller side of the matrix is used.
        seed: of the first right factor.

    Raises:
        InvalidArgumentError: a rank below 1.

    Example:
        >>> power = PowerSGD(rank=1)
        >>> gradient = jnp.outer(jnp.arange(1.0, 4.0), jnp.arange(1.0, 3.0))
        >>> message, state = power.compress(gradient, power.initial_state((3, 2)))
        >>> bool(jnp.allclose(power.decompress(message, (3, 2)), gradient))
        True
        >>> PowerSGD(rank=2).bytes_on_wire((100, 50), "float32"), 100 * 50 * 4
        (1200, 20000)
    """

    rank: int = 2
    seed: int = 0
    collective: ClassVar[str] = "all_reduce"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", whole_number(self.rank, "PowerSGD: rank", 1))
        object.__setattr__(self, "seed", whole_number(self.seed, "PowerSGD: seed"))

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> PowerSGDState:
        return PowerSGDState(jnp.zeros(shape, dtype), self._first_right(shape, dtype))

    # -- several workers --------------------------------------------------------------------------------------------

    def left(self, gradient: jax.Array, state: PowerSGDState) -> jax.Array:
        """The first message of a worker: its left factor, n x r; or all of a vector, without more to come."""
        if gradient.ndim < 2:
            return gradient + state.residual
        return _product(_matrix(gradient + state.residual), state.right)

    def right(self, gradient: jax.Array, state: PowerSGDState, mean_left: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The orthonormal columns of the workers' mean, and the second message of a worker: its right factor, m x r.

        Of a vector: the mean itself, and nothing to send.
        """
        if gradient.ndim < 2:
            return mean_left, state.right
        columns, _ = jnp.linalg.qr(mean_left.astype(_exact(mean_left)))
        columns = columns.astype(gradient.dtype)
        return columns, _product(_matrix(gradient + state.residual).T, columns)

    def finish(
        self, gradient: jax.Array, state: PowerSGDState, columns: jax.Array, mean_right: jax.Array
    ) -> tuple[jax.Array, PowerSGDState]:
        """The approximation of the mean gradient, the same for all workers, and the worker's new state."""
        sent = self.decompress((columns, mean_right), gradient.shape, gradient.dtype)
        # From a column of zeros the next left factor is zero whatever the gradient, and so it could stay for ever.
        start = jnp.where(jnp.any(mean_right != 0, axis=0), mean_right, self._first_right(gradient.shape, gradient.dtype))
        return sent, PowerSGDState(gradient + state.residual - sent, start)

    # -- one worker -------------------------------------------------------------------------------------------------

    def compress(self, gradient: jax.Array, state: PowerSGDState) -> tuple[tuple[jax.Array, jax.Array], PowerSGDState]:
        """Both factors, and the state after them, for a worker that is alone."""
        columns, right = self.right(gradient, state, self.left(gradient, state))
        return (columns, right), self.finish(gradient, state, columns, right)[1]

    def decompress(self, message: tuple[jax.Array, jax.Array], shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        """The product of both factors."""
        columns, right = message
        if len(shape) < 2:
            return columns.astype(dtype)
        return _product(columns, right.T).reshape(shape).astype(dtype)

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        """r (n + m) numbers for a matrix; all numbers of a vector or scalar."""
        if len(shape) < 2:
            return math.prod(shape) * np.dtype(dtype).itemsize
        columns, rank = self._right_shape(shape)
        return rank * (math.prod(shape[:-1]) + columns) * np.dtype(dtype).itemsize

    def _first_right(self, shape: Shape, dtype: DTypeLike) -> jax.Array:
        """The right factor from which all workers begin."""
        return jnp.asarray(np.random.default_rng(self.seed).standard_normal(self._right_shape(shape)), dtype)

    def _right_shape(self, shape: Shape) -> tuple[int, int]:
        if len(shape) < 2:
            return 0, 0
        return shape[-1], min(self.rank, math.prod(shape[:-1]), shape[-1])


def _matrix(tensor: jax.Array) -> jax.Array:
    return tensor.reshape(math.prod(tensor.shape[:-1]), tensor.shape[-1])  # -1 is no number of rows where there are no columns


def _exact(array: jax.Array) -> DTypeLike:
    """A precision for which there is a QR decomposition."""
    return np.promote_types(array.dtype, np.float32)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """A matrix product in the full precision of its type: an accelerator would round its inputs."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)
