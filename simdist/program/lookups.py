"""Lookups of rows of a variable, as two primitives that JAX can differentiate and that a program can recognise.

`lookup` takes rows of a table, and its derivative with respect to the table is `spread`: rows that are added into a table of zeros. While
a step is traced both stay what they are, so that `row_reads.py` can see that a step needs some rows and no table. Elsewhere, inside of a
scan or of a compiled function, they are the gather and the scatter that JAX makes of ``jnp.take``.

Ids may be *padded*: those below 0 are no rows. They give zeros, and nothing is added for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core as jex_core
from jax.interpreters import ad, batching, mlir

from simdist.program.arrays import Array

__all__ = ["LOOKUP", "SPREAD", "lookup", "plain_lookup", "plain_spread", "wide_ids", "zeros_for_padding"]

LOOKUP = "simdist_lookup"
SPREAD = "simdist_spread"
_lookup = jex_core.Primitive(LOOKUP)
_spread = jex_core.Primitive(SPREAD)
Tangent = jax.Array | ad.Zero


def lookup(table: jax.Array, ids: jax.Array, number: int, padded: bool = False) -> jax.Array:
    """The rows of a table [n, ...] with these numbers (any shape), of shape [*ids.shape, ...].

    Args:
        table: the value of a variable.
        ids: whole numbers.
        number: which variable it is, among those of the step.
        padded: whether ids below 0 give zeros.
    """
    return _lookup.bind(table, ids, number=number, padded=padded)


def plain_lookup(table: jax.Array, ids: jax.Array, padded: bool = False) -> jax.Array:
    """What `lookup` computes, as JAX does it."""
    if padded:
        return zeros_for_padding(plain_lookup(table, jnp.maximum(ids, 0)), ids)
    if prod(ids.shape) < table.shape[0] or not jnp.issubdtype(table.dtype, jnp.inexact):
        return jnp.take(table, ids, axis=0)
    # Few rows that are looked up often: a row of NaN for wrong ids costs less than a look at each number of the result.
    num_rows = table.shape[0]
    ids = jnp.asarray(wide_ids(ids))
    ids = jnp.where(ids < 0, ids + num_rows, ids)
    ids = jnp.where((ids < 0) | (ids >= num_rows), num_rows, ids)
    whole = jnp.concatenate([table, jnp.full((1, *table.shape[1:]), jnp.nan, table.dtype)])
    return whole.at[ids].get(mode="promise_in_bounds", wrap_negative_indices=False)


def wide_ids(ids: Array) -> Array:
    """Ids of a dtype that can also hold the number of rows of a table, to which JAX compares them."""
    return ids.astype(jnp.int32) if ids.dtype.itemsize < 4 else ids


def zeros_for_padding(rows: jax.Array, ids: jax.Array) -> jax.Array:
    """Rows [*ids.shape, ...], with zeros where an id is below 0."""
    return jnp.where((ids >= 0).reshape(*ids.shape, *[1] * (rows.ndim - ids.ndim)), rows, jnp.zeros((), rows.dtype))


def plain_spread(rows: jax.Array, ids: jax.Array, num_rows: int, padded: bool = False) -> jax.Array:
    """What `spread` computes: the rows [*ids.shape, ...] added into zeros [num_rows, ...]."""
    table = jax.ShapeDtypeStruct((num_rows, *rows.shape[ids.ndim :]), rows.dtype)
    (added,) = jax.linear_transpose(lambda whole: plain_lookup(whole, ids, padded), table)(rows)
    return added


@_lookup.def_abstract_eval
def _lookup_aval(table: ShapedArray, ids: ShapedArray, *, number: int, padded: bool) -> ShapedArray:
    return ShapedArray((*ids.shape, *table.shape[1:]), table.dtype)


@_spread.def_abstract_eval
def _spread_aval(rows: ShapedArray, ids: ShapedArray, *, num_rows: int, number: int, padded: bool) -> ShapedArray:
    return ShapedArray((num_rows, *rows.shape[ids.ndim :]), rows.dtype)


def _lookup_plainly(table: jax.Array, ids: jax.Array, *, number: int, padded: bool) -> jax.Array:
    return plain_lookup(table, ids, padded)


def _spread_plainly(rows: jax.Array, ids: jax.Array, *, num_rows: int, number: int, padded: bool) -> jax.Array:
    return plain_spread(rows, ids, num_rows, padded)


# -- derivatives: both are linear in their first operand -----------------------------------------------------------------


def _lookup_jvp(primals: Sequence[jax.Array], tangents: Sequence[Tangent], *, number: int, padded: bool) -> tuple[jax.Array, Tangent]:
    (table, ids), (tangent, _) = primals, tangents
    rows = _lookup.bind(table, ids, number=number, padded=padded)
    if type(tangent) is ad.Zero:
        return rows, ad.Zero(jax.typeof(rows).to_tangent_aval())
    return rows, _lookup.bind(tangent, ids, number=number, padded=padded)


def _lookup_transpose(cotangent: Tangent, table: ad.UndefinedPrimal, ids: jax.Array, *, number: int, padded: bool) -> list[Tangent | None]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(table.aval), None]
    return [_spread.bind(cotangent, ids, num_rows=table.aval.shape[0], number=number, padded=padded), None]


def _spread_jvp(
    primals: Sequence[jax.Array], tangents: Sequence[Tangent], *, num_rows: int, number: int, padded: bool
) -> tuple[jax.Array, Tangent]:
    (rows, ids), (tangent, _) = primals, tangents
    table = _spread.bind(rows, ids, num_rows=num_rows, number=number, padded=padded)
    if type(tangent) is ad.Zero:
        return table, ad.Zero(jax.typeof(table).to_tangent_aval())
    return table, _spread.bind(tangent, ids, num_rows=num_rows, number=number, padded=padded)


def _spread_transpose(
    cotangent: Tangent, rows: ad.UndefinedPrimal, ids: jax.Array, *, num_rows: int, number: int, padded: bool
) -> list[Tangent | None]:
    if type(cotangent) is ad.Zero:
        return [ad.Zero(rows.aval), None]
    return [_lookup.bind(cotangent, ids, number=number, padded=padded), None]


def _lookup_batched(operands: Sequence[jax.Array], dims: Sequence[int | None], *, number: int, padded: bool) -> tuple[jax.Array, int]:
    return jax.vmap(lambda table, ids: plain_lookup(table, ids, padded), in_axes=tuple(dims))(*operands), 0


def _spread_batched(
    operands: Sequence[jax.Array], dims: Sequence[int | None], *, num_rows: int, number: int, padded: bool
) -> tuple[jax.Array, int]:
    return jax.vmap(lambda rows, ids: plain_spread(rows, ids, num_rows, padded), in_axes=tuple(dims))(*operands), 0


_lookup.def_impl(_lookup_plainly)
_spread.def_impl(_spread_plainly)
mlir.register_lowering(_lookup, mlir.lower_fun(_lookup_plainly, multiple_results=False))
mlir.register_lowering(_spread, mlir.lower_fun(_spread_plainly, multiple_results=False))
ad.primitive_jvps[_lookup] = _lookup_jvp
ad.primitive_jvps[_spread] = _spread_jvp
ad.primitive_transposes[_lookup] = _lookup_transpose
ad.primitive_transposes[_spread] = _spread_transpose
batching.primitive_batchers[_lookup] = _lookup_batched
batching.primitive_batchers[_spread] = _spread_batched
