"""Whose data each rank ends with: a check of the results of a schedule, for lessons 03a and 03b.

A schedule can be well-formed and wrong. Its transfers are run with marks in place of numbers: what a rank ends with then says whose
data it is made of, and how often.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from classroom.values import described, plain
from simdist.collectives import Schedule, Transfer, check_schedule, run_schedule
from simdist.errors import InvalidArgumentError

__all__ = ["all_reduce_anomalies", "contributions", "schedule_of", "schedule_problem"]

MOST_TRANSFERS = 1000
LAST_STEP = 99


def contributions(schedule: Schedule) -> np.ndarray:
    """How often each rank's data is in what every rank ends with.

    Args:
        schedule: of any collective.

    Returns:
        int [rank, chunk, contributor]; after an all-reduce all are 1.

    Example:
        >>> from simdist.collectives import algorithm
        >>> contributions(algorithm("all_reduce", "ring").schedule(4)).shape
        (4, 4, 4)
    """
    # rank r brings a 1 in column r of every chunk, and 0 elsewhere: a sum then says whose data it is made of
    marks = [np.tile(row, (schedule.num_chunks, 1)) for row in np.eye(schedule.num_ranks, dtype=int)]
    return np.stack(run_schedule(schedule, marks))


def all_reduce_anomalies(schedule: Schedule) -> list[str]:
    """What is wrong with the result of an all-reduce: who misses whom, and who has whom too often.

    Example:
        >>> all_reduce_anomalies(Schedule("all_reduce", "nothing", 2, 1, ()))
        ['rank 0, chunk 0: misses rank 1', 'rank 1, chunk 0: misses rank 0']
    """
    found: list[str] = []
    for (rank, chunk, contributor), times in np.ndenumerate(contributions(schedule)):
        if times != 1:
            what = f"misses rank {contributor}" if times == 0 else f"has rank {contributor} {times} times"
            found.append(f"rank {rank}, chunk {chunk}: {what}")
    return found


def schedule_problem(transfers: Any, num_ranks: int, most_steps: int) -> str | None:
    """What is wrong with an answer that is to be the transfers of an all-reduce of one chunk; None if nothing is.

    Args:
        transfers: the answer, whatever it is.
        num_ranks: how many ranks take part.
        most_steps: how many steps it may take.

    Example:
        >>> schedule_problem([Transfer(0, 0, 1, (0,), True)], num_ranks=2, most_steps=1)
        'the transfers are well-formed, but the result is wrong: rank 0, chunk 0: misses rank 1.'
    """
    schedule = schedule_of(transfers, num_ranks)
    if isinstance(schedule, str):
        return schedule
    anomalies = all_reduce_anomalies(schedule)
    if anomalies:
        more = f", and {len(anomalies) - 1} more" if len(anomalies) > 1 else ""
        return f"the transfers are well-formed, but the result is wrong: {anomalies[0]}{more}."
    if schedule.num_steps > most_steps:
        return f"the sums are right, but it takes {schedule.num_steps} steps; {most_steps} are enough."
    return None


def schedule_of(transfers: Any, num_ranks: int) -> Schedule | str:
    """The schedule of one chunk with these transfers, or what is wrong with how they are written.

    Example:
        >>> schedule_of([Transfer(0, 0, 2, (0,), True)], num_ranks=2)
        'your all-reduce on 2 ranks, Transfer(step=0, source=0, target=2, chunks=(0,), adds=True): ranks go from 0 to 1.'
    """
    if not isinstance(transfers, (list, tuple)):
        return f"{described(transfers)} is not a list of transfers: give [Transfer(step, source, target, chunks, adds), ...]."
    if len(transfers) > MOST_TRANSFERS:
        return f"these are {len(transfers):,} transfers; {num_ranks} ranks need far fewer."
    for number, transfer in enumerate(transfers):
        problem = transfer_problem(transfer)
        if problem:
            return f"element {number} of the list: {problem}"
    clean = tuple(Transfer(int(t.step), int(t.source), int(t.target), tuple(map(int, t.chunks)), bool(t.adds)) for t in transfers)
    try:
        return check_schedule(Schedule("all_reduce", "your all-reduce", num_ranks, 1, clean))
    except InvalidArgumentError as error:
        return str(error)


def transfer_problem(transfer: Any) -> str | None:
    """What is wrong with the kinds of what a transfer consists of."""
    if not isinstance(transfer, Transfer):
        return f"{described(transfer)} is not a transfer: write Transfer(step, source, target, chunks, adds)."
    for name in ("step", "source", "target"):
        value = plain(getattr(transfer, name))
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LAST_STEP:
            return f"{name} is {described(getattr(transfer, name))}: give a whole number, from 0 on."
    chunks = plain(transfer.chunks)
    if not isinstance(chunks, list) or any(type(chunk) is not int for chunk in chunks):
        return f"chunks is {described(transfer.chunks)}: give a tuple of numbers; for chunk 0 alone it is (0,) with a comma."
    if not isinstance(plain(transfer.adds), bool):
        return f"adds is {described(transfer.adds)}: give True (the target adds) or False (it replaces)."
    return None
