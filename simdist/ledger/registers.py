"""Register files: the arrays of the ledger, one file of registers for each type of bundle.

A bundle gets a register of its type when it is noted down, and keeps it until the last reference to the bundle is gone: Python's
reference counts are the liveness analysis. An entry that is noted later may then write to the same register; entries run
in the order of their notes, so an earlier reader has read it by then.

A register's number is that of its file in the high bits, and that of its row in the file's heap. Its numbers are either *loose* (a
tuple of arrays, as one call of a kernel gave them) or in the heap, where the replay machine works. Memory is bounded by the
bundles that are alive at once: workers times parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from simdist.ledger.heap import Heap, Heaps, Packing
from simdist.ledger.stack_lanes import Lane, Numbers
from simdist.program.arrays import Arrays
from simdist.program.values import BundleType, blanks

__all__ = ["INDEX_BITS", "RegisterFile", "index_of"]

INDEX_BITS = 40
# Arrays of so many bytes stay out of heaps: a heap has several rows, each as wide as the widest.
HUGE_BYTES = 2 << 20


def index_of(register: int) -> int:
    """The place of a register within its file."""
    return register & ((1 << INDEX_BITS) - 1)


class RegisterFile:
    """All registers of one type of bundle.

    Attributes:
        packing: how a bundle lies in a row.
        heap: where the rows are.
        given: registers that were ever given out.
        free: those without a bundle; pending entries may still use them.
        unread: the ledger's list of entries one of whose results died unread.
        loose: numbers that are not in the heap.
        tables: positions of the arrays that never get into the heap: large ones, and those of which rows are read or changed.
        by_rows: whether some kernel reads or changes rows of the tables.
        borrowed: registers whose arrays came from outside, or may be there, and must not be overwritten.
        in_buffers: the tables of registers whose other numbers are in the heap, in the order of their positions.
    """

    def __init__(self, number: int, avals: BundleType, unread: list[int], heaps: Heaps) -> None:
        self.number = number
        self.avals = avals
        self.tables = frozenset([position for position, aval in enumerate(avals) if aval.size_bytes >= HUGE_BYTES])
        self.by_rows = False
        self.borrowed: set[int] = set()
        self.in_buffers: dict[int, Arrays] = {}
        self.packing = Packing(avals, self.tables)
        self.heap: Heap = heaps.of(self.packing)
        self.unread = unread
        self.given: list[int] = []
        self.free: list[int] = []
        self.loose: dict[int, Numbers] = {}

    @property
    def size(self) -> int:
        """How many registers there are."""
        return len(self.given)

    @property
    def capacity(self) -> int:
        """Rows of the heap."""
        return self.heap.capacity

    def new(self) -> int:
        """A register that no pending entry uses."""
        self.given.append((self.number << INDEX_BITS) + self.heap.new())
        return self.given[-1]

    def put(self, register: int, arrays: Numbers) -> None:
        """Let a register hold what a call of a kernel gave."""
        self.loose[register] = arrays
        self.borrowed.discard(register)
        self.in_buffers.pop(register, None)

    def tables_after(self, tables: Mapping[int, Arrays], gone: Collection[int]) -> dict[int, Arrays]:
        """The tables of all registers when nothing is loose any more.

        Args:
            tables: by register, of all files: those that were made.
            gone: registers whose tables were overwritten.
        """
        found = {**self.in_buffers, **{register: self.take_tables(register) for register in self.loose}}
        found = {register: arrays for register, arrays in found.items() if register not in gone}
        self.borrowed.difference_update(gone, tables)
        return {**found, **{register: arrays for register, arrays in tables.items() if register >> INDEX_BITS == self.number}}

    def drop_dead(self, needed: Collection[int]) -> None:
        """Drop tables that no bundle holds and no pending entry reads."""
        if self.tables:
            held = {*self.loose, *self.in_buffers}
            for register in held.intersection(self.free).difference(needed):
                self.drop(register)

    def drop(self, register: int) -> None:
        """Let a register hold nothing any more."""
        self.loose.pop(register, None)
        self.borrowed.discard(register)
        self.in_buffers.pop(register, None)

    def lose_tables(self, register: int) -> None:
        """The tables of a register were overwritten. The rest stays, for entries that read nothing else of it."""
        arrays = self.loose.get(register)
        if arrays is not None and not isinstance(arrays, Lane):
            rest = [array for position, array in enumerate(arrays) if position not in self.tables]
            self.loose[register] = self._with_tables(tuple(rest), self._blanks())
        self.borrowed.discard(register)
        self.in_buffers.pop(register, None)

    def _blanks(self) -> Arrays:
        """What stands for tables that nothing uses."""
        return blanks([self.avals[position] for position in sorted(self.tables)])

    def take_tables(self, register: int) -> Arrays:
        """The tables of a register, in the order of their positions: the arrays themselves, and no copies."""
        arrays = self.loose.get(register)
        if arrays is None or isinstance(arrays, Lane):
            return self.in_buffers[register]
        return tuple([arrays[position] for position in sorted(self.tables)])

    def rest_of(self, register: int) -> Arrays:
        """The numbers of a register without its tables."""
        return tuple([array for position, array in enumerate(self.get(register)) if position not in self.tables])

    def held(self, register: int) -> Numbers:
        """The numbers of a register; those that are in a stack of lanes stay there."""
        found = self.loose.get(register)
        return self.get(register) if found is None else found

    def get(self, register: int) -> Arrays:
        """The numbers of a register, by themselves."""
        arrays = self.loose.get(register)
        if isinstance(arrays, Lane):
            arrays = self.loose[register] = arrays.cut()
        # Copies: a view would forbid the machine to write in place, a slice would keep the whole heap alive.
        if arrays is not None:
            return arrays
        row = self.packing.get(self.heap.row(index_of(register)))
        return self._with_tables(row, self.in_buffers.get(register) or self._blanks()) if self.tables else row

    def _with_tables(self, rest: Arrays, tables: Arrays) -> Arrays:
        kept, known = iter(rest), iter(tables)
        return tuple([next(known if position in self.tables else kept) for position in range(len(self.avals))])

    def keep_out(self, positions: Iterable[int], needed: Collection[int]) -> None:
        """Keep these arrays out of the heap from now on; what was in the heap is loose. Only while no scan goes on.

        Args:
            positions: those arrays.
            needed: registers, of all files, that pending entries read; some of them have no bundle any more.
        """
        tables = self.tables.union(positions)
        if tables != self.tables:
            for register in set(self.given).difference(set(self.free).difference(needed)):
                if self.heap.has(index_of(register)) and register not in self.loose:
                    self.loose[register] = self.get(register)
            self.tables, self.packing = tables, Packing(self.avals, tables)
            self.in_buffers.clear()
            self.borrowed.update(self.loose)  # until now, who read one of them got the arrays themselves

    def replaced(self, loose: dict[int, Numbers]) -> Callable[[], None]:
        """What is to be called, so that these numbers are loose."""
        return partial(setattr, self, "loose", loose)

    def prune(self) -> None:
        """Forget the numbers of registers without a bundle; only while no entry is pending."""
        if len(self.loose) > 2 * (self.size - len(self.free)) + 64:
            for register in self.free:
                self.loose.pop(register, None)
