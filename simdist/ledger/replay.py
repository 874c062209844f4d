"""Many ledger entries as one compiled loop: a small machine that works on rows of memory.

A stretch of entries is cut into chunks. Each is one call of a compiled program (layout.py), which works in place on the heaps
(heap.py): what one entry writes, a later one reads.

Everything that fixes the compiled code (branches, sizes of the heaps, length of a chunk) only ever grows, so nothing is
recompiled from stretch to stretch; `Machine.compilations` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from simdist.ledger.entry import Branch, Entry
from simdist.ledger.heap import Heap, Loose
from simdist.ledger.layout import Carried, Instructions, Layout, Stacks
from simdist.ledger.registers import RegisterFile, index_of
from simdist.ledger.table_chains import TableChains
from simdist.program.arrays import Array
from simdist.program.kernels import compiler_options
from simdist.program.step_iterator import ColumnTable
from simdist.program.values import BundleType

__all__ = ["Machine"]

# Entries in one call of the compiled scan; the last chunk is filled up with entries that do nothing.
CHUNK = 256
# Chunks that are given out without waiting for the first of them, where a caller waits for the numbers: so long does Ctrl-C wait.
AHEAD = 8
Scan = Callable[[Carried, list[tuple[jax.Array, ...]], Instructions], Carried]
# What fixes a scan: the number of branches, that of their chains, that of the arrays that lie in no heap, and rows and words of each heap.
Size = tuple[int, int, int, tuple[tuple[int, int], ...]]


class Machine:
    """Runs stretches of the ledger as scans. Gives the bits of one call an entry (class E1)."""

    def __init__(self) -> None:
        self.compilations = 0
        self._compiled: tuple[Size, Scan, Layout] | None = None
        self._tables: dict[ColumnTable, tuple[jax.Array, ...]] = {}
        self.chains = TableChains()

    def run(
        self,
        entries: Sequence[Entry],
        branches: Sequence[Branch],
        files: dict[BundleType, RegisterFile],
        tables: list[tuple[jax.Array, ...]],
        noted: Sequence[BaseException] = (),
        wait: bool = True,
        buffers: Sequence[Array] = (),
    ) -> tuple[Stacks, list[jax.Array], int]:
        """Compute entries in order, on copies of the heaps: heaps and files stay as they are, whatever happens here.

        Args:
            entries: at least one.
            branches: the ledger's.
            files: the ledger's.
            tables: as `tables` gave them.
            noted: asks for a stop at the end of a chunk, as soon as there is something in it.
            wait: until all is computed; otherwise the results are promises, which may fail later.
            buffers: of the tables of all chains; they are overwritten.

        Returns:
            The new stacks, one a heap, the new buffers, and how many of the entries they are computed from.
        """
        program, layout = self._program(branches, files)
        stacks = [heap.copied(loose) for heap, loose in _loose(files).items()]
        carried = stacks, [jnp.asarray(buffer) for buffer in buffers]
        instructions = layout.encode(entries[:CHUNK])
        done = 0
        while done < len(entries) and not noted:
            carried = program(carried, tables, instructions)  # works in place: what it was given is lost
            done = min(done + CHUNK, len(entries))
            if done < len(entries):
                instructions = layout.encode(entries[done : done + CHUNK])  # while the chunk is being computed
            if wait and done % (AHEAD * CHUNK) == 0:
                jax.block_until_ready(carried)
        # A computation that fails after its call fails here, and not at its first reader.
        stacks, found = jax.block_until_ready(carried) if wait else carried
        return stacks, found, done

    def tables(self, branches: Sequence[Branch]) -> list[tuple[jax.Array, ...]]:
        """The columns of the data that each branch reads; a function of a dataset may be called to make them, and may raise."""
        return [self._table(branch) for branch in branches]

    def _table(self, branch: Branch) -> tuple[jax.Array, ...]:
        table = branch.table
        if table is None:
            return ()
        known = self._tables.get(table)
        if known is None:
            known = tuple(jnp.asarray(column) for column in table.columns)
            if not table.pending:
                self._tables[table] = known
        return known

    def is_compiled_for(self, branches: Sequence[Branch], files: dict[BundleType, RegisterFile]) -> bool:
        """Whether the last stretch ran by the program that the next one needs."""
        return self._compiled is not None and self._compiled[0] == self._size(branches, files)

    def _size(self, branches: Sequence[Branch], files: dict[BundleType, RegisterFile]) -> Size:
        heaps = dict.fromkeys(file.heap for file in files.values())
        num_tables = sum([len(file.tables) for file in files.values()])  # one more, and the rest of its bundles lies elsewhere in a row
        return len(branches), len(self.chains.numbers), num_tables, tuple([(heap.capacity, heap.words) for heap in heaps])

    def _program(self, branches: Sequence[Branch], files: dict[BundleType, RegisterFile]) -> tuple[Scan, Layout]:
        size = self._size(branches, files)
        if self._compiled is None or self._compiled[0] != size:
            self.compilations += 1
            layout = Layout(branches, files, CHUNK, self.chains)
            self._compiled = (size, jax.jit(layout.execute, donate_argnums=0, compiler_options=compiler_options()), layout)
        return self._compiled[1], self._compiled[2]


def _loose(files: dict[BundleType, RegisterFile]) -> dict[Heap, list[Loose]]:
    """The numbers that each heap lacks."""
    lacking: dict[Heap, list[Loose]] = {}
    for file in files.values():
        found = [(index_of(register), file.packing, file.rest_of(register)) for register in file.loose]
        lacking.setdefault(file.heap, []).extend(found)
    return lacking
