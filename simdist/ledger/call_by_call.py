"""The plan `loop`: one call of a kernel for each entry, those that take long and do not need each other side by side.

What may live in this file: in which order entries are called, and which of them at once. Not: the threads (side_by_side.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax

from simdist.ledger import side_by_side
from simdist.ledger.entry import Branch, Entry, Where, describe
from simdist.ledger.in_place import DonatingKernel, InPlace
from simdist.ledger.pending import Pending
from simdist.ledger.registers import INDEX_BITS
from simdist.program.arrays import Array
from simdist.program.kernels import Kernel
from simdist.program.values import num_bytes

__all__ = ["HEAVY_BYTES", "CallByCall"]

# A call of a kernel with so many bytes of inputs and outputs takes some milliseconds. To give it to another thread takes 0.1 ms, and longer
# where all cores are busy: single gradients of 0.9 MB, side by side, took longer than one after the other.
HEAVY_BYTES = 1 << 22


class CallByCall:
    """Computes the first entries of a ledger's queue by a call each.

    Args:
        pending: the queue.
        branches: the ledger's, which grow.
    """

    def __init__(self, pending: Pending, branches: list[Branch]) -> None:
        self.pending = pending
        self.branches = branches
        self._heavy: dict[int, bool] = {}
        self._compiled: set[Kernel] = set()

    def run(self, entries: Sequence[Entry], noted: Sequence[BaseException]) -> None:
        """Compute entries; those that are done leave the queue.

        Args:
            entries: the first ones of the queue.
            noted: asks for a stop, as soon as there is something in it.
        """
        in_place = InPlace(self.pending.entries, self.branches, self.pending.files)
        ends = self._groups(entries, in_place)
        number = 0
        while number < len(entries) and not noted:
            if number in in_place.dead:
                in_place.run(number, partial(self.run_kernel, where=entries[number][5]))
                self.pending.pop()
                number += 1
            elif number in ends:
                self._run_side_by_side(entries[number : ends[number]])
                number = ends[number]
            else:
                entry = entries[number]
                self._put(entry, self.run_kernel(self.branches[entry[1]].site.kernel, self._arguments(entry), entry[5]))
                number += 1

    def run_kernel(self, kernel: Kernel | DonatingKernel, arguments: Sequence[Array], where: Where) -> tuple[jax.Array, ...]:
        """Call a kernel; its error says where in the run it happened."""
        try:
            return kernel(*arguments)
        except Exception as error:
            error.add_note(f"while computing {kernel.name} of {describe(where)}")
            raise

    def _arguments(self, entry: Entry) -> list[Array]:
        _, code, reads, _, fed, _ = entry
        arrays: list[Array] = []
        for register in reads:
            arrays.extend(self.pending.files[register >> INDEX_BITS].get(register))
        arrays.extend(self.branches[code].arguments(fed))
        return arrays

    def _put(self, entry: Entry, results: tuple[jax.Array, ...]) -> None:
        """Keep the results of the first entry of the queue, which leaves it."""
        _, code, _, writes, _, _ = entry
        for register, part in zip(writes, self.branches[code].site.split(results), strict=True):
            self.pending.files[register >> INDEX_BITS].put(register, part)
        self.pending.pop()

    def _run_side_by_side(self, entries: Sequence[Entry]) -> None:
        calls = [partial(self.run_kernel, self.branches[entry[1]].site.kernel, self._arguments(entry), entry[5]) for entry in entries]
        results, error = side_by_side.called(calls)
        for entry, arrays in zip(entries, results, strict=False):
            self._put(entry, arrays)
        if error is not None:
            raise error

    def _groups(self, entries: Sequence[Entry], in_place: InPlace) -> dict[int, int]:
        """Entries that are called side by side: where a group begins, and where it ends."""
        ends = dict[int, int]()
        heavy = {code for code in {entry[1] for entry in entries} if self._is_heavy(code)} if side_by_side.num_cores() > 1 else set[int]()
        first, written = 0, set[int]()
        for number, (_, code, reads, writes, _, _) in enumerate(entries) if heavy else ():
            if code not in heavy or number in in_place.dead:
                first, written = number + 1, set()
                continue
            if number - first == side_by_side.num_cores() or not written.isdisjoint(reads):
                first, written = number, set()
            written.update(writes)
            if number > first:
                ends[first] = number + 1
        return ends

    def _is_heavy(self, code: int) -> bool:
        """Whether the calls of a branch take long. What is called for the first time is compiled, and once is enough."""
        if code not in self._heavy:
            kernel = self.branches[code].site.kernel
            if kernel not in self._compiled:
                self._compiled.add(kernel)
                return False
            self._heavy[code] = num_bytes(kernel.in_avals) + num_bytes(kernel.out_avals) >= HEAVY_BYTES
        return self._heavy[code]
