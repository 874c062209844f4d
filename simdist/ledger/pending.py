"""The queue of pending entries, and its invariants while they are computed.

Invariant: the registers hold what the entries that have left the queue gave, and the queue, computed in order, gives all the
rest. Whatever ends a computation early (Ctrl-C, a full memory, an error of a kernel) costs time at most: the next read goes
on from here. Two rules keep it:

- An entry leaves the queue after its results are in their registers. It may be computed again instead, because no entry
  writes a register that it reads.
- Where entries have overwritten what others of them read (a scan, batches), none can be computed again. So nothing is written
  before there is something to show, and then all results are put in their places, and their entries taken out, in one go.
- A scan for which no caller waits goes on while the schedule does (a *flight*): its results are promises until it has landed. What
  stood in the registers before is kept so long; if the scan fails, that comes back, and the entries stand in the queue again.

What may live in this file: the order of entries. Not: how they are computed (plans.py), nor when (ledger.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import call

import jax

from simdist.ledger.entry import Entry
from simdist.ledger.heap import Heap
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.ledger.slicing import separate
from simdist.ledger.stack_lanes import Numbers
from simdist.program.arrays import Arrays
from simdist.program.values import Bundle

__all__ = ["Pending"]


@dataclass(frozen=True)
class Flight:
    """A scan in progress: the entries that it computes, its promises, and what each heap and each file held before it."""

    entries: list[Entry]
    stacks: Sequence[jax.Array]
    before: list[tuple[Heap, jax.Array | None]]
    loose_before: list[tuple[RegisterFile, dict[int, Numbers]]]


class Pending:
    """Entries that are not yet computed.

    Args:
        files: the ledger's register files, in the order of their numbers, which grow.
        heaps: the ledger's, which grow.

    Attributes:
        entries: the queue; always the same list.
        computed: how many entries have been computed.
        flight: the scan that goes on, if one does.
    """

    def __init__(self, files: list[RegisterFile], heaps: list[Heap]) -> None:
        self.files = files
        self.heaps = heaps
        self.entries: list[Entry] = []
        self.computed = 0
        self.flight: Flight | None = None
        self._renamed: list[Bundle] = []

    def bring_forward(self, needed: Sequence[bool]) -> int:
        """Put the entries that are needed now before the others.

        Args:
            needed: for each entry; closed under "needs".

        Returns:
            How many there are.
        """
        if not all(needed):
            first, rest, copies = separate(self.entries, needed, partial(self._rename, _Unused(self.entries)))
            self._copy(copies)
            self.entries[: len(needed)] = [*first, *rest]
        return sum(needed)

    def pop(self) -> None:
        """Take out the first entry: its results are in their registers."""
        self.computed += 1
        del self.entries[0]

    def put_stacks(
        self, stacks: Sequence[jax.Array], count: int, tables: Mapping[int, Arrays] | None = None, gone: Collection[int] = ()
    ) -> None:
        """Take out the first entries: their results, and all that was loose, are in these stacks, one a heap.

        Args:
            tables: by register, those that were kept out of the heaps and are in other buffers now.
            gone: registers whose tables were overwritten.
        """
        self._take_out(count, [], count, self._moved_into(stacks, tables or {}, gone))

    def let_fly(self, stacks: Sequence[jax.Array], count: int) -> None:
        """As `put_stacks`, with stacks that are promises; `land` waits for them."""
        before, loose = [(heap, heap.stack) for heap in self.heaps], [(file, file.loose) for file in self.files]
        flight = Flight(self.entries[:count], stacks, before, loose)
        self._take_out(count, [], count, [partial(setattr, self, "flight", flight), *self._moved_into(stacks, {}, ())])

    def _moved_into(self, stacks: Sequence[jax.Array], tables: Mapping[int, Arrays], gone: Collection[int]) -> list[Callable[[], None]]:
        """What is to be called, so that all numbers are in these stacks, and the tables of what was loose in buffers."""
        return [
            *(partial(setattr, file, "in_buffers", file.tables_after(tables, gone)) for file in self.files if file.tables),
            *(heap.replaced(stack) for heap, stack in zip(self.heaps, stacks, strict=True)),
            *(file.replaced({}) for file in self.files),
        ]

    def land(self) -> list[Entry]:
        """Wait for the scan in progress.

        Returns:
            The entries that stand in the queue again, because it has failed; none if it has not.
        """
        flight = self.flight
        if flight is None:
            return []
        try:
            jax.block_until_ready(flight.stacks)
        except Exception:
            changes = [
                *(heap.replaced(stack) for heap, stack in flight.before),
                *(file.replaced({**loose, **file.loose}) for file, loose in flight.loose_before),
            ]
            self._take_out(0, flight.entries, -len(flight.entries), [partial(setattr, self, "flight", None), *changes])
            return flight.entries
        self.flight = None
        return []

    def put_registers(self, numbers: Mapping[int, Numbers], unheld: Collection[int], count: int) -> None:
        """Take out the first entries, all of which are done.

        Args:
            numbers: of the registers that they write, as far as they are needed, and of others whose numbers shall be held otherwise.
            unheld: registers that hold nothing from now on.
            count: how many entries.
        """
        loose = [dict(file.loose) for file in self.files]
        for register, found in numbers.items():
            loose[register >> INDEX_BITS][register] = found
        for register in unheld:
            loose[register >> INDEX_BITS].pop(register, None)
        changes = [file.replaced(arrays) for file, arrays in zip(self.files, loose, strict=True)]
        self._take_out(count, [], count, changes)

    def unheld_after(self, count: int) -> set[int]:
        """Registers whose numbers are not needed after the first entries; none while others wait, which might read any."""
        return set(chain.from_iterable(file.free for file in self.files)) if count == len(self.entries) else set()

    def put_loose(self, done: Sequence[bool], results: Sequence[Sequence[Numbers | None]]) -> None:
        """Take out those of the first entries that are done.

        Args:
            done: for each of them; closed under "needs".
            results: for each that is done, its results, bundle by bundle; None where they are not needed any more.
        """
        first, rest, copies = separate(self.entries[: len(done)], done, partial(self._rename, _Unused(self.entries)))
        self._copy(copies)
        loose = [dict(file.loose) for file in self.files]
        for (_, _, _, writes, _, _), parts in zip(first, results, strict=True):
            for register, arrays in zip(writes, parts, strict=True):
                if arrays is not None:
                    loose[register >> INDEX_BITS][register] = arrays
        changes = [file.replaced(arrays) for file, arrays in zip(self.files, loose, strict=True)]
        self._take_out(len(done), rest, len(first), changes)

    @property
    def has_tables(self) -> bool:
        """Whether some bundles have arrays that are kept out of the heaps."""
        return any(file.tables for file in self.files)

    @property
    def moved(self) -> set[int]:
        """The registers that moved entries got instead of their own: only the queue knows them."""
        return {bundle.register for bundle in self._renamed}

    def forget(self) -> None:
        """Give back the registers of moved entries; only while nothing is pending."""
        self._renamed.clear()

    def _take_out(self, count: int, left: list[Entry], computed: int, changes: Sequence[Callable[[], object]]) -> None:
        counted = partial(setattr, self, "computed", self.computed + computed)
        # One call into C, so that no handler of a signal, which may raise, runs in between; and what needs memory comes first.
        deque(map(call, [partial(self.entries.__setitem__, slice(count), left), counted, *changes]), maxlen=0)

    def _copy(self, copies: Sequence[tuple[int, int]]) -> None:
        for old, new in copies:
            self.files[new >> INDEX_BITS].loose[new] = self.files[old >> INDEX_BITS].get(old)

    def _rename(self, unused: _Unused, register: int) -> int:
        file = self.files[register >> INDEX_BITS]
        # Held until nothing is pending, so that no other bundle gets it.
        self._renamed.append(Bundle(file.avals, None, file, unused.of(file)))
        return self._renamed[-1].register


class _Unused:
    """Registers that neither a bundle holds nor a pending entry uses: as many are given out as wait at once, however long a run is.

    Args:
        entries: all that are pending.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._used: set[int] | None = None
        self._left: dict[int, int] = {}  # by file: how many of its free registers have not been looked at

    def of(self, file: RegisterFile) -> int:
        """One of this file."""
        if self._used is None:
            self._used = {register for entry in self._entries for register in (*entry[2], *entry[3])}
        for place in range(self._left.get(file.number, len(file.free)) - 1, -1, -1):
            self._left[file.number] = place
            if file.free[place] not in self._used:
                return file.free.pop(place)  # a bundle that goes meanwhile is added at the end
        return file.new()
