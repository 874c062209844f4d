"""A stretch of the ledger as a straight-line program: bundles become registers.

Every bundle that a stretch reads or writes gets a number, and while it lives a register of its type. Bundles that
exist before the stretch are loaded at its start; bundles that somebody outside still holds are stored at its end; a
register is free again after the last read of its bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simdist.program.entry import Entry
from simdist.program.kernels import Kernel
from simdist.program.values import Aval, Bundle, aval_of

__all__ = ["Branch", "BundleType", "Stretch", "branch_of", "translate"]

BundleType = tuple[Aval, ...]


@dataclass(frozen=True, eq=False)
class Branch:
    """One kind of entry: what it runs, and the types that it reads and writes."""

    kernel: Kernel
    table: Any  # the batch is rows of this table; None where the leaves of the batch are passed as they are
    reads: tuple[BundleType, ...]
    writes: tuple[BundleType, ...]
    fed: tuple[Aval, ...]  # what the host passes for each entry: rows or leaves of the batch, then keys

    @property
    def key(self) -> tuple[Any, ...]:
        return (id(self.kernel), None if self.table is None else self.table.key, self.reads, self.writes, self.fed)


@dataclass
class Stretch:
    """Entries as numbers. Lists run over the entries; registers are counted for each type apart."""

    branches: list[int] = field(default_factory=list[int])
    reads: list[list[int]] = field(default_factory=list[list[int]])
    writes: list[list[int]] = field(default_factory=list[list[int]])
    fed: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    loads: dict[BundleType, list[Bundle]] = field(default_factory=dict[BundleType, list[Bundle]])
    stores: list[tuple[Bundle, int]] = field(default_factory=list[tuple[Bundle, int]])
    sizes: dict[BundleType, int] = field(default_factory=dict[BundleType, int])


def branch_of(entry: Entry) -> Branch:
    """What kind of entry this is."""
    batch, table = entry.batch, None if entry.batch is None else entry.batch.table
    fed = tuple(aval_of(array) for array in entry.host)
    if batch is not None:
        fed = (tuple(map(aval_of, batch.leaves())) if table is None else (Aval(np.shape(batch.rows), "int32"),)) + fed
    start, writes = 0, list[BundleType]()
    for size in entry.sizes:
        writes.append(entry.kernel.out_avals[start : start + size])
        start += size
    return Branch(entry.kernel, table, tuple(bundle.avals for bundle in entry.inputs), tuple(writes), fed)


def translate(entries: Sequence[Entry], number_of: Callable[[Branch], int]) -> Stretch:
    """Turn entries into a stretch. The entries are used up: afterwards only outsiders hold their bundles.

    Args:
        entries: in the order in which they are to run.
        number_of: the number of a branch in the machine.
    """
    stretch = Stretch()
    types: list[BundleType] = []
    numbers: dict[int, int] = {}
    inputs: list[list[int]] = []
    outputs: list[list[int]] = []
    given: list[Bundle] = []
    references: list[Any] = []
    for entry in entries:
        for bundle in entry.inputs:
            if bundle.arrays is not None and id(bundle) not in numbers:
                numbers[id(bundle)] = len(types)
                types.append(bundle.avals)
                given.append(bundle)
        inputs.append([numbers[id(bundle)] for bundle in entry.inputs])
        branch = branch_of(entry)
        stretch.branches.append(number_of(branch))
        batch = entry.batch
        own = () if batch is None else (batch.leaves() if branch.table is None else (batch.rows,))
        stretch.fed.append(own + entry.host)
        outputs.append(list(range(len(types), len(types) + len(branch.writes))))
        types.extend(branch.writes)
        for number, reference in zip(outputs[-1], entry.outputs, strict=True):
            references.append((number, reference))
            if (made := reference()) is not None:
                numbers[id(made)] = number
                del made
    given_numbers = [numbers[id(bundle)] for bundle in given]
    for entry in entries:
        entry.inputs, entry.batch, entry.host = (), None, ()
    held = {number: bundle for number, reference in references if (bundle := reference()) is not None}
    _assign(stretch, types, inputs, outputs, dict(zip(given_numbers, given, strict=True)), held)
    return stretch


def _assign(
    stretch: Stretch,
    types: list[BundleType],
    inputs: list[list[int]],
    outputs: list[list[int]],
    given: dict[int, Bundle],
    held: dict[int, Bundle],
) -> None:
    """Linear-scan register allocation, one pool of registers for each type."""
    free: dict[BundleType, list[int]] = {}
    register: dict[int, int] = {}

    def take(number: int) -> None:
        avals = types[number]
        pool = free.setdefault(avals, [])
        if not pool:
            stretch.sizes[avals] = stretch.sizes.get(avals, 0) + 1
            pool.append(stretch.sizes[avals] - 1)
        register[number] = pool.pop()

    def give_back(number: int) -> None:
        free[types[number]].append(register[number])

    for number, bundle in given.items():
        take(number)
        stretch.loads.setdefault(bundle.avals, []).append(bundle)
    last_read = {number: index for index, numbers in enumerate(inputs) for number in numbers}
    for index, (read, written) in enumerate(zip(inputs, outputs, strict=True)):
        stretch.reads.append([register[number] for number in read])
        for number in dict.fromkeys(read):
            if last_read[number] == index and number not in held:
                give_back(number)
        for number in written:
            take(number)
        stretch.writes.append([register[number] for number in written])
        for number in written:
            if number not in last_read and number not in held:
                give_back(number)
    stretch.stores = [(bundle, register[number]) for number, bundle in held.items()]
