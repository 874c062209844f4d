"""Many ledger entries as one compiled scan: a small machine with registers.

The machine runs ``lax.scan`` over the entries of a stretch: pick the entry's kernel by ``lax.switch``, read its input
registers from their stacks, write its output registers.

Why the writes stand outside the switch: a branch that returned whole stacks would make XLA copy them at every step.
Outputs that a branch does not have go to the last register of their type, which nobody reads.

Everything that fixes the compiled code (branches, sizes of the stacks, length of a chunk) only ever grows, so nothing is
recompiled from stretch to stretch; `Machine.compilations` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simdist.ledger.entry import Branch, Entry
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.program.kernels import compiler_options
from simdist.program.values import BundleType

__all__ = ["Machine"]

# Entries in one call of the compiled scan; the last chunk is filled up with entries that do nothing.
CHUNK = 256
# Chunks that are given out without waiting for the first of them, where somebody waits for the numbers: so long does Ctrl-C wait.
AHEAD = 8
INDEX_MASK = (1 << INDEX_BITS) - 1


class Machine:
    """Runs stretches of the ledger as scans. Gives the bits of one call an entry (class E1)."""

    def __init__(self) -> None:
        self.compilations = 0
        self._compiled: tuple[tuple[Any, ...], Any, _Layout] | None = None
        self._tables: dict[int, tuple[jax.Array, ...]] = {}

    def run(
        self,
        entries: Sequence[Entry],
        branches: Sequence[Branch],
        files: dict[BundleType, RegisterFile],
        noted: Sequence[Any] = (),
        wait: bool = True,
    ) -> tuple[list[tuple[jax.Array, ...]], int]:
        """Compute entries in order, on copies of the stacks: the files stay as they are, whatever happens here.

        Args:
            entries: at least one.
            branches: the ledger's.
            files: the ledger's.
            noted: asks for a stop at the end of a chunk, as soon as there is something in it.
            wait: until all is computed; otherwise the stacks are promises, which may fail later.

        Returns:
            The new stacks, one a file, and how many of the entries they are computed from.
        """
        program, layout = self._program(branches, files)
        tables = [self._table(branch) for branch in branches]
        stacks = [file.copied() for file in files.values()]
        instructions = layout.encode(entries[:CHUNK], files)
        done = 0
        while done < len(entries) and not noted:
            stacks = program(stacks, tables, instructions)  # works in place: what it was given is lost
            done = min(done + CHUNK, len(entries))
            if done < len(entries):
                instructions = layout.encode(entries[done : done + CHUNK], files)  # while the chunk is being computed
            if wait and done % (AHEAD * CHUNK) == 0:
                jax.block_until_ready(stacks)
        # What fails later than it is called fails here, and not in somebody's hands.
        return (jax.block_until_ready(stacks) if wait else stacks), done

    def _table(self, branch: Branch) -> tuple[jax.Array, ...]:
        table = branch.table
        if table is None:
            return ()
        known = self._tables.get(id(table))
        if known is None:
            known = tuple(jnp.asarray(column) for column in table.columns)
            if not table.pending:
                self._tables[id(table)] = known
        return known

    def _program(self, branches: Sequence[Branch], files: dict[BundleType, RegisterFile]) -> tuple[Any, _Layout]:
        key = (len(branches), tuple(file.capacity for file in files.values()))
        if self._compiled is None or self._compiled[0] != key:
            self.compilations += 1
            layout = _Layout(branches, list(files))
            self._compiled = (key, jax.jit(layout.execute, donate_argnums=0, compiler_options=compiler_options()), layout)
        return self._compiled[1], self._compiled[2]


class _Layout:
    """How an entry becomes numbers, and what the scan does with them.

    Attributes:
        slots: (type, n): the n-th bundle of a type that an entry writes.
        feeds: (shape and dtype, n): the n-th array of a shape that the host passes for an entry.
    """

    def __init__(self, branches: Sequence[Branch], types: list[BundleType]) -> None:
        self.branches = list(branches)
        self.index = {avals: number for number, avals in enumerate(types)}
        self.num_reads = max(1, *(len(branch.site.reads) for branch in branches))
        self.slots = _columns([branch.site.writes for branch in branches])
        self.feeds = _columns([branch.fed for branch in branches])
        self.slot_numbers = [_numbered(branch.site.writes, self.slots) for branch in branches]
        self.feed_numbers = [_numbered(branch.fed, self.feeds) for branch in branches]

    def encode(self, entries: Sequence[Entry], files: dict[BundleType, RegisterFile]) -> tuple[Any, ...]:
        """The instructions of one chunk: branch numbers [c], reads [c, n], writes [c, slots] and fed arrays [c, ...]."""
        nothing = [files[avals].capacity - 1 for avals, _ in self.slots]
        codes = np.full(CHUNK, len(self.branches), np.int32)
        reads = np.zeros((CHUNK, self.num_reads), np.int32)
        writes = np.tile(np.array(nothing, np.int32), (CHUNK, 1))
        feeds = [np.zeros((CHUNK, *aval.shape), jnp.dtype(aval.dtype)) for aval, _ in self.feeds]
        codes[: len(entries)] = [entry[1] for entry in entries]
        for code in np.unique(codes[: len(entries)]).tolist():
            rows = np.flatnonzero(codes == code)
            chosen = [entries[row] for row in rows.tolist()]
            site = self.branches[code].site
            if site.reads:
                reads[rows, : len(site.reads)] = np.array([entry[2] for entry in chosen]) & INDEX_MASK
            if site.writes:
                writes[rows[:, None], self.slot_numbers[code]] = np.array([entry[3] for entry in chosen]) & INDEX_MASK
            for position, column in enumerate(self.feed_numbers[code]):
                feeds[column][rows] = np.array([entry[4][position] for entry in chosen])
        return codes, reads, writes, tuple(feeds)

    def execute(self, stacks: list[tuple[Any, ...]], tables: list[tuple[Any, ...]], instructions: tuple[Any, ...]) -> Any:
        """The scan itself, to be compiled."""

        def step(stacks: list[tuple[Any, ...]], x: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], None]:
            code, reads, writes, feeds = x
            runs = [self._run(number, tables[number], stacks, reads, feeds) for number in range(len(self.branches))]
            results = jax.lax.switch(code, [*runs, self._nothing])
            stacks = list(stacks)
            for slot, (avals, _) in enumerate(self.slots):
                number = self.index[avals]
                stacks[number] = tuple(
                    jax.lax.dynamic_update_index_in_dim(leaf, new, writes[slot], 0)
                    for leaf, new in zip(stacks[number], results[slot], strict=True)
                )
            return stacks, None

        return jax.lax.scan(step, list(stacks), instructions)[0]

    def _nothing(self) -> list[tuple[Any, ...]]:
        return [tuple(jnp.zeros(aval.shape, aval.dtype) for aval in avals) for avals, _ in self.slots]

    def _run(self, number: int, table: tuple[Any, ...], stacks: Any, reads: Any, feeds: Any) -> Callable[[], list[tuple[Any, ...]]]:
        branch = self.branches[number]

        def run() -> list[tuple[Any, ...]]:
            arrays: list[Any] = []
            for position, avals in enumerate(branch.site.reads):
                stack = stacks[self.index[avals]]
                arrays.extend(jax.lax.dynamic_index_in_dim(leaf, reads[position], keepdims=False) for leaf in stack)
            fed = [feeds[column] for column in self.feed_numbers[number]]
            if branch.table is not None:
                # Not jnp.take: what it does with rows out of range is fused into the kernel, and changes its last bits.
                arrays.extend(column[fed[0]] for column in table)
                fed = fed[1:]
            # The barriers keep XLA from fusing across the kernel's border, which would change its last bits.
            arrays, fed = jax.lax.optimization_barrier((arrays, fed))
            outputs = jax.lax.optimization_barrier(branch.site.kernel.function(*arrays, *fed))
            results = self._nothing()
            for slot, part in zip(self.slot_numbers[number], branch.site.split(tuple(outputs)), strict=True):
                results[slot] = part
            return results

        return run


def _columns(lists: Sequence[Sequence[Any]]) -> list[tuple[Any, int]]:
    """For each different item, as many columns as the list that has most of it."""
    items = dict.fromkeys(item for items in lists for item in items)
    return [(item, n) for item in items for n in range(max(list(items).count(item) for items in lists))]


def _numbered(wanted: Sequence[Any], columns: list[tuple[Any, int]]) -> list[int]:
    return [columns.index((item, list(wanted[:position]).count(item))) for position, item in enumerate(wanted)]
