"""Slicing: which pending entries a read needs, and how the others wait.

Entries run in the order of their notes, and registers are used again. So when some entries run before others that were
noted earlier, the two parts must not disturb each other: a register that a later part still needs, and that the part
which runs now writes again, gets another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from simdist.ledger.entry import Entry

__all__ = ["everything_before", "needed_for", "separate", "without_dead"]


def needed_for(entries: Sequence[Entry], registers: Iterable[int]) -> list[bool]:
    """For each entry, whether the present contents of these registers depend on it."""
    wanted = set(registers)
    needed = [False] * len(entries)
    for position in range(len(entries) - 1, -1, -1):
        _, _, reads, writes, _, _ = entries[position]
        if not wanted.isdisjoint(writes):
            needed[position] = True
            wanted.difference_update(writes)
            wanted.update(reads)
    return needed


def everything_before(needed: Sequence[bool]) -> list[bool]:
    """Whether each entry is needed, or one that was noted later is."""
    last = max((position for position, wanted in enumerate(needed) if wanted), default=-1)
    return [position <= last for position in range(len(needed))]


def without_dead(entries: list[Entry], held: Iterable[int]) -> list[Entry]:
    """The entries on which the registers depend that are still held: what a crash discarded is left out."""
    needed = needed_for(entries, held)
    return [entry for entry, wanted in zip(entries, needed, strict=True) if wanted]


def separate(
    entries: Sequence[Entry], now: Sequence[bool], fresh: Callable[[int], int]
) -> tuple[list[Entry], list[Entry], list[tuple[int, int]]]:
    """Part entries into those that run now and those that wait, without changing what either computes.

    Args:
        entries: all that are pending.
        now: which of them run now; closed under "needs".
        fresh: gives an unused register of the same type as the given one.

    Returns:
        Entries for now, entries for later, and the registers (old, new) that must be copied before.
    """
    last_write = {register: position for position, entry in enumerate(entries) if now[position] for register in entry[3]}
    read_later = _versions_read(entries, now)
    names: dict[int, int] = {}  # register -> its name at this place
    copies: list[tuple[int, int]] = []
    for register, made_at in sorted(read_later):
        if made_at < 0 and register in last_write:
            names[register] = fresh(register)
            copies.append((register, names[register]))
    parts: tuple[list[Entry], list[Entry]] = ([], [])
    for position, (number, branch, reads, writes, fed, where) in enumerate(entries):
        renamed_reads = [names.get(register, register) for register in reads]
        renamed_writes: list[int] = []
        for register in writes:
            disturbed = last_write.get(register, -1) > position and (not now[position] or (register, position) in read_later)
            names[register] = fresh(register) if disturbed else register
            renamed_writes.append(names[register])
        parts[0 if now[position] else 1].append((number, branch, renamed_reads, renamed_writes, fed, where))
    return (*parts, copies)


def _versions_read(entries: Sequence[Entry], now: Sequence[bool]) -> set[tuple[int, int]]:
    """(register, place of the entry that made it; -1 for what was there) of everything that a waiting entry reads."""
    made_at: dict[int, int] = {}
    read: set[tuple[int, int]] = set()
    for position, entry in enumerate(entries):
        if not now[position]:
            read.update((register, made_at.get(register, -1)) for register in entry[2])
        made_at.update(dict.fromkeys(entry[3], position))
    return read
