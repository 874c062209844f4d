"""Compression of gradients: a message is smaller than its gradient, and the rest is added to the next one.

A compressor makes a *message* of a gradient, and an approximate gradient of a message. With *error feedback* what a message
left out, the *residual*, is added to the next gradient: nothing is lost, it only arrives later. The replica that holds the state
passes it from step to step; all functions are pure and can be traced, compiled and vmapped.

Which collective carries the messages depends on whether they can be added: those of `NoCompression`, `Fp16` and PowerSGD
(`power_sgd.py`) can, so an all-reduce carries them. Those of `TopK` and `OneBit` cannot, because the workers choose
different elements or scales: an all-gather brings them to all replicas, which decompress and add them. Its bytes grow with
the number of workers.

Invariant of the compressors with error feedback: everything sent so far + the residual = the sum of all gradients so far, up
to rounding. Class of numbers: E0.

Taught in lesson 03b.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from simdist.arguments import number
from simdist.errors import InvalidArgumentError

__all__ = ["Compressor", "Fp16", "NoCompression", "OneBit", "TopK"]

Shape = tuple[int, ...]
INDEX_BYTES = 4


@runtime_checkable
class Compressor(Protocol):
    """The protocol of all compressors. Messages and states are arrays, or tuples of arrays.

    Attributes:
        collective: "all_reduce" if messages can be added, otherwise "all_gather".
    """

    collective: ClassVar[str]

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> Any:
        """The state before the first gradient of this shape (p...)."""
        ...

    def compress(self, gradient: jax.Array, state: Any) -> tuple[Any, Any]:
        """A message, and the state after it."""
        ...

    def decompress(self, message: Any, shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        """The gradient (p...) that a message stands for."""
        ...

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        """Bytes of a message, for tables. In a run those travel that the arrays of the message have."""
        ...


@dataclass(frozen=True)
class NoCompression:
    """Everything is sent as it is: what the others are compared with. For an all-reduce.

    Example:
        >>> NoCompression().bytes_on_wire((100, 10), "float32")
        4000
    """

    collective: ClassVar[str] = "all_reduce"

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> tuple[()]:
        return ()

    def compress(self, gradient: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return gradient, state

    def decompress(self, message: jax.Array, shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        return message

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        return math.prod(shape) * np.dtype(dtype).itemsize


@dataclass(frozen=True)
class Fp16:
    """Half precision on the wire, without error feedback. For an all-reduce, which then also adds in half precision.

    What is larger than 65,504, on the way or in a sum, becomes infinite.

    Example:
        >>> Fp16().bytes_on_wire((100, 10), "float32")
        2000
    """

    collective: ClassVar[str] = "all_reduce"

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> tuple[()]:
        return ()

    def compress(self, gradient: jax.Array, state: Any) -> tuple[jax.Array, Any]:
        return gradient.astype(jnp.float16), state

    def decompress(self, message: jax.Array, shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        return message.astype(dtype)

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        return math.prod(shape) * 2


@dataclass(frozen=True)
class TopK:
    """Only the elements of the largest magnitude, with error feedback. For an all-gather.

    A message is the values and their places, 32-bit integers: in float32, 2 k / n of the bytes. Of elements of equal
    magnitude the earlier ones are sent.

    Args:
        fraction: k / p, the part of the p elements of a gradient that is sent; k is rounded up.

    Raises:
        InvalidArgumentError: a fraction that is not above 0, or is above 1.

    Source: Aji and Heafield, Sparse Communication for Distributed Gradient Descent, 2017; error feedback: Stich, Cordonnier
    and Jaggi, Sparsified SGD with Memory, 2018.

    Example:
        >>> top = TopK(fraction=0.25)
        >>> gradient = jnp.array([1.0, -4.0, 2.0, 3.0])
        >>> message, residual = top.compress(gradient, top.initial_state((4,)))
        >>> top.decompress(message, (4,)).tolist(), residual.tolist()
        ([0.0, -4.0, 0.0, 0.0], [1.0, 0.0, 2.0, 3.0])
        >>> top.bytes_on_wire((4,), "float32")
        8
    """

    fraction: float = 0.01
    collective: ClassVar[str] = "all_gather"

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", number(self.fraction, "TopK: fraction"))
        if not 0 < self.fraction <= 1:
            raise InvalidArgumentError(f"TopK: fraction must be above 0 and at most 1; got {self.fraction!r}.")

    def num_sent(self, shape: Shape) -> int:
        """k: elements of a message; at least 1."""
        size = math.prod(shape)
        # 0.07 * 100 is a little more than 7.
        return max(min(1, size), math.ceil(round(self.fraction * size, 6)))

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        return jnp.zeros(shape, dtype)

    def compress(self, gradient: jax.Array, state: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        wanted = (gradient + state).reshape(-1)
        _, positions = jax.lax.top_k(jnp.abs(wanted), self.num_sent(gradient.shape))
        return (wanted[positions], positions), wanted.at[positions].set(0).reshape(gradient.shape)

    def decompress(self, message: tuple[jax.Array, jax.Array], shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        values, positions = message
        return jnp.zeros(math.prod(shape), dtype).at[positions].set(values.astype(dtype)).reshape(shape)

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        return self.num_sent(shape) * (np.dtype(dtype).itemsize + INDEX_BYTES)


@dataclass(frozen=True)
class OneBit:
    """One bit for each element, its sign, with error feedback. For an all-gather.

    Two scales go with the bits: what a set bit and what a clear bit stands for, the means of the elements that are
    not negative and of those that are. Here they are those of the whole tensor; Seide et al. have two for each column.

    Source: Seide, Fu, Droppo, Li and Yu, 1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed
    Training of Speech DNNs, Interspeech 2014.

    Example:
        >>> one_bit = OneBit()
        >>> message, residual = one_bit.compress(jnp.array([1.0, -4.0, 2.0, 3.0]), one_bit.initial_state((4,)))
        >>> one_bit.decompress(message, (4,)).tolist(), residual.tolist()
        ([2.0, -4.0, 2.0, 2.0], [-1.0, 0.0, 0.0, 1.0])
        >>> one_bit.bytes_on_wire((100, 10), "float32")
        133
    """

    collective: ClassVar[str] = "all_gather"

    def initial_state(self, shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        return jnp.zeros(shape, dtype)

    def compress(self, gradient: jax.Array, state: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        wanted = gradient + state
        is_set = wanted >= 0
        num_set = is_set.sum()
        wide = jnp.promote_types(wanted.dtype, jnp.float32)  # sum and number may be too large for half precision though the mean is not
        above = jnp.where(is_set, wanted, 0).sum(dtype=wide) / jnp.maximum(num_set, 1)
        below = jnp.where(is_set, 0, wanted).sum(dtype=wide) / jnp.maximum(wanted.size - num_set, 1)
        scales = jnp.stack([below, above]).astype(wanted.dtype)
        sent = jnp.where(is_set, scales[1], scales[0])
        return (jnp.packbits(is_set.reshape(-1)), scales), wanted - sent

    def decompress(self, message: tuple[jax.Array, jax.Array], shape: Shape, dtype: DTypeLike = np.float32) -> jax.Array:
        packed, scales = message
        is_set = jnp.unpackbits(packed, count=math.prod(shape)).reshape(shape)
        return jnp.where(is_set, scales[1], scales[0]).astype(dtype)

    def bytes_on_wire(self, shape: Shape, dtype: DTypeLike = np.float32) -> int:
        return math.ceil(math.prod(shape) / 8) + 2 * np.dtype(dtype).itemsize
