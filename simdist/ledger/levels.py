"""Levels: which of the pending entries depend on no other one, which only on those, and so on; and the numbers in between.

A register is written again and again, so what an entry reads is a *version* of it: what one entry wrote, or what was there before.
Versions have numbers of their own here, in the order in which they are first seen.

There are thousands of entries, so what is known of them stands in flat lists: lists of lists would wake the collector of garbage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from simdist.ledger.entry import Entry
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.ledger.stack_lanes import Column, Holder, Lane, LaneStack, Numbers

__all__ = ["Stretch"]


class Stretch:
    """The entries of a stretch, what they read and write, and the results that are known.

    Attributes:
        done: for each entry, whether its results are known.
        levels: for each level the indices of its entries, by branch.
    """

    def __init__(self, entries: Sequence[Entry], files: Sequence[RegisterFile]) -> None:
        self.done = [False] * len(entries)
        self.levels: list[dict[int, list[int]]] = []
        # Entry i reads the versions that stand in _reads from position _reads_from[i] on, and makes _num_writes[i] of them, the first of
        # which is _writes_from[i].
        self._reads: list[int] = []
        self._reads_from: list[int] = []
        self._writes_from: list[int] = []
        self._num_writes: list[int] = []
        self._registers: list[int] = []
        self._made_at: list[int] = []  # the level that makes a version; -1 for what was there before
        self._last_read: list[int] = []  # the last level that reads it
        self._present: dict[int, int] = {}  # the last version of each register
        for index, (_, code, read, written, _, _) in enumerate(entries):
            level = self._note(read, written)
            if level == len(self.levels):
                self.levels.append({})
            calls = self.levels[level]
            if code in calls:
                calls[code].append(index)
            else:
                calls[code] = [index]
        # The numbers of a version are in its holder, in this lane.
        self._holders: list[Holder | None] = [None] * len(self._registers)
        self._lanes = [0] * len(self._registers)
        self._load(files)
        self._unread_after: list[list[int]] = [[] for _ in self.levels]
        last = set(self._present.values())
        for version, level in enumerate(map(max, self._last_read, self._made_at)):
            if version not in last:
                self._unread_after[level].append(version)

    def _note(self, read: Sequence[int], written: Sequence[int]) -> int:
        """Number the versions that an entry reads and makes; its level."""
        registers, made_at, last_read, reads, present = self._registers, self._made_at, self._last_read, self._reads, self._present
        level, start = 0, len(reads)
        for register in read:
            version = present.get(register)
            if version is None:
                version = present[register] = len(registers)
                registers.append(register)
                made_at.append(-1)
                last_read.append(-1)
            elif made_at[version] >= level:
                level = made_at[version] + 1
            reads.append(version)
        for version in reads[start:]:
            if last_read[version] < level:
                last_read[version] = level
        self._reads_from.append(start)
        version = len(registers)
        self._writes_from.append(version)
        self._num_writes.append(len(written))
        for register in written:
            present[register] = version
            version += 1
            made_at.append(level)
            last_read.append(-1)
        registers.extend(written)
        return level

    def _load(self, files: Sequence[RegisterFile]) -> None:
        for version, level in enumerate(self._made_at):
            if level < 0:
                register = self._registers[version]
                held = files[register >> INDEX_BITS].held(register)
                self._holders[version], self._lanes[version] = (held.stack, held.index) if isinstance(held, Lane) else (held, 0)

    def read(self, indices: Sequence[int], position: int) -> Column:
        """Of each of these entries, the numbers of one bundle that it reads."""
        reads, reads_from, holders, lanes = self._reads, self._reads_from, self._holders, self._lanes
        versions = [reads[reads_from[index] + position] for index in indices]
        # All have a holder: what entries of this level read was made by those before.
        return Column(cast("list[Holder]", [holders[version] for version in versions]), [lanes[version] for version in versions])

    def put(self, indices: Sequence[int], results: Sequence[Holder]) -> None:
        """Keep the results of entries: for each bundle that they write, what holds it, entry after entry."""
        holders, lanes, writes_from = self._holders, self._lanes, self._writes_from
        for position, holder in enumerate(results):
            for lane, index in enumerate(indices):
                version = writes_from[index] + position
                holders[version] = holder
                lanes[version] = lane
        # From here on they are not computed again, so what they have read may go.
        for index in indices:
            self.done[index] = True

    def forget(self, level: int) -> None:
        """Forget what nothing reads after a level that is done."""
        holders = self._holders
        for version in self._unread_after[level]:
            holders[version] = None

    def registers(self) -> dict[int, Numbers]:
        """When all entries are done: the numbers of all registers that they write."""
        return {self._registers[version]: self._numbers(version) or () for version in self._present.values() if self._made_at[version] >= 0}

    def results(self) -> list[list[Numbers | None]]:
        """For each entry that is done, its results, as far as they are needed."""
        done = [index for index, is_done in enumerate(self.done) if is_done]
        pairs = [(self._writes_from[index], self._num_writes[index]) for index in done]
        return [[self._numbers(version) for version in range(first, first + count)] for first, count in pairs]

    def _numbers(self, version: int) -> Numbers | None:
        holder = self._holders[version]
        return Lane(holder, self._lanes[version]) if isinstance(holder, LaneStack) else holder
