"""Hierarchical copy: add within two groups, swap between their leaders, copy within the groups.

For a machine whose devices are in two halves with a narrow connection between them: it is crossed once in each direction,
by one sum. Within a half the members send to the leader one after the other; the result leaves to all of them at once.

The first half gets the larger part where n is odd. TensorFlow's `HierarchicalCopyAllReduce` divides by two and rounds down,
so that with 3 devices holding 1, 2 and 3 the last one is forgotten and the sum is 3; here it is 6. TensorFlow also
takes the leaders in turn from tensor to tensor; here they are rank 0 and the first rank of the second half.

Source: the idea is that of TensorFlow's `HierarchicalCopyAllReduce`, made for the NVIDIA DGX-1.

Taught in lesson 03b.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer

__all__ = ["HIERARCHICAL_COPY"]


@cache
def schedule(num_ranks: int) -> Schedule:
    """The transfers of a hierarchical copy among `num_ranks` ranks.

    Example:
        >>> [(t.step, t.source, t.target, t.adds) for t in schedule(3).transfers]
        [(0, 1, 0, True), (1, 0, 2, True), (1, 2, 0, True), (2, 0, 1, False)]
    """
    leader = (num_ranks + 1) // 2
    groups = [(0, range(1, leader)), (leader, range(leader + 1, num_ranks))]
    adding = [Transfer(member - first - 1, member, first, (0,), True) for first, members in groups for member in members]
    swap = leader - 1
    swapping = [Transfer(swap, a, b, (0,), True) for a, b in ((0, leader), (leader, 0)) if num_ranks > 1]
    copying = [Transfer(swap + 1, first, member, (0,), False) for first, members in groups for member in members]
    adding.sort(key=lambda transfer: transfer.step)
    return Schedule("all_reduce", "hierarchical copy", num_ranks, 1, tuple(adding + swapping + copying))


def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """With g - 1 members beside the leader of the larger half: g steps to the swap, one step back, g - 1 copies each way."""
    if num_ranks == 1:
        return 0.0
    members = (num_ranks + 1) // 2 - 1
    steps = members + 1 + (members > 0)
    return steps * latency_s + (2 * members + 1) * size_bytes / bandwidth_bytes_per_s


HIERARCHICAL_COPY = Algorithm("all_reduce", "hierarchical copy", schedule, seconds)
