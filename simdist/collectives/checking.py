"""Checks of a schedule: the rules that every schedule keeps, also one of your own.

Transfers come in the order of their steps. A rank sends to another one, chunks that exist, each once; and within a step it
receives no chunk twice: which of two came first would depend on the network, and so would the bits of the result.

Taught in lesson 03b.
"""

from __future__ import annotations

from itertools import pairwise

from simdist.collectives.base import Schedule
from simdist.errors import InvalidArgumentError

__all__ = ["check_schedule"]


def check_schedule(schedule: Schedule) -> Schedule:
    """Refuse a schedule that breaks a rule.

    Args:
        schedule: what to look at.

    Returns:
        The same schedule.

    Raises:
        InvalidArgumentError: a rule is broken; the message names the transfer.

    Example:
        >>> from simdist.collectives.base import Transfer
        >>> check_schedule(Schedule("reduce", "loop", 2, 1, (Transfer(0, 1, 1, (0,), True),)))
        Traceback (most recent call last):
        simdist.errors.InvalidArgumentError: loop on 2 ranks, Transfer(step=0, source=1, target=1, chunks=(0,), adds=True): ...
    """
    received: set[tuple[int, int, int]] = set()
    last_step = 0
    for transfer in schedule.transfers:
        ranks, chunks = (transfer.source, transfer.target), transfer.chunks
        arrivals = {(transfer.step, transfer.target, chunk) for chunk in chunks}
        problem = ""
        if transfer.step < last_step:
            problem = f"comes after a transfer of step {last_step}; put the transfers in the order of their steps"
        elif min(ranks) < 0 or max(ranks) >= schedule.num_ranks:
            problem = f"ranks go from 0 to {schedule.num_ranks - 1}"
        elif transfer.source == transfer.target:
            problem = "a rank does not send to itself; leave the transfer out"
        elif not chunks or chunks[0] < 0 or chunks[-1] >= schedule.num_chunks or any(a >= b for a, b in pairwise(chunks)):
            problem = f"chunks must be some of 0 to {schedule.num_chunks - 1}, in ascending order"
        elif arrivals & received:
            problem = "its target receives one of these chunks twice in this step; give one of the transfers a later step"
        if problem:
            raise InvalidArgumentError(f"{schedule.algorithm} on {schedule.num_ranks} ranks, {transfer}: {problem}.")
        received |= arrivals
        last_step = transfer.step
    return schedule
