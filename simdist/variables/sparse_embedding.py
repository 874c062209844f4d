"""`embedding_lookup_sparse`: for each row of a batch, some rows of a table put together as one; how many may differ from row to row.

TensorFlow takes the ids as a sparse tensor. JAX has arrays of fixed shapes, in which a program is traced once: so ids come as an array
[b, n] whose short rows are filled up with -1, as ``dataset.padded_batch(b, padding_values=-1)`` gives them. Padding is no id: it asks no
server for a row, counts in no mean, and has no gradient.

Taught in lesson 06.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from simdist.arguments import known_word, whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, ArrayLike, native, present_value
from simdist.program.half_precision import is_half
from simdist.program.lookups import zeros_for_padding
from simdist.program.narrowing import require_unmasked
from simdist.program.tracing import active_tracer
from simdist.variables.embedding import observed_rows, table_and_ids, traced_lookup
from simdist.variables.handles import AnyVariable
from simdist.variables.variable import Variable

__all__ = ["COMBINERS", "combined_rows", "embedding_lookup_sparse"]

COMBINERS = ("mean", "sqrtn", "sum")


def embedding_lookup_sparse(
    table: AnyVariable, ids: ArrayLike, weights: ArrayLike | None = None, combiner: str = "mean", default_id: int | None = None
) -> Array:
    """For each row of ids, the rows of a table with these ids as one: their mean, their sum, or their sum by the root of their number.

    In a step of a `ParameterServerStrategy` the bytes that travel are those of `embedding_lookup` for the ids alone, however much padding
    there is. A row without ids gives zeros, or the row `default_id` of the table. An id of weight 0 counts as none there.

    Args:
        table: a variable [r, ...], also one in shards.
        ids: whole numbers from 0 to r - 1, of shape [..., n]; where a row has fewer than n, negative ones: -1 by custom.
        weights: of the ids [..., n], as numbers; what stands at padding has no effect. Default: 1 each.
        combiner: "mean" (the default): the weighted sum, divided by the sum of the weights; "sqrtn": divided by the root of the sum of
            their squares; "sum": not divided.
        default_id: which row of the table a row without ids gives; None (the default) for zeros. It is read only where there is one.

    Returns:
        An array [..., *table.shape[1:]] of the table's dtype; of float32 if the table holds whole numbers. Rows of half precision are put
        together in float32.

    Raises:
        InvalidArgumentError: as of `embedding_lookup`; ids without axes; weights of another shape or that are no numbers; an unknown
            combiner; a default_id that is no row.
        TypeError: a default_id that is no integer.

    Warns:
        DenseReadWarning: the ids depend on a variable (or, with a default_id, the weights do), so each step reads the whole table.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
        >>> with strategy.scope():
        ...     table = sd.Variable(np.arange(14.0).reshape(7, 2), name="table")
        >>> ids = [[6, 0, 4], [5, -1, -1], [-1, -1, -1]]
        >>> sd.embedding_lookup_sparse(table, ids, combiner="sum").tolist()
        [[20.0, 23.0], [10.0, 11.0], [0.0, 0.0]]
        >>> sd.embedding_lookup_sparse(table, ids, weights=[[1, 3, 0], [2, 0, 0], [0, 0, 0]]).tolist()
        [[3.0, 4.0], [10.0, 11.0], [0.0, 0.0]]
    """
    own, numbers = table_and_ids(table, ids)
    combiner = known_word(combiner, "combiner", COMBINERS)
    if not numbers.ndim:
        raise InvalidArgumentError(f"A sparse lookup of {own.name!r} was given one id; expected an array [..., n]. Write [[{numbers}]].")
    factors = _weights(own, numbers, weights)
    if default_id is not None:
        numbers, factors = _with_default(own, jnp.asarray(numbers), factors, default_id)
    tracer = active_tracer()
    if tracer is None:
        present = np.asarray(numbers)
        found = zeros_for_padding(jnp.asarray(observed_rows(own, np.maximum(present, 0))), jnp.asarray(present))
        return np.asarray(combined_rows(found, present, factors, combiner))
    padded = jnp.issubdtype(numbers.dtype, jnp.signedinteger)
    found = traced_lookup(tracer, own, jnp.asarray(numbers), padded)
    return combined_rows(found, numbers, factors, combiner)


def combined_rows(rows: jax.Array, ids: Array, weights: Array | None, combiner: str) -> jax.Array:
    """Rows [..., n, *row] as one for each row of ids: [..., *row].

    Args:
        rows: zeros where there is padding.
        ids: [..., n], negative where there is padding.
        weights: [..., n]; None for 1 each.
        combiner: one of `COMBINERS`.
    """
    axis = ids.ndim - 1
    given = rows.dtype if jnp.issubdtype(rows.dtype, jnp.floating) else jnp.dtype(jnp.float32)
    # A sum, or a square of a weight, may be too large for half precision though the result is not.
    dtype = jnp.dtype(jnp.float32) if is_half(given) else given
    factors = jnp.where(ids >= 0, 1 if weights is None else weights, 0).astype(dtype)
    per_row = (1,) * (rows.ndim - ids.ndim)
    terms = rows.astype(dtype) if weights is None else rows * factors.reshape(*ids.shape, *per_row)
    total = jnp.sum(terms, axis)
    if combiner == "sum":
        return total.astype(given)
    # One where nothing is divided: so there is no NaN, neither in the result nor in a gradient.
    is_empty = jnp.all(factors == 0, axis)
    divisor = jnp.where(is_empty, 1, jnp.sum(factors if combiner == "mean" else factors * factors, axis))
    divisor = divisor if combiner == "mean" else jnp.sqrt(divisor)
    return (total / divisor.reshape(*divisor.shape, *per_row)).astype(given)


def _weights(table: Variable, ids: Array, weights: ArrayLike | None) -> Array | None:
    """Weights as an array.

    Raises:
        InvalidArgumentError: another shape than that of the ids, or no real numbers.
    """
    if weights is None:
        return None
    require_unmasked(weights, f"The array of weights for a sparse lookup of {table.name!r}")
    given = present_value(weights)
    factors = given if isinstance(given, jax.Array) else native(np.asarray(given))
    if factors.shape != ids.shape:
        raise InvalidArgumentError(
            f"A sparse lookup of {table.name!r} was given weights of shape {factors.shape} for ids of shape {ids.shape}; expected one for "
            "each id, also for padding."
        )
    if not (jnp.issubdtype(factors.dtype, jnp.floating) or jnp.issubdtype(factors.dtype, jnp.integer)):
        raise InvalidArgumentError(
            f"A sparse lookup of {table.name!r} was given weights of dtype {factors.dtype}; expected numbers: weights.astype('float32')."
        )
    return factors


def _with_default(table: Variable, ids: jax.Array, weights: Array | None, default_id: int) -> tuple[jax.Array, Array | None]:
    """Ids, and weights, with one more in each row: the default where a row has none, and else padding."""
    row = whole_number(default_id, "default_id", 0)
    if row >= table.shape[0]:
        raise InvalidArgumentError(f"default_id={row} is no row of {table.name!r}, which has {table.shape[0]} rows. Give one of them.")
    counts = ids >= 0 if weights is None else (ids >= 0) & (jnp.asarray(weights) != 0)
    is_empty = ~jnp.any(counts, -1, keepdims=True)
    ids = ids.astype(jnp.int64 if ids.dtype == jnp.int64 else jnp.int32)  # a narrow dtype may not hold the default, or no -1
    more = jnp.where(is_empty, row, -1).astype(ids.dtype)
    if weights is not None:
        weights = jnp.concatenate([jnp.asarray(weights), jnp.ones_like(more, jnp.asarray(weights).dtype)], -1)
    return jnp.concatenate([ids, more], -1), weights
