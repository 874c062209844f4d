"""The sum over ranks whose data lie in stacks, chunk by chunk.

All chunks of a group are added by one small loop: it cuts a chunk's leaves out of the stack, adds them in the order of the
group's tree, and puts the sum in its place. So the compiled code is as long as there are ranks, not as ranks times chunks, and nothing
is copied but what is added.

The chunks of one array differ in length by 1 at most, and the first and the last may lie partly in another array. So the
loop works on windows of one length, and writes only those elements of a window that are the chunk's.

Class of numbers: E0, as numbers.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from simdist.collectives.order import ChunkGroup

__all__ = ["added_by_chunk", "tree_sum"]

# Elements of a stack that is copied, to lie beside its neighbours: of a loop for each of them the code takes longer to compile.
MOST_JOINED = 2**20
# Stacks that are joined: of many more, the code that lays them beside each other takes the longest to compile.
MOST_IN_A_RUN = 16


def added_by_chunk(groups: Sequence[ChunkGroup], edges: Sequence[int], stacks: Sequence[jax.Array]) -> list[jax.Array]:
    """The sums of stacks whose elements lie end to end, chunk by chunk.

    Args:
        groups: how the chunks are added; every chunk is in one of them.
        edges: where the chunks begin and end, in elements of a rank's data; one more than there are chunks.
        stacks: arrays (r, p...) of one dtype, of all r ranks each.

    Returns:
        The sums (p...), array by array.

    Example:
        >>> from simdist.collectives.order import additions
        >>> from simdist.collectives.ring import RING
        >>> added_by_chunk(additions(RING.schedule(2)), [0, 1, 3], [jnp.float32([[1, 2, 3], [4, 5, 6]])])
        [Array([5., 7., 9.], dtype=float32)]
    """
    sums: list[jax.Array] = []
    start = 0
    for run in _runs(stacks):
        flat = [stack.reshape(len(stack), -1) for stack in run]
        ends = np.cumsum([part.shape[1] for part in flat])
        within = [min(max(edge - start, 0), int(ends[-1])) for edge in edges]
        total = _sums_of_flat(groups, within, flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1))
        sums += [part.reshape(stack.shape[1:]) for part, stack in zip(jnp.split(total, ends[:-1]), run, strict=True)]
        start += int(ends[-1])
    return sums


def _runs(stacks: Sequence[jax.Array]) -> list[list[jax.Array]]:
    """The stacks, in order; some small ones that follow each other are one run, for which one loop is compiled."""
    runs: list[list[jax.Array]] = []
    for stack in stacks:
        if runs and len(runs[-1]) < MOST_IN_A_RUN and max(stack.size, runs[-1][-1].size) <= MOST_JOINED:
            runs[-1].append(stack)
        else:
            runs.append([stack])
    return runs


def _sums_of_flat(groups: Sequence[ChunkGroup], edges: Sequence[int], flat: jax.Array) -> jax.Array:
    """The sum (n) of ranks' data (r, n), chunk by chunk."""
    total = jnp.zeros(flat.shape[1], flat.dtype)
    for group in groups if flat.shape[1] else ():
        total = _with_sums_of(group, edges, flat, total)
    return total


def _with_sums_of(group: ChunkGroup, edges: Sequence[int], flat: jax.Array, total: jax.Array) -> jax.Array:
    """`total` (n) with the sums of a group's chunks, of ranks' data (r, n)."""
    places = [place for place, chunk in enumerate(group.chunks) if edges[chunk] < edges[chunk + 1]]
    if not places:
        return total
    starts = np.array([edges[group.chunks[place]] for place in places], np.int32)
    stops = np.array([edges[group.chunks[place] + 1] for place in places], np.int32)
    ranks = np.array([[leaf[place] for leaf in group.leaves] for place in places], np.int32)
    width = int((stops - starts).max())
    chunks = (jnp.asarray(starts), jnp.asarray(stops), jnp.asarray(ranks))
    return jax.lax.scan(partial(_with_one_sum, group, flat, width), total, chunks)[0]


def _with_one_sum(
    group: ChunkGroup, flat: jax.Array, width: int, total: jax.Array, chunk: tuple[jax.Array, jax.Array, jax.Array]
) -> tuple[jax.Array, None]:
    """`total` with the sum of one chunk: where it starts and stops, and the ranks of its leaves."""
    start, stop, ranks = chunk
    first = jnp.minimum(start, flat.shape[1] - width)
    leaves = [jax.lax.dynamic_slice(flat, (ranks[leaf], first), (1, width))[0] for leaf in range(len(group.leaves))]
    places = first + jnp.arange(width, dtype=jnp.int32)
    old = jax.lax.dynamic_slice(total, (first,), (width,))
    new = jnp.where((start <= places) & (places < stop), tree_sum(group, leaves), old)
    return jax.lax.dynamic_update_slice(total, new, (first,)), None


def tree_sum(group: ChunkGroup, leaves: Sequence[jax.Array]) -> jax.Array:
    """The sum of some values, one for each leaf, in the order of a group's tree."""
    values = iter(leaves)
    stack: list[jax.Array] = []
    for is_leaf in group.program:
        stack.append(next(values) if is_leaf else stack.pop() + stack.pop())
    return stack.pop()
