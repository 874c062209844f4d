"""Many ledger entries as one compiled scan: a small machine with registers.

The machine keeps one *register file* for each type of bundle (one stacked array a leaf) and runs ``lax.scan`` over the
entries of a stretch: pick the entry's kernel by ``lax.switch``, read its input registers, write its output registers.
Memory is bounded by the bundles that are alive at once (workers times parameters), not by the length of the stretch.

Why the writes stand outside the switch: a branch that returned whole register files would make XLA copy them at every
step. Outputs that a branch does not have go to the last register of their type, which nobody reads.

Everything that fixes the compiled code (kernels, tables, numbers of registers, length of a chunk) only ever grows, so
nothing is recompiled from stretch to stretch; `Machine.compilations` counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simdist.program.entry import Entry
from simdist.program.kernels import compiler_options
from simdist.program.registers import Branch, BundleType, Stretch, translate

__all__ = ["Machine"]

# Entries in one call of the compiled scan; the last chunk is filled up with entries that do nothing.
CHUNK = 256


class Machine:
    """Runs stretches of the ledger as scans. Gives the bits of one call an entry (class E1)."""

    def __init__(self) -> None:
        self.branches: dict[tuple[Any, ...], Branch] = {}
        self.registers: dict[BundleType, int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.compilations = 0
        self._compiled: tuple[tuple[Any, ...], Any, _Layout] | None = None

    def run(self, entries: Sequence[Entry]) -> None:
        """Compute all entries, in order, and hand their results to the bundles that somebody holds."""
        if not entries:
            return
        stretch = translate(entries, self._number)
        for avals, size in stretch.sizes.items():
            self.registers[avals] = max(self.registers.get(avals, 0), _rounded(size))
        program, layout = self._program()
        files = [_load(avals, size, stretch) for avals, size in self.registers.items()]
        tables = [() if b.table is None else tuple(jnp.asarray(column) for column in b.table.columns) for b in self.branches.values()]
        for start in range(0, len(stretch.branches), CHUNK):
            files = program(files, tables, layout.encode(stretch, start, self.registers))
        self._store(stretch, files)

    def _number(self, branch: Branch) -> int:
        key = branch.key
        if key not in self.branches:
            self.branches[key] = branch
            self._numbers[key] = len(self._numbers)
        return self._numbers[key]

    def _program(self) -> tuple[Any, _Layout]:
        key = (tuple(self.branches), tuple(self.registers.items()))
        if self._compiled is None or self._compiled[0] != key:
            self.compilations += 1
            layout = _Layout(list(self.branches.values()), list(self.registers))
            self._compiled = (key, jax.jit(layout.execute, donate_argnums=0, compiler_options=compiler_options()), layout)
        return self._compiled[1], self._compiled[2]

    def _store(self, stretch: Stretch, files: list[tuple[Any, ...]]) -> None:
        """Copy the registers that somebody holds: a slice would keep the whole file alive, a view would forbid donation."""
        host = {avals: [np.asarray(leaf) for leaf in file] for avals, file in zip(self.registers, files, strict=True)}
        for bundle, register in stretch.stores:
            bundle.arrays = tuple(np.array(leaf[register]) for leaf in host[bundle.avals])
            bundle.entry = None


class _Layout:
    """How an entry becomes numbers, and what the scan does with them.

    Attributes:
        slots: (type, n): the n-th bundle of a type that an entry writes.
        feeds: (shape and dtype, n): the n-th array of a shape that the host passes for an entry.
    """

    def __init__(self, branches: Sequence[Branch], types: list[BundleType]) -> None:
        self.branches = branches
        self.index = {avals: number for number, avals in enumerate(types)}
        self.num_reads = max(1, *(len(branch.reads) for branch in branches))
        self.slots = _columns([branch.writes for branch in branches])
        self.feeds = _columns([branch.fed for branch in branches])
        self.slot_numbers = [_numbered(branch.writes, self.slots) for branch in branches]
        self.feed_numbers = [_numbered(branch.fed, self.feeds) for branch in branches]

    def encode(self, stretch: Stretch, start: int, registers: dict[BundleType, int]) -> tuple[Any, ...]:
        """The instructions of one chunk: branch numbers [c], reads [c, n], writes [c, slots] and fed arrays [c, ...]."""
        stop = min(start + CHUNK, len(stretch.branches))
        codes = np.full(CHUNK, len(self.branches), np.int32)
        codes[: stop - start] = stretch.branches[start:stop]
        reads = np.zeros((CHUNK, self.num_reads), np.int32)
        writes = np.tile(np.array([registers[avals] - 1 for avals, _ in self.slots], np.int32), (CHUNK, 1))
        feeds = [np.zeros((CHUNK, *aval.shape), jnp.dtype(aval.dtype)) for aval, _ in self.feeds]
        for row in range(stop - start):
            code, read = codes[row], stretch.reads[start + row]
            reads[row, : len(read)] = read
            writes[row, self.slot_numbers[code]] = stretch.writes[start + row]
            for column, array in zip(self.feed_numbers[code], stretch.fed[start + row], strict=True):
                feeds[column][row] = array
        return codes, reads, writes, tuple(feeds)

    def execute(self, files: list[tuple[Any, ...]], tables: list[tuple[Any, ...]], instructions: tuple[Any, ...]) -> Any:
        """The scan itself, to be compiled."""

        def step(files: list[tuple[Any, ...]], x: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], None]:
            code, reads, writes, feeds = x
            runs = [self._run(number, tables[number], files, reads, feeds) for number in range(len(self.branches))]
            results = jax.lax.switch(code, [*runs, self._nothing])
            files = list(files)
            for slot, (avals, _) in enumerate(self.slots):
                number = self.index[avals]
                files[number] = tuple(
                    jax.lax.dynamic_update_index_in_dim(leaf, new, writes[slot], 0)
                    for leaf, new in zip(files[number], results[slot], strict=True)
                )
            return files, None

        return jax.lax.scan(step, list(files), instructions)[0]

    def _nothing(self) -> list[tuple[Any, ...]]:
        return [tuple(jnp.zeros(aval.shape, aval.dtype) for aval in avals) for avals, _ in self.slots]

    def _run(self, number: int, table: tuple[Any, ...], files: Any, reads: Any, feeds: Any) -> Callable[[], list[tuple[Any, ...]]]:
        branch = self.branches[number]

        def run() -> list[tuple[Any, ...]]:
            arrays: list[Any] = []
            for position, avals in enumerate(branch.reads):
                file = files[self.index[avals]]
                arrays.extend(jax.lax.dynamic_index_in_dim(leaf, reads[position], keepdims=False) for leaf in file)
            fed = [feeds[column] for column in self.feed_numbers[number]]
            if branch.table is not None:
                # Not jnp.take: what it does with rows out of range is fused into the kernel, and changes its last bits.
                arrays.extend(column[fed[0]] for column in table)
                fed = fed[1:]
            # The barriers keep XLA from fusing across the kernel's border, which would change its last bits.
            arrays, fed = jax.lax.optimization_barrier((arrays, fed))
            outputs = jax.lax.optimization_barrier(branch.kernel.function(*arrays, *fed))
            results, start = self._nothing(), 0
            for slot, avals in zip(self.slot_numbers[number], branch.writes, strict=True):
                results[slot] = tuple(outputs[start : start + len(avals)])
                start += len(avals)
            return results

        return run


def _columns(lists: Sequence[Sequence[Any]]) -> list[tuple[Any, int]]:
    """For each different item, as many columns as the list that has most of it."""
    items = dict.fromkeys(item for items in lists for item in items)
    return [(item, n) for item in items for n in range(max(list(items).count(item) for items in lists))]


def _numbered(wanted: Sequence[Any], columns: list[tuple[Any, int]]) -> list[int]:
    return [columns.index((item, list(wanted[:place]).count(item))) for place, item in enumerate(wanted)]


def _load(avals: BundleType, size: int, stretch: Stretch) -> tuple[Any, ...]:
    """A register file whose first registers hold the bundles that exist already."""
    bundles = stretch.loads.get(avals, [])
    leaves: list[Any] = []
    for position, aval in enumerate(avals):
        leaf = np.zeros((size, *aval.shape), jnp.dtype(aval.dtype))
        for register, bundle in enumerate(bundles):
            assert bundle.arrays is not None
            leaf[register] = bundle.arrays[position]
        leaves.append(jnp.asarray(leaf))
    return tuple(leaves)


def _rounded(size: int) -> int:
    """Room for one register that nobody reads, in few different sizes."""
    return max(4, 1 << size.bit_length())
