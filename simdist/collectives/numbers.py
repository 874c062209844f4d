"""The numbers of a collective: its transfers on arrays.

There are two ways, and they give the same bits. `run_schedule` moves numpy arrays about, transfer by transfer, as a cluster
would: the reference, and what a picture shows step by step. `combined` gives the one array that an all-reduce ends with, in
JAX: it knows the order of additions in advance (`order.py`) and adds chunks that are added alike side by side, so that a
ring of 64 ranks is 63 additions and not 4,032.

A rank's data is flattened and cut into chunks at ``chunk * size // num_chunks``: lengths differ by 1 at most.

Class of numbers: E0. The order of additions is that of the schedule, so another algorithm or another number of ranks gives
other last bits; each is within rounding of the exact sum.

Taught in lesson 03b.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from simdist.collectives.base import Schedule
from simdist.collectives.checking import check_schedule
from simdist.collectives.chunk_sums import added_by_chunk, tree_sum
from simdist.collectives.order import additions, steps_of
from simdist.errors import InvalidArgumentError

__all__ = ["boundaries", "combined", "combined_packs", "combined_stacks", "run_schedule", "run_steps"]


def boundaries(size: int, num_chunks: int) -> list[int]:
    """Where the chunks of `size` elements begin, and where the last one ends.

    Example:
        >>> boundaries(10, 4)
        [0, 2, 5, 7, 10]
    """
    return [chunk * size // num_chunks for chunk in range(num_chunks + 1)]


# -- step by step, with numpy -------------------------------------------------------------------------------------------


def run_schedule(schedule: Schedule, buffers: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Run a collective on arrays, with numpy and step by step.

    Args:
        schedule: what to do.
        buffers: r arrays (p...), the data of each of the r ranks, of one shape and dtype; they are not changed. The parts that a
            rank does not have yet (the others' chunks in an all-gather) may have any values.

    Returns:
        r arrays (p...): the data of each rank in the end.

    Raises:
        InvalidArgumentError: not one array for each rank, arrays of different shapes, or a schedule that breaks a rule (`check_schedule`).

    Example:
        >>> from simdist.collectives.ring import RING
        >>> run_schedule(RING.schedule(2), [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
        [array([4., 6.]), array([4., 6.])]
    """
    result = [np.array(buffer) for buffer in buffers]
    for result in run_steps(schedule, buffers):  # noqa: B007
        pass
    return result


def run_steps(schedule: Schedule, buffers: Sequence[NDArray[Any]]) -> Iterator[list[NDArray[Any]]]:
    """As `run_schedule`, but hand over what the ranks have after each step.

    Args:
        schedule: what to do.
        buffers: as in `run_schedule`.

    Yields:
        For each step the data of all ranks after it, as copies.

    Raises:
        InvalidArgumentError: as in `run_schedule`.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> for after in run_steps(RING.schedule(2), [np.array([1.0, 2.0]), np.array([3.0, 4.0])]):
        ...     print(*after)
        [1. 6.] [4. 4.]
        [4. 6.] [4. 6.]
    """
    shape = _check(check_schedule(schedule), [np.shape(buffer) for buffer in buffers])
    flat = [np.array(buffer).reshape(-1) for buffer in buffers]
    edges = boundaries(flat[0].size, schedule.num_chunks)
    for step in steps_of(schedule):
        moves = [
            (transfer, slice(edges[chunk], edges[chunk + 1]), flat[transfer.source][edges[chunk] : edges[chunk + 1]].copy())
            for transfer in step
            for chunk in transfer.chunks
        ]
        for transfer, part, values in moves:
            own = flat[transfer.target]
            own[part] = own[part] + values if transfer.adds else values
        yield [buffer.reshape(shape).copy() for buffer in flat]


def _check(schedule: Schedule, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The one shape of all ranks' data."""
    if len(shapes) != schedule.num_ranks or not shapes:
        raise InvalidArgumentError(f"{schedule.algorithm} on {schedule.num_ranks} ranks needs one array each; got {len(shapes)}.")
    if len(set(shapes)) > 1:
        raise InvalidArgumentError(f"All ranks must have data of one shape; got {', '.join(map(str, shapes))}.")
    return shapes[0]


# -- the result at once, with JAX ---------------------------------------------------------------------------------------


def combined(schedule: Schedule, arrays: Sequence[Any] | jax.Array | NDArray[Any]) -> jax.Array:
    """The sum over the ranks, in exactly the order of a schedule. It can be traced, compiled and vmapped.

    Args:
        schedule: of an all-reduce, reduce or reduce-scatter.
        arrays: r arrays (p...), the data of each rank, of one shape and dtype; or one array (r, p...).

    Returns:
        The sum (p...), in the shape of one rank's data: what all ranks have after an all-reduce, the root after a reduce; after a
        reduce-scatter each rank has its chunk of it. The bits are those of `run_schedule`.

    Raises:
        InvalidArgumentError: as in `run_schedule`, or a schedule that does not add every rank once.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> combined(RING.schedule(3), np.float32([[1, 2], [3, 4], [5, 6]]))
        Array([ 9., 12.], dtype=float32)
    """
    each = [jnp.asarray(array) for array in arrays]
    _check(schedule, [array.shape for array in each])
    return combined_packs(schedule, [[array] for array in each])[0]


def combined_packs(schedule: Schedule, packs: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """As `combined`, for ranks whose data are several arrays of one dtype, which travel end to end.

    Args:
        schedule: of an all-reduce, reduce or reduce-scatter.
        packs: for each of the r ranks its arrays (p...), of the same shapes on all ranks.

    Returns:
        The sums (p...), array by array.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> one, other = jnp.float32([1, 2, 3]), jnp.float32([[4]])
        >>> [total.tolist() for total in combined_packs(RING.schedule(2), [[one, other], [one, other]])]
        [[2.0, 4.0, 6.0], [[8.0]]]
    """
    if schedule.num_ranks == 1:
        return list(packs[0])
    groups = additions(schedule)
    if len(groups) == 1 and all(len(set(leaf)) == 1 for leaf in groups[0].leaves):
        # All chunks are added alike, so the arrays need not lie in stacks.
        return [tree_sum(groups[0], [packs[leaf[0]][n] for leaf in groups[0].leaves]) for n in range(len(packs[0]))]
    return combined_stacks(schedule, [[jnp.stack(arrays) for arrays in zip(*packs, strict=True)]])


def combined_stacks(schedule: Schedule, parts: Sequence[Sequence[jax.Array]]) -> list[jax.Array]:
    """As `combined_packs`, for data that lie in stacks already.

    Args:
        schedule: of an all-reduce, reduce or reduce-scatter.
        parts: for some ranks that follow each other, and for those after them, and so on: arrays (ranks, p...) of one dtype. All r ranks
            may be one part.

    Returns:
        The sums (p...), array by array; the bits are those of `combined_packs`.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> one, other = jnp.float32([[1, 2, 3]]), jnp.float32([[[4]]])
        >>> [total.tolist() for total in combined_stacks(RING.schedule(2), [[one, other], [one, other]])]
        [[2.0, 4.0, 6.0], [[8.0]]]
    """
    if schedule.num_ranks == 1:
        return [stack[0] for stack in parts[0]]
    edges = boundaries(sum(math.prod(stack.shape[1:]) for stack in parts[0]), schedule.num_chunks)
    return added_by_chunk(additions(schedule), edges, parts)
