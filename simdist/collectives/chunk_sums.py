"""The sum over ranks whose data lie in stacks, chunk by chunk.

All chunks of a group are added by one small loop: it copies a piece of a chunk, as all ranks have it, into a block that fits into the
cache, adds the block's rows in the order of the group's tree, and puts the sum in its place. So the compiled code is as long as there are
ranks, not as ranks times chunks. (Rows of 400 kB that are added where they are take half as long again with 64 ranks, and three to five
times as long with 256: as many places of memory, far from each other, are read at once.)

The chunks of one array differ in length by 1 at most, and the first and the last may lie partly in another array. So the
loop works on windows of one length, and writes only those elements of a window that are the piece's.

Class of numbers: E0, as numbers.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from simdist.collectives.order import ChunkGroup

__all__ = ["added_by_chunk", "tree_sum"]

# Elements of a stack that is copied, to lie beside its neighbours: of a loop for each of them the code takes longer to compile.
MOST_JOINED = 2**20
# Of a block that is added up; it and what is made of it have to fit into the cache of a core.
BLOCK_BYTES = 1 << 18
# Stacks that are joined: of many more, the code that lays them beside each other takes the longest to compile.
MOST_IN_A_RUN = 16


def added_by_chunk(groups: Sequence[ChunkGroup], edges: Sequence[int], parts: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """The sums of stacks whose elements lie end to end, chunk by chunk.

    Args:
        groups: how the chunks are added; every chunk is in one of them.
        edges: where the chunks begin and end, in elements of a rank's data; one more than there are chunks.
        parts: for some ranks that follow each other, and for those after them, and so on: arrays (ranks, p...) of one dtype.

    Returns:
        The sums (p...), array by array.

    Example:
        >>> from simdist.collectives.order import additions
        >>> from simdist.collectives.ring import RING
        >>> added_by_chunk(additions(RING.schedule(2)), [0, 1, 3], [[jnp.float32([[1, 2, 3], [4, 5, 6]])]])
        [Array([5., 7., 9.], dtype=float32)]
    """
    sums: list[jax.Array] = []
    start = 0
    sizes = [sum(stack.size for stack in stacks) for stacks in zip(*parts, strict=True)]
    for run in _runs(sizes):
        shapes = [stack.shape[1:] for stack in parts[0][run]]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        within = [min(max(edge - start, 0), int(ends[-1])) for edge in edges]
        total = _sums_of_flat(groups, within, [_flat(stacks[run]) for stacks in parts])
        sums += [part.reshape(shape) for part, shape in zip(jnp.split(total, ends[:-1]), shapes, strict=True)]
        start += int(ends[-1])
    return sums


def _runs(sizes: Sequence[int]) -> list[slice]:
    """Stacks of these sizes, in order; some small ones that follow each other are one run, for which one loop is compiled."""
    runs: list[slice] = []
    for number, size in enumerate(sizes):
        if runs and number - runs[-1].start < MOST_IN_A_RUN and max(size, sizes[number - 1]) <= MOST_JOINED:
            runs[-1] = slice(runs[-1].start, number + 1)
        else:
            runs.append(slice(number, number + 1))
    return runs


def _flat(stacks: Sequence[jax.Array]) -> jax.Array:
    """Stacks (r, p...) beside each other, as (r, n)."""
    flat = [stack.reshape(len(stack), -1) for stack in stacks]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1)


def _sums_of_flat(groups: Sequence[ChunkGroup], edges: Sequence[int], parts: Sequence[jax.Array]) -> jax.Array:
    """The sum (n) of the data (ranks, n) of the ranks of all parts, chunk by chunk."""
    total = jnp.zeros(parts[0].shape[1], parts[0].dtype)
    for group in groups if len(total) else ():
        total = _with_sums_of(group, edges, parts, total)
    return total


def _with_sums_of(group: ChunkGroup, edges: Sequence[int], parts: Sequence[jax.Array], total: jax.Array) -> jax.Array:
    """`total` (n) with the sums of a group's chunks."""
    places = [place for place, chunk in enumerate(group.chunks) if edges[chunk] < edges[chunk + 1]]
    if not places:
        return total
    spans = [(edges[group.chunks[place]], edges[group.chunks[place] + 1]) for place in places]
    width = _width(max(stop - start for start, stop in spans), sum(map(len, parts)) * total.dtype.itemsize)
    starts, stops, ranks = list[int](), list[int](), list[list[int]]()
    for (start, stop), place in zip(spans, places, strict=True):
        pieces = range(start, stop, width)
        starts += pieces
        stops += [min(first + width, stop) for first in pieces]
        ranks += [[leaf[place] for leaf in group.leaves]] * len(pieces)
    loop = jnp.array(starts, jnp.int32), jnp.array(stops, jnp.int32), jnp.array(ranks, jnp.int32)
    return jax.lax.scan(partial(_with_one_sum, group, parts, width), total, loop)[0]


def _width(longest: int, column_bytes: int) -> int:
    """How many elements a piece has, of chunks with so many at most: about as many as fit into a block, and the same in all pieces."""
    num_pieces = -(-longest * column_bytes // BLOCK_BYTES)
    return -(-longest // num_pieces)


def _with_one_sum(
    group: ChunkGroup, parts: Sequence[jax.Array], width: int, total: jax.Array, piece: tuple[jax.Array, jax.Array, jax.Array]
) -> tuple[jax.Array, None]:
    """`total` with the sum of one piece: where it starts and stops, and the ranks of its leaves."""
    start, stop, ranks = piece
    first = jnp.minimum(start, len(total) - width)
    rows = [jax.lax.dynamic_slice_in_dim(part, first, width, axis=1) for part in parts]
    block = jax.lax.optimization_barrier(jnp.concatenate(rows))
    places = first + jnp.arange(width, dtype=jnp.int32)
    old = jax.lax.dynamic_slice(total, (first,), (width,))
    leaves = [jax.lax.dynamic_index_in_dim(block, ranks[leaf], keepdims=False) for leaf in range(len(group.leaves))]
    new = jnp.where((start <= places) & (places < stop), tree_sum(group, leaves), old)
    return jax.lax.dynamic_update_slice(total, new, (first,)), None


def tree_sum(group: ChunkGroup, leaves: Sequence[jax.Array]) -> jax.Array:
    """The sum of some values, one for each leaf, in the order of a group's tree."""
    values = iter(leaves)
    stack: list[jax.Array] = []
    for is_leaf in group.program:
        stack.append(next(values) if is_leaf else stack.pop() + stack.pop())
    return stack.pop()
