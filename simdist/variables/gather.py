"""Reads of some rows or elements of a variable, by their numbers, in the order in which they are asked for.

Taught in lesson 02.
"""

from __future__ import annotations

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, native
from simdist.program.lookups import wide_ids

__all__ = ["Gather", "known_array"]


class Gather:
    """The gather methods of `Variable`.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> v.sparse_read([2, 0]).tolist()
        [[5.0, 6.0], [1.0, 2.0]]
        >>> v.gather_nd([[2, 1], [0, 0]]).tolist()
        [6.0, 1.0]
    """

    name: str
    shape: tuple[int, ...]

    @property
    def value(self) -> Array:
        """The present value."""
        raise NotImplementedError

    def sparse_read(self, indices: ArrayLike) -> jax.Array:
        """The rows of these numbers, of shape ``indices.shape + variable.shape[1:]``, in the order of `indices`.

        Raises:
            InvalidArgumentError: a row that is not there, numbers that are not whole, a scalar, or, of a sharded variable, anything but a
                list of numbers. In a step, numbers that come from a batch or an argument have no value yet: for a row that is not there it
                gets the last one, as JAX gives it.
        """
        rows = self.checked_rows(indices)
        return jnp.asarray(self.value)[rows]

    def gather_nd(self, indices: ArrayLike) -> jax.Array:
        """The elements (or slices) at indices [..., k]: each gives the first k axes.

        The shape is ``indices.shape[:-1] + variable.shape[k:]``.

        Raises:
            InvalidArgumentError: more numbers than axes, one that is out of range, or numbers that are not whole.
        """
        places, is_known = known_array(indices)
        if not jnp.issubdtype(places.dtype, jnp.integer) or places.ndim == 0 or places.shape[-1] > len(self.shape):
            raise InvalidArgumentError(
                f"indices of {self.name}.gather_nd are {places.dtype}{list(places.shape)}; expected whole numbers [..., k] with k up to "
                f"{len(self.shape)}."
            )
        sizes = np.array(self.shape[: places.shape[-1]], int)
        if is_known and places.size and not ((np.asarray(places) >= 0) & (np.asarray(places) < sizes)).all():
            raise InvalidArgumentError(f"indices of {self.name}.gather_nd must be inside of its shape {self.shape}; got {places.tolist()}.")
        value = jnp.asarray(self.value)
        if not places.shape[-1]:  # no index to be followed: each gives the whole variable
            return jnp.broadcast_to(value, (*places.shape[:-1], *self.shape))
        return value[tuple(places[..., axis] for axis in range(places.shape[-1]))]

    def checked_rows(self, indices: ArrayLike) -> Array:
        """Numbers of rows as an array.

        Raises:
            InvalidArgumentError: a row that is not there, numbers that are not whole, or a scalar variable.
        """
        if not self.shape:
            raise InvalidArgumentError(f"{self.name} is a scalar and has no rows to scatter to or to read; use assign, or value.")
        rows, is_known = known_array(indices)
        if not jnp.issubdtype(rows.dtype, jnp.integer):
            raise InvalidArgumentError(f"indices of {self.name} must be whole numbers of rows; got {rows.dtype}.")
        # JAX would drop rows that are not there without a word.
        if is_known and rows.size and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise InvalidArgumentError(f"indices of {self.name} must be from 0 to {self.shape[0] - 1}; got {rows.min()} to {rows.max()}.")
        return rows


def known_array(indices: ArrayLike) -> tuple[Array, bool]:
    """Indices as an array, and whether their numbers are known: those of a step may not be yet."""
    is_known = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(indices))
    try:
        given = native(np.asarray(indices)) if is_known else jnp.asarray(indices)
    except ValueError as error:
        raise InvalidArgumentError(f"indices are no array ({error}). Give lists of one length.") from None
    return wide_ids(given) if jnp.issubdtype(given.dtype, jnp.integer) else given, is_known
