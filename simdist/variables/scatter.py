"""Scatter: changes of some rows of a variable, by their numbers.

An increment of rows is an increment of the variable that is zero elsewhere, so the aggregation of the variable combines those of
the replicas. What is no increment (a maximum, a product, another value) has no sum and no mean over replicas.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike
from simdist.program.narrowing import canonical
from simdist.program.tracing import active_tracer
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization

__all__ = ["Scatter"]


class Rows(Protocol):
    """Some rows of an array, as ``array.at[rows]`` gives them: each method returns the array with these rows changed."""

    def set(self, values: ArrayLike, /) -> jax.Array: ...
    def max(self, values: ArrayLike, /) -> jax.Array: ...
    def min(self, values: ArrayLike, /) -> jax.Array: ...
    def multiply(self, values: ArrayLike, /) -> jax.Array: ...
    def divide(self, values: ArrayLike, /) -> jax.Array: ...


class Scatter:
    """The scatter methods of `Variable`.

    Each takes `indices` [b] (rows along the first axis, from 0; any shape will do) and `values` [b, ...], one for each index: of shape
    ``indices.shape + variable.shape[1:]``, or what broadcasts to it. An index that stands there several times counts so often.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([1.0, 2.0, 3.0])
        >>> v.scatter_add([1, 1], [10.0, 5.0])
        >>> v.scatter_max([0, 2], 2.0)
        >>> v.numpy().tolist()
        [2.0, 17.0, 3.0]
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    aggregation: VariableAggregation
    synchronization: VariableSynchronization

    @property
    def value(self) -> Array:
        """The present value."""
        raise NotImplementedError

    def assign(self, value: ArrayLike) -> None:
        """Replace the value."""
        raise NotImplementedError

    def assign_add(self, delta: ArrayLike) -> None:
        """Add to the value."""
        raise NotImplementedError

    def scatter_add(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Add to rows, on the tasks that hold them."""
        self._refuse_own_values("scatter_add")
        zeros = jnp.zeros(self.shape, self.dtype)
        self.assign_add(zeros.at[self._rows(indices)].add(self._operand(values)))

    def scatter_sub(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Subtract from rows, on the tasks that hold them."""
        self._refuse_own_values("scatter_sub")
        zeros = jnp.zeros(self.shape, self.dtype)
        self.assign_add(zeros.at[self._rows(indices)].add(-self._operand(values)))

    def scatter_update(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Assign to rows."""
        self._replace("scatter_update", indices, lambda rows: rows.set(self._operand(values)))

    def scatter_max(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Replace rows by the larger of the row and the value."""
        self._replace("scatter_max", indices, lambda rows: rows.max(self._operand(values)))

    def scatter_min(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Replace rows by the smaller of the row and the value."""
        self._replace("scatter_min", indices, lambda rows: rows.min(self._operand(values)))

    def scatter_mul(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Multiply rows."""
        self._replace("scatter_mul", indices, lambda rows: rows.multiply(self._operand(values)))

    def scatter_div(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Divide rows."""
        self._replace("scatter_div", indices, lambda rows: rows.divide(self._operand(values)))

    def _replace(self, what: str, indices: ArrayLike, change: Callable[[Rows], jax.Array]) -> None:
        self._refuse_own_values(what)
        tracer = active_tracer()
        combined = self.aggregation in (VariableAggregation.SUM, VariableAggregation.MEAN)
        if tracer is not None and tracer.in_replica and tracer.num_replicas > 1 and combined:
            raise NotImplementedError(
                f"{what} on {self.name} was called in a replica, but its aggregation {self.aggregation.name} cannot combine what the "
                "replicas do. Use scatter_add, aggregation NONE or ONLY_FIRST_REPLICA, or call it outside strategy.run."
            )
        self.assign(change(jnp.asarray(self.value).at[self._rows(indices)]))

    def _refuse_own_values(self, what: str) -> None:
        if self.synchronization is VariableSynchronization.ON_READ:
            raise NotImplementedError(
                f"{what} on {self.name}, which has synchronization ON_READ, is not supported. Use assign or assign_add."
            )

    def _operand(self, values: ArrayLike) -> jax.Array:
        return canonical(values, self.name, self.dtype)

    def _rows(self, indices: ArrayLike) -> Array:
        if not self.shape:
            raise InvalidArgumentError(f"{self.name} is a scalar and has no rows to scatter to; use assign.")
        known = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(indices))
        rows = np.asarray(indices) if known else jnp.asarray(indices)
        if not jnp.issubdtype(rows.dtype, jnp.integer):
            raise InvalidArgumentError(f"indices of {self.name} must be whole numbers of rows; got {rows.dtype}.")
        # JAX would drop rows that are not there without a word.
        if known and rows.size and not (rows.min() >= 0 and rows.max() < self.shape[0]):
            raise InvalidArgumentError(f"indices of {self.name} must be from 0 to {self.shape[0] - 1}; got {rows.min()} to {rows.max()}.")
        return rows
