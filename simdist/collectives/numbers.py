"""The numbers of a collective: the same transfers, with arrays instead of seconds.

There are two ways, and they give the same bits. `run_schedule` moves numpy arrays about, transfer by transfer, as a cluster
would: the reference, and what a picture shows step by step. `combined` gives the one array that an all-reduce ends with, in
JAX: it knows the order of additions in advance (`order.py`) and adds chunks that are added alike side by side, so that a
ring of 64 ranks is 63 additions and not 4,032.

A rank's data is flattened and cut into chunks at ``chunk * size // num_chunks``: lengths differ by 1 at most.

Class of numbers: E0. The order of additions is that of the schedule, so another algorithm or another number of ranks gives
other last bits; each is within rounding of the exact sum.

Taught in lesson 03.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from simdist.collectives.base import Schedule
from simdist.collectives.order import Group, additions, steps_of
from simdist.errors import InvalidArgumentError

__all__ = ["boundaries", "combined", "run_schedule", "run_steps"]


def boundaries(size: int, num_chunks: int) -> list[int]:
    """Where the chunks of `size` elements begin, and where the last one ends.

    Example:
        >>> boundaries(10, 4)
        [0, 2, 5, 7, 10]
    """
    return [chunk * size // num_chunks for chunk in range(num_chunks + 1)]


# -- step by step, with numpy -------------------------------------------------------------------------------------------


def run_schedule(schedule: Schedule, buffers: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Run a collective on arrays.

    Args:
        schedule: what to do.
        buffers: the data of each rank, of one shape and dtype; they are not changed. What a rank does not have yet
            (the others' chunks in an all-gather) may be anything.

    Returns:
        What each rank has in the end, in the shape of its data.

    Raises:
        InvalidArgumentError: not one array for each rank, or arrays of different shapes.

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
    shape = _check(schedule, [np.shape(buffer) for buffer in buffers])
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
    """The sum over the ranks, added in exactly the order of a schedule. It can be traced, compiled and vmapped.

    Args:
        schedule: of an all-reduce, reduce or reduce-scatter.
        arrays: the data of each rank, of one shape and dtype; or one array, whose first axis is the rank.

    Returns:
        The sum, in the shape of one rank's data: what all ranks have after an all-reduce, the root after a reduce; after a
        reduce-scatter each rank has its chunk of it. The bits are those of `run_schedule`.

    Raises:
        InvalidArgumentError: as in `run_schedule`, or a schedule that does not add every rank once.

    Example:
        >>> from simdist.collectives.ring import RING
        >>> combined(RING.schedule(3), np.float32([[1, 2], [3, 4], [5, 6]]))
        Array([ 9., 12.], dtype=float32)
    """
    stacked = jnp.asarray(arrays) if isinstance(arrays, (jax.Array, np.ndarray)) else None
    shape = _check(schedule, [np.shape(array) for array in arrays] if stacked is None else [stacked.shape[1:]] * len(stacked))
    if stacked is None:
        stacked = jnp.stack([jnp.asarray(array) for array in arrays])
    size = math.prod(shape)
    if schedule.num_ranks == 1 or size == 0:
        return stacked[0]
    flat = stacked.reshape(schedule.num_ranks, size)
    edges = boundaries(size, schedule.num_chunks)
    groups = additions(schedule)
    sums = [_sum_of(group, flat, edges) for group in groups]
    if len(groups) == 1:
        return _joined(sums[0], edges).reshape(shape)
    place = np.argsort([chunk for group in groups for chunk in group.chunks])
    return _joined(jnp.concatenate(sums)[place], edges).reshape(shape)


def _sum_of(group: Group, flat: jax.Array, edges: list[int]) -> jax.Array:
    """The sums of a group's chunks, one a row; a chunk that is shorter than the longest is followed by what comes next."""
    longest = edges[-1] - edges[-2]  # the last one is never shorter than another
    starts = np.asarray([edges[chunk] for chunk in group.chunks], np.int32)
    ranks = np.asarray(group.leaves, np.int32)
    read = jax.vmap(lambda rank, start: jax.lax.dynamic_slice(flat, (rank, start), (1, longest))[0])
    rows = jax.vmap(read, in_axes=(0, None))(ranks, starts)
    leaves = iter(jax.lax.split(rows, [1] * len(ranks)))
    stack: list[jax.Array] = []
    for is_leaf in group.program:
        stack.append(next(leaves) if is_leaf else stack.pop() + stack.pop())
    return stack.pop()[0]


def _joined(rows: jax.Array, edges: list[int]) -> jax.Array:
    """The rows one after the other, each without what follows its chunk."""
    longest = rows.shape[1]
    flat = rows.reshape(-1)
    short = [row * longest + longest - 1 for row, (start, stop) in enumerate(pairwise(edges)) if stop - start < longest]
    if not short:
        return flat
    return jnp.concatenate([flat[start + 1 : stop] for start, stop in pairwise([-1, *short, flat.size])])
