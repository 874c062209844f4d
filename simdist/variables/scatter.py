"""Scatter: changes of some rows of a variable, by their numbers, and of items, by an index.

An increment of rows is an increment of the variable that is zero elsewhere, so the aggregation of the variable combines those of
the replicas. What is no increment (a maximum, a product, another value) has no sum and no mean over replicas.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike
from simdist.program.narrowing import canonical
from simdist.program.operations import VariableHandle
from simdist.program.traces import shapes_of
from simdist.program.tracing import Tracer, active_tracer
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.arithmetic import Index, checked_index
from simdist.variables.gather import Gather, known_array
from simdist.variables.masked_rule import update_masked

__all__ = ["Scatter"]

# Rows by their numbers, or any elements by an index.
Elements: TypeAlias = "Array | tuple[Any, ...]"


class Rows(Protocol):
    """Some rows of an array, as ``array.at[rows]`` gives them: each method returns the array with these rows changed."""

    def set(self, values: ArrayLike, /) -> jax.Array: ...
    def max(self, values: ArrayLike, /) -> jax.Array: ...
    def min(self, values: ArrayLike, /) -> jax.Array: ...
    def multiply(self, values: ArrayLike, /) -> jax.Array: ...
    def divide(self, values: ArrayLike, /) -> jax.Array: ...


# How rows change: what an array does with the given ones.
CHANGES: dict[str, Callable[[Rows, ArrayLike], jax.Array]] = {
    "set": lambda rows, values: rows.set(values),
    "max": lambda rows, values: rows.max(values),
    "min": lambda rows, values: rows.min(values),
    "multiply": lambda rows, values: rows.multiply(values),
    "divide": lambda rows, values: rows.divide(values),
}


class Scatter(Gather, VariableHandle):
    """The scatter methods of `Variable`.

    Each takes `indices` [b] (rows along the first axis, from 0; any shape will do, but for a sharded variable, which takes a list) and
    `values` [b, ...], one for each index: of shape ``indices.shape + variable.shape[1:]``, or what broadcasts to it. An index that stands
    there several times counts so often. That of a row that is not there is an error; in a step, where it comes from a batch or an argument
    and has no value yet, it changes nothing.

    Example:
        >>> import simdist as sd
        >>> v = sd.Variable([1.0, 2.0, 3.0])
        >>> v.scatter_add([1, 1], [10.0, 5.0])
        >>> v.scatter_max([0, 2], 2.0)
        >>> v.numpy().tolist()
        [2.0, 17.0, 3.0]
    """

    aggregation: VariableAggregation
    synchronization: VariableSynchronization

    @property
    def is_served(self) -> bool:
        """Whether it has one value for all replicas, on servers."""
        raise NotImplementedError

    def assign(self, value: ArrayLike) -> None:
        """Replace the value."""
        raise NotImplementedError

    def assign_add(self, delta: ArrayLike) -> None:
        """Add to the value."""
        raise NotImplementedError

    def __setitem__(self, index: Index, value: ArrayLike) -> None:
        """Assign to some elements, as in numpy: ``v[1:3] = x``.

        Raises:
            IndexError: the index is out of range, or no index.
            InvalidArgumentError: the value does not fit.
            NotImplementedError: called in a replica, where the variable's aggregation combines what several replicas do.
        """
        self._replace("an assignment of items", "set", checked_index(self, index), value)

    def scatter_add(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Add to rows, on the tasks that hold them."""
        self._refuse_own_values("scatter_add")
        self._require_numbers("scatter_add")
        zeros = jnp.zeros(self.shape, self.dtype)
        rows = self._present_rows(indices)
        self.assign_add(zeros.at[rows].add(self._rows_of(values, rows)))

    def scatter_sub(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Subtract from rows, on the tasks that hold them."""
        self._refuse_own_values("scatter_sub")
        self._require_numbers("scatter_sub")
        zeros = jnp.zeros(self.shape, self.dtype)
        rows = self._present_rows(indices)
        self.assign_add(zeros.at[rows].add(-self._rows_of(values, rows)))

    def scatter_update(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Assign to rows."""
        self._replace("scatter_update", "set", self._present_rows(indices), values)

    def scatter_max(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Replace rows by the larger of the row and the value."""
        self._replace("scatter_max", "max", self._present_rows(indices), values)

    def scatter_min(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Replace rows by the smaller of the row and the value."""
        self._replace("scatter_min", "min", self._present_rows(indices), values)

    def scatter_mul(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Multiply rows."""
        self._require_numbers("scatter_mul")
        self._replace("scatter_mul", "multiply", self._present_rows(indices), values)

    def scatter_div(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Divide rows.

        Raises:
            InvalidArgumentError: in a step, a variable of whole numbers: whether a quotient is one is not known there.
        """
        self._require_numbers("scatter_div")
        if active_tracer() is not None and not jnp.issubdtype(self.dtype, jnp.inexact):
            raise InvalidArgumentError(
                f"scatter_div on {self.name}, of dtype {self.dtype}, was called in a step, where nobody knows whether the quotients are "
                "whole numbers. Compute them, variable.value[rows] // divisors, and use scatter_update; or call it outside of the step."
            )
        self._replace("scatter_div", "divide", self._present_rows(indices), values)

    def batch_scatter_update(self, indices: ArrayLike, values: ArrayLike) -> None:
        """Assign to elements of a batch: ``v[b, indices[b, j]] = values[b, j]``, for any number of axes b in front (also none).

        Raises:
            InvalidArgumentError: the axes in front are not those of the variable, or an index is out of range.
        """
        places, is_known = known_array(indices)
        front = places.shape[:-1]
        if not jnp.issubdtype(places.dtype, jnp.integer):
            raise InvalidArgumentError(f"indices of {self.name}.batch_scatter_update have dtype {places.dtype}; expected whole numbers.")
        if places.ndim == 0 or front != self.shape[: len(front)] or len(front) >= len(self.shape):
            raise InvalidArgumentError(
                f"indices of {self.name}.batch_scatter_update have shape {places.shape}; expected {self.shape[: len(front)]} in front, as "
                f"the variable has shape {self.shape}, and then one number for each value."
            )
        size = self.shape[len(front)]
        if is_known and places.size and not (np.min(np.asarray(places)) >= 0 and np.max(np.asarray(places)) < size):
            raise InvalidArgumentError(f"indices of {self.name}.batch_scatter_update must be from 0 to {size - 1}.")
        if not is_known:
            places = _dropped_below_0(places, size)
        grid = np.indices(places.shape, sparse=True)[:-1]
        self._replace("batch_scatter_update", "set", (*grid, places), values)

    def _present_rows(self, indices: ArrayLike) -> Array:
        """Numbers of rows, of which those that a step finds to be no row change nothing."""
        rows = self.checked_rows(indices)
        return _dropped_below_0(rows, self.shape[0]) if isinstance(rows, jax.core.Tracer) else rows

    def _replace(self, what: str, how: str, rows: Elements, values: ArrayLike) -> None:
        self._refuse_own_values(what)
        tracer = active_tracer()
        combined = self.aggregation in (VariableAggregation.SUM, VariableAggregation.MEAN)
        if tracer is not None and tracer.in_replica and tracer.num_replicas > 1 and (combined or self.is_served):
            others = "" if self.is_served else ", aggregation NONE or ONLY_FIRST_REPLICA"
            raise NotImplementedError(
                f"{what} on {self.name} was called in a replica, but its aggregation {self.aggregation.name} cannot combine what the "
                f"replicas do. Use scatter_add{others}, or call it outside strategy.run."
            )
        given = self._rows_of(values, rows)
        if tracer is not None and (tracer.num_replicas == 1 or self.is_served) and not tracer.overlays:
            self._change_where_it_lies(tracer, how, rows, given)
        else:
            self.assign(CHANGES[how](jnp.asarray(self.value).at[rows], given))

    def _change_where_it_lies(self, tracer: Tracer, how: str, rows: Elements, given: jax.Array) -> None:
        """Let the tasks that hold the variable change these rows, so that no change of other workers is undone."""
        # Of a row that stands there several times, the divisors are multiplied.
        values = CHANGES["multiply" if how == "divide" else how](
            jnp.full(self.shape, _neutral(how, self.dtype), self.dtype).at[rows], given
        )
        update_masked(tracer, how, [self], [values], [jnp.zeros(self.shape, bool).at[rows].set(True)])

    def _refuse_own_values(self, what: str) -> None:
        if self.synchronization is VariableSynchronization.ON_READ:
            raise NotImplementedError(
                f"{what} on {self.name}, which has synchronization ON_READ, is not supported. Use assign or assign_add."
            )

    def _require_numbers(self, what: str) -> None:
        if self.dtype == "bool":
            raise InvalidArgumentError(f"{what} on {self.name}, which is of bool, needs numbers. Use scatter_update.")

    def _rows_of(self, values: ArrayLike, rows: Elements) -> jax.Array:
        """The values for rows, or items, of this variable."""
        given = canonical(values, self.name, self.dtype)
        wanted = shapes_of(lambda: jnp.zeros(self.shape, self.dtype)[rows]).shape
        try:
            fits = np.broadcast_shapes(given.shape, wanted) == wanted
        except ValueError:
            fits = False
        if not fits:
            raise InvalidArgumentError(
                f"{self.name}, of shape {self.shape}, was given values of shape {given.shape}; for these indices expected shape "
                f"{wanted}, or what broadcasts to it."
            )
        return given


def _dropped_below_0(rows: Array, size: int) -> Array:
    """Row numbers in a step: to JAX, those below 0 count from the end; those beyond it are dropped."""
    return jnp.where(jnp.asarray(rows) < 0, size, rows)


def _neutral(how: str, dtype: str) -> float:
    """The value that changes nothing by a way of changing."""
    if how in ("multiply", "divide"):
        return 1
    if how == "set":
        return 0
    if dtype == "bool":
        return how == "min"
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.iinfo(dtype).min if how == "max" else jnp.iinfo(dtype).max
    return -np.inf if how == "max" else np.inf
