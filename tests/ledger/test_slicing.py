"""Slicing against a machine whose registers hold histories: whatever runs first, each entry reads what it would have read in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, permutations, product
from typing import Any, TypeAlias

from simdist.ledger.entry import Entry
from simdist.ledger.slicing import everything_before, needed_for, separate, without_dead

REGISTERS = range(3)
START = {register: f"before {register}" for register in REGISTERS}
Registers: TypeAlias = dict[int, Any]


def queues() -> Iterator[tuple[list[Entry], int]]:
    """All queues of four entries that read one of three registers and write another, each with a register that is wanted."""
    for pairs in product(permutations(REGISTERS, 2), repeat=4):
        entries: list[Entry] = [(number, 0, [read], [written], (), None) for number, (read, written) in enumerate(pairs)]
        yield from ((entries, wanted) for wanted in REGISTERS)


def ran(entries: Iterable[Entry], registers: Registers) -> Registers:
    """The registers afterwards: what was made by which call, of what."""
    registers = dict(registers)
    for number, _, (read,), (written,), _, _ in entries:
        registers[written] = number, registers[read]
    return registers


def test_entries_that_run_first_and_those_that_wait_give_what_all_give_in_order() -> None:
    for entries, wanted in queues():
        fresh, needed = count(10), needed_for(entries, [wanted])
        now, later, copies = separate(entries, needed, lambda register, fresh=fresh: next(fresh))
        between = ran(now, {**START, **{new: START[old] for old, new in copies}})
        after = ran(later, between)
        expected = ran(entries, START)
        assert between[wanted] == expected[wanted], entries
        assert {register: after[register] for register in REGISTERS} == expected, entries
        assert [entry[0] for entry in now] == [number for number, is_now in enumerate(needed) if is_now]


def test_entries_that_are_left_out_are_those_of_which_nothing_held_depends() -> None:
    for entries, held in queues():
        left = without_dead(entries, [held])
        assert ran(left, START)[held] == ran(entries, START)[held], entries
        assert all(ran([one for one in left if one is not dropped], START)[held] != ran(left, START)[held] for dropped in left), entries


def test_everything_before_a_needed_entry_is_needed() -> None:
    assert everything_before([False, True, False, True, False]) == [True, True, True, True, False]
    assert everything_before([False, False]) == [False, False] and everything_before([]) == []
