"""Two binary trees at once: short like a tree, and all links are busy like in a ring.

In one binary tree half of the ranks are leaves, which only send on the way up and only receive on the way down. So there are
two trees, each for one half of the data, and who is a leaf in one is an inner node in the other. The data of each tree is
cut into pieces that follow each other: while the second piece is on its way up, the first is already on its way down.
The time grows with log n, and for long messages it approaches that of the ring.

Which piece moves in which step: the transfers of all reductions, then those of all broadcasts, piece by piece and level by
level, take the first step in which the data is there, the source sends nothing else and the target receives nothing else.
So each transfer has a reason to wait in the step before it, and the time is the number of steps times that of one. For 8
ranks and 16 pieces there are 75, where the busiest port has 64 transfers to make; Sanders, Speck and Träff give an order
without such gaps. More pieces suit long messages, fewer suit short ones.

Source: Sanders, Speck and Träff, Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing
35(12), 2009. The trees are NCCL's (since version 2.4, 2019; src/graph/trees.cc): the second one is the first,
mirrored for even n and shifted by one for odd n.

Taught in lesson 03a.
"""

from __future__ import annotations

from functools import cache

from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.errors import InvalidArgumentError

__all__ = ["DOUBLE_TREE", "double_tree", "parents"]


def parents(num_ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The parent of each rank in either tree; the root's is -1.

    Example:
        >>> parents(4)
        ((-1, 2, 0, 2), (1, 3, 1, -1))
    """
    n = num_ranks
    first = tuple(_parent(position, n) for position in range(n))
    if n % 2:
        return first, tuple(-1 if first[(rank - 1) % n] < 0 else (first[(rank - 1) % n] + 1) % n for rank in range(n))
    return first, tuple(-1 if first[n - 1 - rank] < 0 else n - 1 - first[n - 1 - rank] for rank in range(n))


def _parent(position: int, num_ranks: int) -> int:
    """Place 0 is the root; every other place has a power of two as its height, that of its lowest bit."""
    if position == 0:
        return -1
    lowest = position & -position
    below = position ^ lowest
    above = below | (lowest << 1)
    return above if above < num_ranks else below


class _Timetable:
    """Which port is busy in which step."""

    def __init__(self) -> None:
        self.sending: set[tuple[int, int]] = set()
        self.receiving: set[tuple[int, int]] = set()
        self.transfers: list[Transfer] = []

    def put(self, source: int, target: int, chunk: int, adds: bool, earliest: int) -> int:
        """Enter a transfer in the first step that suits; returns the step after it."""
        step = earliest
        while (step, source) in self.sending or (step, target) in self.receiving:
            step += 1
        self.sending.add((step, source))
        self.receiving.add((step, target))
        self.transfers.append(Transfer(step, source, target, (chunk,), adds))
        return step + 1


@cache
def double_tree(pieces: int) -> Algorithm:
    """A double tree whose data is cut into so many pieces for each tree.

    Args:
        pieces: of each half of the data; 1 suits short messages best.

    Returns:
        The algorithm; its name is "double tree", whatever the number of pieces.

    Raises:
        InvalidArgumentError: less than one piece.

    Example:
        >>> [(pieces, double_tree(pieces).schedule(8).num_steps) for pieces in (1, 4, 16)]
        [(1, 10), (4, 22), (16, 75)]
    """
    if pieces < 1:
        raise InvalidArgumentError(f"double_tree(pieces={pieces}): each half of the data is at least one piece; give 1 or more.")

    @cache
    def schedule(num_ranks: int) -> Schedule:
        table = _Timetable()
        trees = [_edges(tree) for tree in parents(num_ranks)] if num_ranks > 1 else []
        sums_ready = [_reduce(table, trees, piece, pieces) for piece in range(pieces)]
        for piece in range(pieces):
            _broadcast(table, trees, piece, pieces, sums_ready[piece])
        table.transfers.sort(key=lambda transfer: transfer.step)
        return Schedule("all_reduce", "double tree", num_ranks, 2 * pieces, tuple(table.transfers))

    def seconds(num_ranks: int, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
        """As many steps as the schedule has, each with one piece."""
        return schedule(num_ranks).num_steps * (latency_s + size_bytes / (2 * pieces) / bandwidth_bytes_per_s)

    return Algorithm("all_reduce", "double tree", schedule, seconds)


def _edges(tree: tuple[int, ...]) -> list[tuple[int, int]]:
    """(child, parent) of all edges, the deepest first; the root's come last."""
    depth = [0] * len(tree)
    for rank, parent in enumerate(tree):
        while parent >= 0:
            depth[rank] += 1
            parent = tree[parent]
    return [(rank, tree[rank]) for rank in sorted(range(len(tree)), key=lambda rank: -depth[rank]) if tree[rank] >= 0]


def _reduce(table: _Timetable, trees: list[list[tuple[int, int]]], piece: int, pieces: int) -> list[int]:
    """Send one piece of each half up; returns the step in which each root has its sum."""
    ready = [[0] * (len(edges) + 1) for edges in trees]
    for edges in zip(*trees, strict=True):
        for half, (child, parent) in enumerate(edges):
            arrived = table.put(child, parent, half * pieces + piece, True, ready[half][child])
            ready[half][parent] = max(ready[half][parent], arrived)
    return [ready[half][edges[-1][1]] for half, edges in enumerate(trees)]


def _broadcast(table: _Timetable, trees: list[list[tuple[int, int]]], piece: int, pieces: int, sums_ready: list[int]) -> None:
    """Send the sum of one piece of each half down."""
    ready = [[sums_ready[half]] * (len(edges) + 1) for half, edges in enumerate(trees)]
    for edges in zip(*(reversed(edges) for edges in trees), strict=True):
        for half, (child, parent) in enumerate(edges):
            ready[half][child] = table.put(parent, child, half * pieces + piece, False, ready[half][parent])


DOUBLE_TREE = double_tree(16)
