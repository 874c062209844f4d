"""Tables in the program of the replay machine: one buffer for each, outside of the branches that read rows of it.

A branch gathers the rows that its kernel takes, and returns the rows that it changes in *row slots*, with their numbers. After the branch
they are put into the buffer of their chain, by a loop that writes in place; for all other buffers that loop has no turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.entry import Branch
from simdist.ledger.registers import RegisterFile
from simdist.ledger.table_chains import TableChains, form_in_scan, ports_of
from simdist.program.arrays import HostArray
from simdist.program.row_kernels import Port, taken_rows
from simdist.program.values import Aval

__all__ = ["RowSlots", "TableInstructions", "TableLayout"]

# Of c entries: for each row slot [slots, c] the buffer that it goes to, the first row of the table, and which rows are put (from, until).
TableInstructions = HostArray
# The rows [k, ...] and the numbers [k] of each slot.
RowSlots = list[tuple[jax.Array, jax.Array]]


class _Put(NamedTuple):
    """What a branch puts: an output of its kernel, by a port, from a slot into a buffer."""

    port: Port
    fed: int
    slot: int
    buffer: int


class TableLayout:
    """What the branches of a machine do to tables.

    Args:
        branches: the ledger's.
        files: the ledger's.
        chains: of the tables.
        chunk: entries in one call.

    Attributes:
        buffers: the type of each.
    """

    def __init__(self, branches: Sequence[Branch], files: Sequence[RegisterFile], chains: TableChains, chunk: int) -> None:
        self.chunk = chunk
        self.buffers = [aval for _, _, aval in chains.buffers]
        numbers = {(chain, position): number for number, (chain, position, _) in enumerate(chains.buffers)}
        self.forms = [form_in_scan(branch.site, files) for branch in branches]
        self.slots: list[Aval] = []
        self.taken: list[list[tuple[Port, int]]] = []  # for each branch its ports, and their buffers
        self.puts: list[list[_Put]] = []
        for code, branch in enumerate(branches):
            reads = range(len(branch.site.reads))
            own = [
                (port, numbers[chains.numbers[code, position], table])
                for position in reads
                if (code, position) in chains.numbers
                for port, table in ports_of(branch.site, position)
                if (chains.numbers[code, position], table) in numbers
            ]
            self.taken.append(own)
            self.puts.append(self._puts_of(branch, own))

    def _puts_of(self, branch: Branch, ports: Sequence[tuple[Port, int]]) -> list[_Put]:
        puts: list[_Put] = []
        start = sum(map(len, branch.site.reads))
        for port, buffer in ports:
            if port.output is None:
                continue
            row, count = self.buffers[buffer], branch.site.kernel.in_avals[port.ids].shape[0]
            taken = {put.slot for put in puts}
            fitting = [n for n, a in enumerate(self.slots) if (a.shape[1:], a.dtype) == (row.shape[1:], row.dtype) and n not in taken]
            if not fitting:
                fitting = [len(self.slots)]
                self.slots.append(Aval((count, *row.shape[1:]), row.dtype))
            slot = fitting[0]
            most = max(count, self.slots[slot].shape[0])
            self.slots[slot] = Aval((most, *row.shape[1:]), row.dtype)
            puts.append(_Put(port, port.ids - start, slot, buffer))
        return puts

    def nothing_put(self) -> HostArray:
        """What the entries of a chunk put where, if none of them changes rows: [4, slots, chunk]."""
        found = np.zeros((4, len(self.slots), self.chunk), np.int32)
        found[0] = -1
        return found

    def encode(self, found: HostArray, code: int, numbers: HostArray, feeds: Sequence[HostArray]) -> None:
        """Note what some entries of one branch put where.

        Args:
            found: [4, slots, chunk], which is changed.
            code: of the branch.
            numbers: of the entries in the chunk [n].
            feeds: the arrays that the host passes for them, each [n, ...].
        """
        for put in self.puts[code]:
            ids, port = feeds[put.fed], put.port  # ascending in each row
            found[0, put.slot, numbers] = put.buffer
            found[1, put.slot, numbers] = port.first
            found[2, put.slot, numbers] = np.count_nonzero(ids < port.first, axis=1)
            found[3, put.slot, numbers] = np.count_nonzero(ids < port.stop, axis=1)

    # -- to be compiled -------------------------------------------------------------------------------------------

    def inputs(self, code: int, buffers: Sequence[jax.Array], known: dict[int, jax.Array], fed: Sequence[jax.Array]) -> list[jax.Array]:
        """The inputs of a branch's kernel of rows, before what the host passes: arrays that are known, by number, and rows of tables."""
        form = self.forms[code]
        assert form is not None
        start = len(form.inner.in_avals) - len(fed)
        for port, buffer in self.taken[code]:
            known[port.input] = taken_rows(buffers[buffer], fed[port.ids - start], port.first)
        unused = [number for number in range(start) if number not in known]
        known.update({number: jnp.zeros(form.inner.in_avals[number].shape, form.inner.in_avals[number].dtype) for number in unused})
        return [known[number] for number in range(start)]

    def put_into_slots(self, code: int, outputs: Sequence[jax.Array], fed: Sequence[jax.Array], slots: RowSlots) -> None:
        """Put the rows that a branch changes into their slots."""
        for put in self.puts[code]:
            assert put.port.output is not None
            rows, ids = outputs[put.port.output], fed[put.fed]
            missing = self.slots[put.slot].shape[0] - rows.shape[0]
            if missing:
                rows, ids = (jnp.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1)) for array in (rows, ids))
            slots[put.slot] = rows, ids

    def nothing(self, index: jax.Array) -> RowSlots:
        """Slots without rows."""
        return [
            (jnp.broadcast_to(index, aval.shape).astype(aval.dtype), jnp.broadcast_to(index.astype(np.int32), aval.shape[:1]))
            for aval in self.slots
        ]

    def put(self, buffers: Sequence[jax.Array], slots: RowSlots, code: jax.Array) -> list[jax.Array]:
        """The buffers with the rows of the slots; `code` [4, slots] says which."""
        pairs = sorted({(put.buffer, put.slot) for puts in self.puts for put in puts})
        changed = list(buffers)
        for buffer, slot in pairs:
            rows, ids = slots[slot]
            to, first, low, high = (code[row, slot] for row in range(4))
            high = jnp.where(to == buffer, high, low)
            changed[buffer] = _put(changed[buffer], rows, ids, first, low, high)
        return changed


def _put(table: jax.Array, rows: jax.Array, ids: jax.Array, first: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    def one(number: jax.Array, table: jax.Array) -> jax.Array:
        row = jax.lax.dynamic_index_in_dim(rows, number, keepdims=True, allow_negative_indices=False)
        at = jax.lax.dynamic_index_in_dim(ids, number, keepdims=False, allow_negative_indices=False) - first
        return jax.lax.dynamic_update_slice_in_dim(table, row, at, axis=0)

    return jax.lax.fori_loop(low, high, one, table)
