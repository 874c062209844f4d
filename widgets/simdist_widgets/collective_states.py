"""What every rank holds after every step of a collective, worked out from its schedule alone.

A chunk is described by the ranks whose contributions it contains. A transfer that adds makes the union of two such sets; one
that does not puts the source's set in the place of the target's. All transfers of a step read what was there before it.

A chunk is *needed* at a moment when what it holds then still reaches a result: partial sums that have been passed on, and
data that will be replaced unread, are not. It is *complete* when it holds what the collective is for.

All arrays have the axes [moment, rank, chunk, ...]; moment 0 is before the first step, moment s after step s.

Taught in lesson 03a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simdist.collectives.base import Schedule, Transfer

SUMS = ("all_reduce", "reduce", "reduce_scatter")


def steps_of(schedule: Schedule) -> list[list[Transfer]]:
    """The transfers of each step, in the order of the schedule.

    Args:
        schedule: any schedule.

    Returns:
        One list for each step.

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> [len(transfers) for transfers in steps_of(schedule(3))]
        [3, 3, 3, 3]
    """
    steps: list[list[Transfer]] = [[] for _ in range(schedule.num_steps)]
    for transfer in schedule.transfers:
        steps[transfer.step].append(transfer)
    return steps


def contributions(schedule: Schedule) -> np.ndarray:
    """Which ranks' data each chunk contains.

    Args:
        schedule: any schedule.

    Returns:
        bool [moment, rank, chunk, contributor].

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> held = contributions(schedule(3))
        >>> held[1, 1, 0].tolist()  # after one step, chunk 0 of rank 1 holds the data of ranks 0 and 1
        [True, True, False]
    """
    ranks, chunks = schedule.num_ranks, schedule.num_chunks
    held = np.zeros((schedule.num_steps + 1, ranks, chunks, ranks), bool)
    held[0] = np.eye(ranks, dtype=bool)[:, None, :]
    for step, transfers in enumerate(steps_of(schedule)):
        before, after = held[step], held[step + 1]
        after[:] = before
        for transfer in transfers:
            cells = list(transfer.chunks)
            sent = before[transfer.source, cells]
            after[transfer.target, cells] = after[transfer.target, cells] | sent if transfer.adds else sent
    return held


def numbers(schedule: Schedule, values: Any) -> np.ndarray:
    """One number for each chunk, carried through the schedule.

    Args:
        schedule: any schedule.
        values: [rank, chunk], what each rank holds before the first step.

    Returns:
        float64 [moment, rank, chunk].

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> numbers(schedule(2), [[1, 2], [10, 20]])[-1].tolist()
        [[11.0, 22.0], [11.0, 22.0]]
    """
    held = np.empty((schedule.num_steps + 1, schedule.num_ranks, schedule.num_chunks))
    held[0] = values
    for step, transfers in enumerate(steps_of(schedule)):
        before, after = held[step], held[step + 1]
        after[:] = before
        for transfer in transfers:
            cells = list(transfer.chunks)
            sent = before[transfer.source, cells]
            after[transfer.target, cells] = after[transfer.target, cells] + sent if transfer.adds else sent
    return held


def needed(schedule: Schedule, held: np.ndarray) -> np.ndarray:
    """Whether what a chunk holds still reaches a result; worked out from the end to the beginning.

    Args:
        schedule: any schedule.
        held: its `contributions`.

    Returns:
        bool [moment, rank, chunk].

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> ring = schedule(3)
        >>> needed(ring, contributions(ring))[1].sum()  # each rank has passed one of its three chunks on
        np.int64(6)
    """
    wanted = np.zeros(held.shape[:3], bool)
    wanted[-1] = _results(schedule, held[-1])
    for step, transfers in reversed(list(enumerate(steps_of(schedule)))):
        before, after = wanted[step], wanted[step + 1]
        before[:] = after
        for transfer in transfers:
            if not transfer.adds:
                before[transfer.target, list(transfer.chunks)] = False
        for transfer in transfers:
            cells = list(transfer.chunks)
            before[transfer.source, cells] |= after[transfer.target, cells]
    return wanted


def _results(schedule: Schedule, held: np.ndarray) -> Any:
    """Which chunks are results in the end; `held` is that of the last moment.

    A wrong schedule has results, too: they are not whole. An all-reduce is there for all ranks; the other sums are where most is.
    """
    n = schedule.num_ranks
    if schedule.kind in SUMS:
        terms = held.sum(-1)
        return schedule.kind == "all_reduce" or terms == terms.max(axis=0)
    if schedule.kind == "all_to_all" and schedule.num_chunks == n * n:  # chunk s * n + t goes from rank s to rank t
        return np.arange(n)[:, None] == np.arange(n * n) % n
    return True


def complete(schedule: Schedule, held: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Whether a chunk holds what the collective is for: the sum of all ranks, each once, or the data that it ends with.

    Args:
        schedule: any schedule.
        held: its `contributions`.
        wanted: what is `needed`.

    Returns:
        bool [moment, rank, chunk].

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> ring = schedule(3)
        >>> held = contributions(ring)
        >>> complete(ring, held, needed(ring, held)).sum(axis=(1, 2)).tolist()
        [0, 0, 3, 6, 9]
    """
    if schedule.kind in SUMS:
        terms = numbers(schedule, np.ones(held.shape[1:3]))  # more than the contributors where one was added twice
        return held.all(-1) & np.equal(terms, schedule.num_ranks)
    return wanted & (held == held[-1]).all(-1) & _results(schedule, held[-1])


def seconds_by_step(schedule: Schedule, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> np.ndarray:
    """When the last rank is done with each step, on an idle network.

    A transfer begins when both its ends are done with the steps before; transfers of one step that share a source or a
    target share its port.

    Args:
        schedule: any schedule.
        size_bytes: data of each rank.
        latency_s: of one transfer.
        bandwidth_bytes_per_s: of each rank's port, in each direction.

    Returns:
        float64 [moment], seconds; the first is 0.

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> seconds_by_step(schedule(2), 100, 0.5, 100).tolist()
        [0.0, 1.0, 2.0]
    """
    ready_s = np.zeros(schedule.num_ranks)
    moments_s = [0.0]
    for transfers in steps_of(schedule):
        begin_s = ready_s.copy()
        sent, received = port_loads(schedule, transfers)
        for t in transfers:
            chunks = max(sent[t.source], received[t.target])
            wire_s = chunks * size_bytes / schedule.num_chunks / bandwidth_bytes_per_s
            end_s = max(begin_s[t.source], begin_s[t.target]) + latency_s + wire_s
            ready_s[t.source] = max(ready_s[t.source], end_s)
            ready_s[t.target] = max(ready_s[t.target], end_s)
        moments_s.append(float(ready_s.max()))
    return np.array(moments_s)


def port_loads(schedule: Schedule, transfers: list[Transfer]) -> tuple[np.ndarray, np.ndarray]:
    """How many chunks each rank sends and receives.

    Args:
        schedule: tells how many ranks there are.
        transfers: those that count, usually of one step.

    Returns:
        int64 [rank] sent, and int64 [rank] received.

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> port_loads(schedule(2), steps_of(schedule(2))[0])
        (array([1, 1]), array([1, 1]))
    """
    sent, received = np.zeros((2, schedule.num_ranks), np.int64)
    for transfer in transfers:
        sent[transfer.source] += len(transfer.chunks)
        received[transfer.target] += len(transfer.chunks)
    return sent, received
