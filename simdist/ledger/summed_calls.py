"""Calls whose stacks are only added up: the sum is computed together with the call, and the stack is not.

Which they are is known when a queue is computed, not when it is filled: a stack may go this way if one entry of the queue reads it, which
adds up its lanes, and no bundle holds it any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.ledger.entry import Branch, Entry
from simdist.ledger.registers import INDEX_BITS, RegisterFile
from simdist.program.kernels import Kernel
from simdist.program.lane_sums import lane_sum_scale, with_lane_sums

__all__ = ["summed_calls", "summing_kernel"]

Sums = dict[int, int]
"""By the position of a stack among the bundles that a call writes: the number of the entry that adds it up."""


def summed_calls(entries: Sequence[Entry], count: int, branches: Sequence[Branch], files: Sequence[RegisterFile]) -> dict[int, Sums]:
    """Such calls among the first entries of a queue, by their numbers.

    Args:
        entries: all that are pending.
        count: how many of them are computed now.
        branches, files: the ledger's.
    """
    sums = {code for code in {entry[1] for entry in entries[:count]} if lane_sum_scale(branches[code].site.kernel) is not None}
    if not sums:
        return {}
    last: dict[int, tuple[int, int]] = {}  # by register: the entry that has written it last, and at which position
    readers: dict[tuple[int, int], list[int]] = {}
    for number, (_, _, reads, writes, _, _) in enumerate(entries):
        for register in reads:
            if register in last:
                readers[last[register]].append(number)
        for position, register in enumerate(writes):
            last[register] = number, position
            readers[number, position] = []
    held = {made for register, made in last.items() if register not in files[register >> INDEX_BITS].free}
    found: dict[int, Sums] = {}
    for made, users in readers.items():
        if made not in held and len(users) == 1 and users[0] < count and entries[users[0]][1] in sums:
            found.setdefault(made[0], {})[made[1]] = users[0]
    return found


def summing_kernel(entries: Sequence[Entry], branches: Sequence[Branch], number: int, sums: Sums) -> Kernel:
    """The kernel of such a call: sums take the places of its stacks."""
    site, scales = branches[entries[number][1]].site, list[float | None]()
    for position, avals in enumerate(site.writes):
        adder = sums.get(position)
        scales += [None if adder is None else lane_sum_scale(branches[entries[adder][1]].site.kernel)] * len(avals)
    return with_lane_sums(site.kernel, scales)
