"""Rows that travel: what a read gathers from the shards of a table, and what an update is changed with.

What a linked program knows of a table are its shards; which rows it asks of each follows from the batch, when a step runs (`RowNumbers`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.caches import of_each
from simdist.program.arrays import HostArray
from simdist.program.kernels import Kernel
from simdist.program.row_kernels import Port, row_kernel_of
from simdist.program.row_numbers import RowNumbers
from simdist.program.values import Aval, Bundle
from simdist.runtime.linked import Apply, Slot, TableRows

__all__ = ["ID_BYTES", "RowOperands", "gather_kernel", "inputs_of", "operands_of", "selected", "sent_bytes"]

# The bytes of the number of a row, in a request for rows and beside their gradients.
ID_BYTES = 8


class RowOperands:
    """What a group is changed with, where some of it are gradients of rows.

    Args:
        dense: the other operands.
        rows: the gradients of rows, each a bundle of one array [k, ...].
        numbers: the rows that they belong to.
        ids: their row numbers [k].
        counts: how many of them are of this group.
        size_bytes: of what travels.

    Attributes:
        bundles: all numbers, in the order in which the kernel takes them, apart from the ids.
    """

    __slots__ = ("bundles", "counts", "dense", "ids", "numbers", "rows", "size_bytes")

    def __init__(
        self,
        dense: Bundle,
        rows: tuple[Bundle, ...],
        numbers: tuple[RowNumbers, ...],
        ids: tuple[HostArray, ...],
        counts: tuple[int, ...],
        size_bytes: int,
    ) -> None:
        self.dense = dense
        self.rows = rows
        self.numbers = numbers
        self.ids = ids
        self.counts = counts
        self.size_bytes = size_bytes
        self.bundles = (dense, *rows) if dense.avals else rows

    def flat(self) -> Bundle:
        """All that the kernel takes beside the group, as one bundle, where the numbers are known."""
        arrays = [array for bundle in self.bundles for array in bundle.arrays or ()]
        return Bundle.of([*arrays, *self.ids])


def inputs_of(operands: Bundle | RowOperands) -> tuple[tuple[Bundle, ...], tuple[HostArray, ...]]:
    """What a kernel takes beside a group: bundles, and row numbers after them."""
    return (operands.bundles, operands.ids) if isinstance(operands, RowOperands) else ((operands,), ())


_Gradients: TypeAlias = tuple[tuple[Bundle, ...], tuple[RowNumbers, ...], tuple[HostArray, ...]]
"""Gradients of rows, their rows, and the numbers of these."""


def operands_of(parts: Sequence[Apply], slots: Sequence[Bundle], numbers: Mapping[int, RowNumbers]) -> list[Bundle | RowOperands]:
    """What each group is changed with in a step.

    Args:
        parts: the changes of the groups.
        slots: of the step.
        numbers: of the row reads of the step; of replicas that have read rows together, their gradients are those of the joint rows.
    """
    operands: list[Bundle | RowOperands] = []
    known: dict[tuple[tuple[int, Slot], ...], _Gradients] = {}  # the shards of a table take the same ones
    for part in parts:
        if not part.rows:
            operands.append(slots[part.operands])
            continue
        gradients = known.get(part.gradients)
        if gradients is None:
            given = tuple([numbers[number].joint or numbers[number] for number, _ in part.gradients])
            ids = tuple([own.unique for own in given])
            gradients = known[part.gradients] = tuple([slots[slot] for _, slot in part.gradients]), given, ids
        counts = tuple([own.count_in(operand.first, operand.stop) for operand, own in zip(part.rows, gradients[1], strict=True)])
        operands.append(RowOperands(slots[part.operands], *gradients, counts, sent_bytes(part, counts)))
    return operands


def sent_bytes(part: Apply, counts: Sequence[int]) -> int:
    """The bytes of what a group is changed with, where this many rows are its of each gradient of rows."""
    return part.size_bytes + sum([count * (operand.row_bytes + ID_BYTES) for operand, count in zip(part.rows, counts, strict=True)])


@of_each("kernels that gather rows")
def gather_kernel(table: TableRows) -> Kernel:
    """The kernel that takes the groups of the shards of a table, and row numbers [k], and gives the rows [k, ...]."""
    avals: list[Aval] = []
    starts: list[int] = []
    for shard in table.shards:
        starts.append(len(avals))
        avals += shard.state
    ports = [Port(start + shard.position, len(avals), shard.first, shard.stop) for start, shard in zip(starts, table.shards, strict=True)]

    def gathered(*arrays: jax.Array) -> list[jax.Array]:
        ids, found = arrays[-1], arrays[ports[0].input]
        for port in ports[1:]:
            found = selected(ids, port.first, port.stop, arrays[port.input], found)
        return [found]

    return row_kernel_of(f"rows of {table.ids.name}", gathered, [*avals, Aval((table.rows.shape[0],), "int32")], ports)


def selected(ids: jax.Array, first: int, stop: int, rows: jax.Array, others: jax.Array) -> jax.Array:
    """Rows [k, ...] where their numbers [k] are of one shard, and others elsewhere."""
    inside = (ids >= first) & (ids < stop)
    return jnp.where(jnp.reshape(inside, (-1, *[1] * (rows.ndim - 1))), rows, others)
