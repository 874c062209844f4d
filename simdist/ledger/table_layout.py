"""Tables in the program of the replay machine: one buffer for each, outside of the branches that read rows of it.

A branch gathers the rows that its kernel takes, or reads the whole table where it is, and returns the rows that it changes in *row slots*,
with their numbers. After the branch they are put into the buffer of their chain, by a loop that writes in place; for all other buffers that
loop has no turns. The numbers of the rows are passed by the host, or an earlier entry has made them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.entry import Branch
from simdist.ledger.registers import RegisterFile
from simdist.ledger.table_chains import TableChains, form_in_scan, ports_of, whole_tables
from simdist.program.arrays import HostArray
from simdist.program.row_kernels import Port, taken_rows
from simdist.program.values import Aval

__all__ = ["RowSlots", "TableInstructions", "TableLayout"]

# Of c entries: for each row slot [slots, c] the buffer that it goes to, the first row of the table, and which rows are put (from, until);
# where the host does not know the numbers of rows, `MADE_BY_ENTRIES` and the row after the last one of the table.
TableInstructions = HostArray
# The rows [k, ...] and the numbers [k] of each slot.
RowSlots = list[tuple[jax.Array, jax.Array]]
MADE_BY_ENTRIES = -1
NO_ROW = np.iinfo(np.int32).max


class _Put(NamedTuple):
    """What a branch puts: an output of its kernel, by a port, from a slot into a buffer; and which numbers of rows the host passes."""

    port: Port
    fed: int | None
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
        self.whole: list[list[tuple[int, int]]] = []  # for each branch the inputs that are tables as they are, and their buffers
        self.puts: list[list[_Put]] = []
        self.starts = [sum(map(len, branch.site.reads)) for branch in branches]  # of what the host passes, among the inputs of each
        tables = {file.avals: file.tables for file in files if file.tables}
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
            whole = [
                (number, chains.numbers[code, position], table)
                for position in reads
                if (code, position) in chains.numbers
                for number, table in whole_tables(branch.site, position, tables[branch.site.reads[position]])
            ]
            self.whole.append([(number, numbers[chain, table]) for number, chain, table in whole if (chain, table) in numbers])
            self.puts.append(self._puts_of(branch, own, self.starts[code]))

    def _puts_of(self, branch: Branch, ports: Sequence[tuple[Port, int]], start: int) -> list[_Put]:
        puts: list[_Put] = []
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
            puts.append(_Put(port, port.ids - start if port.ids >= start else None, slot, buffer))
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
            first, stop = put.port.first, put.port.stop
            found[0, put.slot, numbers] = put.buffer
            found[1, put.slot, numbers] = first
            if put.fed is None:
                found[2, put.slot, numbers], found[3, put.slot, numbers] = MADE_BY_ENTRIES, stop
            else:
                ids = feeds[put.fed]  # ascending in each row
                found[2, put.slot, numbers] = np.count_nonzero(ids < first, axis=1)
                found[3, put.slot, numbers] = np.count_nonzero(ids < stop, axis=1)

    # -- to be compiled -------------------------------------------------------------------------------------------

    def inputs(self, code: int, buffers: Sequence[jax.Array], known: dict[int, jax.Array], fed: Sequence[jax.Array]) -> list[jax.Array]:
        """The inputs of a branch's kernel of rows, before what the host passes: arrays that are known, by number, and rows of tables."""
        form = self.forms[code]
        assert form is not None
        start = self.starts[code]
        for port, buffer in self.taken[code]:
            ids = fed[port.ids - start] if port.ids >= start else known[port.ids]
            known[port.input] = taken_rows(buffers[buffer], ids, port.first)
        known.update({number: buffers[buffer] for number, buffer in self.whole[code]})
        unused = [number for number in range(start) if number not in known]
        known.update({number: jnp.zeros(form.inner.in_avals[number].shape, form.inner.in_avals[number].dtype) for number in unused})
        return [known[number] for number in range(start)]

    def put_into_slots(self, code: int, outputs: Sequence[jax.Array], inputs: Sequence[jax.Array], slots: RowSlots) -> None:
        """Put the rows that a branch changes into their slots; `inputs` are all of its kernel's."""
        for put in self.puts[code]:
            assert put.port.output is not None
            rows, ids = outputs[put.port.output], inputs[put.port.ids]
            missing = self.slots[put.slot].shape[0] - rows.shape[0]
            if missing:
                rows = jnp.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1))
                ids = jnp.pad(ids, (0, missing), constant_values=NO_ROW)
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
        made = {put.slot for puts in self.puts for put in puts if put.fed is None}
        changed = list(buffers)
        for buffer, slot in pairs:
            rows, ids = slots[slot]
            to, first, low, high = (code[row, slot] for row in range(4))
            if slot in made:
                is_made, stop = low == MADE_BY_ENTRIES, high
                low, high = (jnp.where(is_made, jnp.sum(ids < row, dtype=np.int32), known) for row, known in ((first, low), (stop, high)))
            high = jnp.where(to == buffer, high, low)
            changed[buffer] = _put(changed[buffer], rows, ids, first, low, high)
        return changed


def _put(table: jax.Array, rows: jax.Array, ids: jax.Array, first: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    def one(number: jax.Array, table: jax.Array) -> jax.Array:
        row = jax.lax.dynamic_index_in_dim(rows, number, keepdims=True, allow_negative_indices=False)
        at = jax.lax.dynamic_index_in_dim(ids, number, keepdims=False, allow_negative_indices=False) - first
        return jax.lax.dynamic_update_slice_in_dim(table, row, at, axis=0)

    return jax.lax.fori_loop(low, high, one, table)
