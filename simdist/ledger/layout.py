"""The program of the replay machine: how entries become numbers, and the loop that computes them.

An entry is a few numbers: its branch, the rows that it reads and writes, and what the host passes. The loop picks the branch by
``lax.switch``; the branch reads its rows, calls its kernel and packs each bundle of its results into one row.

Why the writes stand outside the switch: a branch that returned whole heaps would make XLA copy them at every entry. So the switch
returns *slots*, as many rows as the branch that writes most, and each is then written into its heap. A branch that writes
less leaves its other slots as they come: they are written to the last row of the heap, which is never read, or, where that takes
longer than to decide, not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.entry import Branch, Entry
from simdist.ledger.heap import WORD
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.ledger.table_chains import TableChains
from simdist.ledger.table_layout import RowSlots, TableInstructions, TableLayout
from simdist.program.apart import not_in_one_function
from simdist.program.arrays import HostArray
from simdist.program.values import BundleType

__all__ = ["Carried", "Instructions", "Layout", "Stacks"]

INDEX_MASK = (1 << INDEX_BITS) - 1
# A heap of rows from this width on is written only by branches that have something for it.
WIDE_WORDS = 512
# The numbers of each heap, [rows, words].
Stacks = list[jax.Array]
# The numbers of heaps, and the buffers of tables that are kept out of them.
Carried = tuple[Stacks, list[jax.Array]]
# Of c entries: branch numbers [c], rows read [reads, c] and written [slots, c], arrays from the host [c, ...], and what becomes of tables.
Instructions = tuple[HostArray, HostArray, HostArray, tuple[HostArray, ...], TableInstructions]
Traced = tuple[jax.Array, jax.Array, jax.Array, tuple[jax.Array, ...], jax.Array]
Tables = Sequence[tuple[jax.Array, ...]]
Item = TypeVar("Item")


class Layout:
    """How an entry becomes numbers, and what the loop does with them.

    Args:
        branches: the ledger's.
        files: the ledger's.
        chunk: entries in one call; what is missing is filled up with entries that do nothing.
        chains: of the tables that are kept out of the heaps.

    Attributes:
        slots: (number of a heap, words) of each row that an entry may write.
        feeds: (shape and dtype, n): the n-th array of a shape that the host passes for an entry.
    """

    def __init__(self, branches: Sequence[Branch], files: dict[BundleType, RegisterFile], chunk: int, chains: TableChains) -> None:
        self.branches = list(branches)
        self.chunk = chunk
        heaps = list(dict.fromkeys(file.heap for file in files.values()))
        self.packings = {avals: file.packing for avals, file in files.items()}
        self.heap_of = {avals: heaps.index(file.heap) for avals, file in files.items()}
        self.nothing = np.array([heap.capacity - 1 for heap in heaps], np.uint32)
        self.num_reads = max(1, *(len(branch.site.reads) for branch in branches))
        self.slots, self.slot_numbers = self._slots()
        self.feeds = _columns([branch.fed for branch in branches])
        self.feed_numbers = [_numbered(branch.fed, self.feeds) for branch in branches]
        self.without = {avals: file.tables for avals, file in files.items()}
        self.of_tables = TableLayout(branches, list(files.values()), chains, chunk)

    def _slots(self) -> tuple[list[tuple[int, int]], list[list[int]]]:
        """The slots, and which of them each branch writes: the widest bundle of a heap into its first slot, and so on."""
        keys: list[list[tuple[int, int]]] = []
        widths: dict[tuple[int, int], int] = {}
        for branch in self.branches:
            words = [self.packings[avals].words for avals in branch.site.writes]
            heaps, seen = [self.heap_of[avals] for avals in branch.site.writes], Counter[int]()
            keys.append([(heap, 0) for heap in heaps])
            for n in sorted(range(len(words)), key=lambda n: -words[n]):
                keys[-1][n] = key = (heaps[n], seen[heaps[n]])
                seen[heaps[n]] += 1
                widths[key] = max(widths.get(key, 0), words[n])
        order = list(widths)
        return [(heap, widths[heap, n]) for heap, n in order], [[order.index(key) for key in each] for each in keys]

    def encode(self, entries: Sequence[Entry]) -> Instructions:
        """The instructions of one chunk."""
        codes = np.full(self.chunk, len(self.branches), np.int32)
        reads = np.zeros((self.num_reads, self.chunk), np.uint32)
        writes = np.repeat(self.nothing[[heap for heap, _ in self.slots]], self.chunk).reshape(-1, self.chunk)
        feeds = [np.zeros((self.chunk, *aval.shape), jnp.dtype(aval.dtype)) for aval, _ in self.feeds]
        puts = self.of_tables.nothing_put()
        codes[: len(entries)] = [entry[1] for entry in entries]
        for code in np.unique(codes[: len(entries)]).tolist():
            rows = np.flatnonzero(codes == code)
            chosen = [entries[row] for row in rows.tolist()]
            site = self.branches[code].site
            if site.reads:
                reads[: len(site.reads), rows] = _indices([entry[2] for entry in chosen])
            if site.writes:
                writes[np.array(self.slot_numbers[code])[:, None], rows] = _indices([entry[3] for entry in chosen])
            given = [np.array([entry[4][position] for entry in chosen]) for position in range(len(self.feed_numbers[code]))]
            for column, arrays in zip(self.feed_numbers[code], given, strict=True):
                feeds[column][rows] = arrays
            self.of_tables.encode(puts, code, rows, given)
        return codes, reads, writes, tuple(feeds), puts

    # -- to be compiled -------------------------------------------------------------------------------------------

    def execute(self, carried: Carried, tables: Tables, instructions: Traced) -> Carried:
        """The loop over the entries of a chunk, on the stacks of heaps and the buffers of tables."""
        codes, _, writes, _, row_codes = instructions

        # Indices are unsigned: of a signed one, JAX asks each time whether it counts from the end.
        def step(number: jax.Array, carried: Carried) -> Carried:
            stacks, buffers = carried
            index = number.astype(np.uint32)
            code = jax.lax.dynamic_index_in_dim(codes, index, keepdims=False)
            runs = [self._run(number, index, carried, table, instructions) for number, table in enumerate(tables)]
            rows, row_slots = jax.lax.switch(code, [*runs, partial(self._no_entry, index)])
            written = [self._written(heap, stack, rows, code, writes, index) for heap, stack in enumerate(stacks)]
            row_code = jax.lax.dynamic_index_in_dim(row_codes, index, axis=2, keepdims=False)
            return written, self.of_tables.put(buffers, row_slots, row_code)

        return jax.lax.fori_loop(0, self.chunk, step, carried)

    def _no_entry(self, index: jax.Array) -> tuple[list[jax.Array], RowSlots]:
        index = not_in_one_function(index)  # only after the last entry
        return self._nothing(index), self.of_tables.nothing(index)

    def _nothing(self, index: jax.Array) -> list[jax.Array]:
        # Not zeros: a constant would be made outside of the branch, and copied in it.
        return [jnp.broadcast_to(index.astype(WORD), words) for _, words in self.slots]

    def _run(
        self, number: int, index: jax.Array, carried: Carried, table: tuple[jax.Array, ...], instructions: Traced
    ) -> Callable[[], tuple[list[jax.Array], RowSlots]]:
        branch, form = self.branches[number], self.of_tables.forms[number]
        _, reads, _, feeds, _ = instructions

        def run() -> tuple[list[jax.Array], RowSlots]:
            if form is None:
                return self._nothing(index), self.of_tables.nothing(index)  # such entries are called by themselves
            fed = [jax.lax.dynamic_index_in_dim(feeds[column], index, keepdims=False) for column in self.feed_numbers[number]]
            arrays = self._inputs(number, index, carried, reads, fed)
            if branch.table is not None:
                # Not jnp.take: what it does with rows out of range is fused into the kernel, and changes its last bits.
                arrays.extend(column[fed[0]] for column in table)
                fed = fed[1:]
            outputs = form.inner.apart(*arrays, *fed)
            rows, row_slots = self._nothing(index), self.of_tables.nothing(index)
            for slot, avals, part in zip(self.slot_numbers[number], branch.site.writes, branch.site.split(tuple(outputs)), strict=True):
                kept = [array for position, array in enumerate(part) if position not in self.without[avals]]
                rows[slot] = self.packings[avals].packed(kept, self.slots[slot][1])
            self.of_tables.put_into_slots(number, outputs, [*arrays, *fed], row_slots)
            return rows, row_slots

        return run

    def _inputs(self, number: int, index: jax.Array, carried: Carried, reads: jax.Array, fed: Sequence[jax.Array]) -> list[jax.Array]:
        """The arrays of the bundles that a branch reads; of tables the rows that it takes."""
        (stacks, buffers), site = carried, self.branches[number].site
        known: dict[int, jax.Array] = {}
        first = 0
        for position, avals in enumerate(site.reads):
            kept = [first + place for place in range(len(avals)) if place not in self.without[avals]]
            row = self.packings[avals].read(stacks[self.heap_of[avals]], _cell(reads, position, index))
            known.update(zip(kept, row, strict=True))
            first += len(avals)
        if len(known) < first:
            return self.of_tables.inputs(number, buffers, known, fed)
        return list(known.values())

    def _written(
        self, heap: int, stack: jax.Array, rows: Sequence[jax.Array], code: jax.Array, writes: jax.Array, index: jax.Array
    ) -> jax.Array:
        """The numbers of a heap after an entry."""
        slots = [slot for slot, (number, _) in enumerate(self.slots) if number == heap]

        def put(stack: jax.Array) -> jax.Array:
            for slot in slots:
                stack = jax.lax.dynamic_update_slice(stack, rows[slot][None], (_cell(writes, slot, index), np.uint32(0)))
            return stack

        if all(self.slots[slot][1] < WIDE_WORDS for slot in slots):
            return put(stack)
        writing = jnp.asarray([not set(slots).isdisjoint(numbers) for numbers in self.slot_numbers] + [False])
        wanted = jax.lax.dynamic_index_in_dim(writing, code.astype(np.uint32), keepdims=False)
        return jax.lax.cond(wanted, put, lambda stack: stack, stack)


def _indices(registers: Sequence[Sequence[int]]) -> HostArray:
    """The rows [n, entries] of the n registers of each entry. Half the time of an array of lists."""
    flat = np.fromiter(chain.from_iterable(registers), np.int64, len(registers) * len(registers[0]))
    return (flat & INDEX_MASK).reshape(len(registers), -1).T


def _cell(table: jax.Array, row: int, column: jax.Array) -> jax.Array:
    return jax.lax.dynamic_slice(table, (np.uint32(row), column), (1, 1)).reshape(())


def _columns(lists: Sequence[Sequence[Item]]) -> list[tuple[Item, int]]:
    """For each different item, as many columns as the list that has most of it."""
    items = dict.fromkeys(item for items in lists for item in items)
    return [(item, n) for item in items for n in range(max(list(items).count(item) for items in lists))]


def _numbered(wanted: Sequence[Item], columns: list[tuple[Item, int]]) -> list[int]:
    return [columns.index((item, list(wanted[:position]).count(item))) for position, item in enumerate(wanted)]
