"""The order of additions of a schedule, found without any data.

A schedule is run once with names in the place of numbers. What a rank holds of a chunk is then a *tree*: a leaf is a rank's
own data, a node the sum of its two sides. Floating-point addition is commutative but not associative, so two ranks have the
same bits if their trees are equal up to the sides' places; and chunks whose trees have the same shape can be added in one go,
side by side, with different ranks at the leaves. In a ring all chunks have one shape, a chain: the first rank of the chain
moves on from chunk to chunk.

Invariants: equal trees have the same number, whatever the order of their sides; leaves of a shape are listed in one order.

Taught in lesson 03b.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.caches import bounded
from simdist.collectives.base import Schedule, Transfer
from simdist.errors import InvalidArgumentError

__all__ = ["ChunkGroup", "additions", "steps_of"]

REDUCING = ("all_reduce", "reduce", "reduce_scatter")


@dataclass(frozen=True, slots=True)
class ChunkGroup:
    """Chunks that are added in the same way.

    Args:
        chunks: their numbers, in ascending order.
        leaves: for each leaf of the tree, the rank that it comes from, for each chunk in turn.
        program: the tree in postfix order: True takes the next leaf, False adds the two values taken last.
    """

    chunks: tuple[int, ...]
    leaves: tuple[tuple[int, ...], ...]
    program: tuple[bool, ...]


class _Trees:
    """All sums that occur, each once: leaves are numbered as the ranks, sums after them."""

    def __init__(self, num_ranks: int) -> None:
        self.sides: list[tuple[int, int] | None] = [None] * num_ranks
        self.shapes = [0] * num_ranks
        self.num_leaves = [1] * num_ranks
        self._known: dict[tuple[int, int], int] = {}
        self._known_shapes: dict[tuple[int, int], int] = {}

    def add(self, first: int, second: int) -> int:
        """The number of a sum; the sides are put in one order, by shape and then by number."""
        if (self.shapes[second], second) < (self.shapes[first], first):
            first, second = second, first
        number = self._known.setdefault((first, second), len(self.sides))
        if number == len(self.sides):
            shapes = (self.shapes[first], self.shapes[second])
            self.sides.append((first, second))
            self.shapes.append(self._known_shapes.setdefault(shapes, len(self._known_shapes) + 1))
            self.num_leaves.append(self.num_leaves[first] + self.num_leaves[second])
        return number

    def postfix(self, root: int) -> tuple[list[int], tuple[bool, ...]]:
        """The leaves from left to right, and the program that adds them. A chain is deep, so without recursion."""
        leaves, program, waiting = [], [], [root]
        while waiting:  # node, right side, left side: the reverse of a postfix order
            tree = waiting.pop()
            sides = self.sides[tree]
            program.append(sides is None)
            if sides is None:
                leaves.append(tree)
            else:
                waiting += sides
        return leaves[::-1], tuple(reversed(program))


def steps_of(schedule: Schedule) -> list[list[Transfer]]:
    """The transfers of each step."""
    steps: list[list[Transfer]] = [[] for _ in range(schedule.num_steps)]
    for transfer in schedule.transfers:
        steps[transfer.step].append(transfer)
    return steps


@bounded("orders of addition", size=256)
def additions(schedule: Schedule) -> tuple[ChunkGroup, ...]:
    """How the sum of every chunk comes about.

    Args:
        schedule: of a collective that adds: "all_reduce", "reduce" or "reduce_scatter".

    Returns:
        Groups of chunks; every chunk is in one of them. Their order depends on the schedule alone.

    Raises:
        InvalidArgumentError: a collective that adds nothing, a sum that misses a rank or has one twice, or ranks that
            end an all-reduce with sums that may differ in their last bits.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> additions(RING.schedule(3))
        (ChunkGroup(chunks=(0, 1, 2), leaves=((2, 0, 1), (0, 1, 0), (1, 2, 2)), program=(True, True, True, False, False)),)
    """
    if schedule.kind not in REDUCING:
        raise InvalidArgumentError(f"A schedule of kind {schedule.kind!r} adds nothing; give one of {', '.join(REDUCING)}.")
    trees = _Trees(schedule.num_ranks)
    held = _run(schedule, trees)
    members: dict[int, list[int]] = {}
    roots = [_root(schedule, trees, held, chunk) for chunk in range(schedule.num_chunks)]
    for chunk, root in enumerate(roots):
        members.setdefault(trees.shapes[root], []).append(chunk)
    return tuple(_group(schedule, trees, roots, chunks) for chunks in members.values())


def _run(schedule: Schedule, trees: _Trees) -> list[list[int]]:
    """For each rank and chunk the tree that it holds in the end."""
    held = [[rank] * schedule.num_chunks for rank in range(schedule.num_ranks)]
    for step in steps_of(schedule):
        moves = [(transfer, chunk, held[transfer.source][chunk]) for transfer in step for chunk in transfer.chunks]
        for transfer, chunk, tree in moves:
            own = held[transfer.target]
            own[chunk] = trees.add(own[chunk], tree) if transfer.adds else tree
    return held


def _root(schedule: Schedule, trees: _Trees, held: list[list[int]], chunk: int) -> int:
    """The tree of the whole sum of a chunk."""
    n = schedule.num_ranks
    whole = {held[rank][chunk] for rank in range(n) if trees.num_leaves[held[rank][chunk]] == n}
    everywhere = all(held[rank][chunk] in whole for rank in range(n))
    if len(whole) != 1 or (schedule.kind == "all_reduce" and not everywhere):
        raise InvalidArgumentError(
            f"{schedule.algorithm} on {n} ranks: the ranks end with {len(whole)} different sums of chunk {chunk} that have {n} terms"
            f"{'' if everywhere else ', and some have none'}; a schedule of kind {schedule.kind!r} must end with one. "
            "Check the order of its transfers."
        )
    return whole.pop()


def _group(schedule: Schedule, trees: _Trees, roots: list[int], chunks: list[int]) -> ChunkGroup:
    listed = [trees.postfix(roots[chunk]) for chunk in chunks]
    for chunk, (leaves, _) in zip(chunks, listed, strict=True):
        if len(set(leaves)) != schedule.num_ranks:
            twice = next(rank for rank in leaves if leaves.count(rank) > 1)
            raise InvalidArgumentError(
                f"{schedule.algorithm} on {schedule.num_ranks} ranks adds rank {twice} twice in chunk {chunk}. "
                "Let the data of each rank reach a sum once only."
            )
    return ChunkGroup(tuple(chunks), tuple(zip(*(leaves for leaves, _ in listed), strict=True)), listed[0][1])
