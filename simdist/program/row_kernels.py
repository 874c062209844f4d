"""Kernels that read or change some rows of large arrays: as a function of whole arrays, and as one of those rows.

Both give the same numbers. The function of whole arrays is what every engine can call. The *row form* says which inputs are tables, and
has the kernel that takes rows in their place: the ledger, which keeps a table in one buffer, gathers the rows, calls that kernel, and puts
the rows back (`simdist.ledger.in_place`). Its price is that of the rows, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp

from simdist.caches import bounded
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval

__all__ = ["Port", "RowForm", "form_with_rows_of", "local_rows", "put_rows", "row_form", "row_kernel_of", "taken_rows"]


class Port(NamedTuple):
    """A table of a kernel.

    Attributes:
        input: number of the table among the inputs.
        ids: number of the input with the rows of the whole variable [k].
        first, stop: which of these are rows of this table.
        output: number of the table among the outputs; None where it is only read.
    """

    input: int
    ids: int
    first: int
    stop: int
    output: int | None = None


class RowForm(NamedTuple):
    """A kernel as a function of rows.

    Attributes:
        inner: takes the inputs of the kernel, but rows [k, ...] in place of tables, and gives its outputs, but rows in place of tables.
        ports: the tables.
    """

    inner: Kernel
    ports: tuple[Port, ...]


_forms: WeakKeyDictionary[Kernel, RowForm] = WeakKeyDictionary()


def row_form(kernel: Kernel) -> RowForm | None:
    """The row form of a kernel; None if it has none."""
    return _forms.get(kernel)


def local_rows(ids: jax.Array, first: int, stop: int) -> jax.Array:
    """The rows of one shard [k]; those of other shards are one past its last."""
    inside = (ids >= first) & (ids < stop)
    return jnp.where(inside, ids - first, stop - first)


def taken_rows(table: jax.Array, ids: jax.Array, first: int) -> jax.Array:
    """Rows [k, ...] of a shard that begins with row `first`; of rows that are not in it, the first or the last one."""
    return table.at[ids - first].get(mode="clip", wrap_negative_indices=False)


def put_rows(table: jax.Array, ids: jax.Array, first: int, stop: int, rows: jax.Array) -> jax.Array:
    """A shard [s, ...] with new rows; those of other shards are left out.

    A loop over the rows of the shard, which XLA lets write in place: a scatter on a CPU is one, too, but over all rows.

    Args:
        table: the rows from `first` to `stop`.
        ids: of the rows [k], ascending.
        rows: their new values [k, ...].
    """

    def put(number: jax.Array, table: jax.Array) -> jax.Array:
        row = jax.lax.dynamic_index_in_dim(rows, number, keepdims=True, allow_negative_indices=False)
        at = jax.lax.dynamic_index_in_dim(ids, number, keepdims=False, allow_negative_indices=False) - first
        return jax.lax.dynamic_update_slice_in_dim(table, row, at, axis=0)

    low, high = (jnp.sum(ids < bound, dtype=jnp.int32) for bound in (first, stop))
    return jax.lax.fori_loop(low, high, put, table)


def row_kernel_of(name: str, function: Callable[..., Sequence[jax.Array]], in_avals: Sequence[Aval], ports: Sequence[Port]) -> Kernel:
    """The kernel of whole arrays that a function of rows makes, with its row form.

    Args:
        name: what it is, for people.
        function: takes arrays of `in_avals`, but rows [k, ...] for each port; returns its outputs, rows in place of tables. What it gives
            for rows that are not of the table has no effect.
        in_avals: shapes and dtypes of the inputs, with whole tables.
        ports: the tables.
    """
    counts = {port.input: in_avals[port.ids].shape[0] for port in ports}
    inner_avals = [
        Aval((counts[number], *aval.shape[1:]), aval.dtype) if number in counts else aval for number, aval in enumerate(in_avals)
    ]
    inner = kernel_of(name, function, inner_avals)
    kernel = kernel_of(name, _of_whole_tables(inner, ports), in_avals)
    _forms[kernel] = RowForm(inner, tuple(ports))
    return kernel


def form_with_rows_of(kernel: Kernel, inputs: Collection[int]) -> RowForm:
    """The form of a kernel that takes rows in the place of some tables alone.

    Args:
        inputs: numbers of inputs; those of them that are tables whose rows it reads or changes are rows.
    """
    form = row_form(kernel)
    by_rows = frozenset([port.input for port in form.ports if port.input in inputs] if form is not None else ())
    if form is None or not by_rows:
        return RowForm(kernel, ())
    return form if len(by_rows) == len(form.ports) else _with_whole_tables(kernel, by_rows)


@bounded("kernels of rows and tables", size=64)
def _with_whole_tables(kernel: Kernel, by_rows: frozenset[int]) -> RowForm:
    """The form of a kernel that takes rows of these tables, and all others as they are."""
    form = _forms[kernel]
    whole = [port for port in form.ports if port.input not in by_rows]
    avals = list(form.inner.in_avals)
    for port in whole:
        avals[port.input] = kernel.in_avals[port.input]
    inner = kernel_of(kernel.name, _of_whole_tables(form.inner, whole), avals)
    return RowForm(inner, tuple([port for port in form.ports if port.input in by_rows]))


def _of_whole_tables(inner: Kernel, ports: Sequence[Port]) -> Callable[..., Sequence[jax.Array]]:
    """A kernel that takes rows, as a function of whole tables."""

    def whole(*arrays: jax.Array) -> list[jax.Array]:
        given = list(arrays)
        for port in ports:
            given[port.input] = taken_rows(arrays[port.input], arrays[port.ids], port.first)
        results = list(inner.apart(*given))
        for port in ports:
            if port.output is not None:
                results[port.output] = put_rows(arrays[port.input], arrays[port.ids], port.first, port.stop, results[port.output])
        return results

    return whole
