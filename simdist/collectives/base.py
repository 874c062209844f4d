"""The schedule of a collective: which rank sends which chunks to which other rank, step by step.

A collective is a *schedule* of transfers. The network times the transfers, the numbers are computed in exactly the order
that the schedule says, and a closed form says how long it takes on an idle network. One file for each algorithm
makes a schedule for any number of ranks and gives that closed form; nothing here knows a clock, a network or a strategy.

The data of a rank (S bytes) is cut into equal *chunks*. A transfer carries some chunks of its source, as they were when its
step began, and the target either adds them to its own (`adds`) or puts them in their place. A rank takes part in step s when
it has done all that it does in the steps before; ranks do not wait for each other otherwise.

Invariants: within a step no rank receives the same chunk twice; a rank does not send to itself.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from simdist.arguments import whole_number

__all__ = ["Algorithm", "Schedule", "Transfer"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One transfer: chunks that one rank sends to another in one step.

    Args:
        step: when, counted from 0.
        source: rank that sends.
        target: rank that receives.
        chunks: numbers of the chunks, in ascending order.
        adds: whether the target adds them to its own; otherwise they take the place of its own.
    """

    step: int
    source: int
    target: int
    chunks: tuple[int, ...]
    adds: bool


@dataclass(frozen=True)
class Schedule:
    """All transfers of one collective.

    Args:
        kind: "all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast" or "all_to_all".
        algorithm: the name of the algorithm, as people say it: "ring", "recursive doubling", ...
        num_ranks: members.
        num_chunks: equal parts of each rank's data.
        transfers: in the order of their steps.
    """

    kind: str
    algorithm: str
    num_ranks: int
    num_chunks: int
    transfers: tuple[Transfer, ...]

    @cached_property
    def num_steps(self) -> int:
        """The number of steps."""
        return 1 + max((transfer.step for transfer in self.transfers), default=-1)

    def bytes_sent(self, size_bytes: float) -> float:
        """Bytes that all ranks together put on the wire, where each has `size_bytes` of data."""
        return sum(len(transfer.chunks) for transfer in self.transfers) * size_bytes / self.num_chunks


@dataclass(frozen=True)
class Algorithm:
    """One algorithm of one collective.

    Args:
        kind: as in `Schedule`.
        name: as in `Schedule.algorithm`.
        schedule: number of ranks -> its schedule.
        seconds: (number of ranks, bytes of each rank, latency in s, bandwidth in bytes/s) -> seconds without contention.

    Both refuse a number of ranks that is no whole number (TypeError) or less than 1 (InvalidArgumentError).
    """

    kind: str
    name: str
    schedule: Callable[[int], Schedule]
    seconds: Callable[[int, float, float, float], float]

    def __post_init__(self) -> None:
        what = f"{self.kind} by {self.name}: num_ranks"
        object.__setattr__(self, "schedule", partial(_among, self.schedule, what))
        object.__setattr__(self, "seconds", partial(_among, self.seconds, what))


def _among(function: Callable[..., Any], what: str, num_ranks: int, *figures: float, **named: float) -> Any:
    """What a function of an algorithm gives for this number of ranks, if it is one."""
    return function(whole_number(num_ranks, what, 1), *figures, **named)
