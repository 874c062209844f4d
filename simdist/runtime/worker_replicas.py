"""Replicas of one worker: a worker with several devices takes each step of a closure on all of them together.

Each replica has a program and arguments, as under the synchronous strategies. What concerns parameter servers is done once for all of
them: a read is answered to all, rows are read together (`simdist.runtime.joint_rows`), and an update is sent when all have come to it, with
the operands of the first. Only what they count (`Apply.of_each`) each of them adds for itself.

A replica reads what all of them have counted (`simdist.runtime.counted_reads`) when all have come to that read.

Invariant: the replicas of a worker have the same collectives, updates and counted reads, in the same order (`require_same_order`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from simdist.errors import InvalidArgumentError
from simdist.program.bound_call import BoundCall
from simdist.runtime.counted_reads import CountedReads, counted_reads, dense_read
from simdist.runtime.joint_rows import joint_reads
from simdist.runtime.linked import ApplyAll, LinkedCollective, LinkedProgram, ReadWithRows
from simdist.runtime.replicas import Communication

__all__ = ["LinkedReplicas", "LocalReplicas", "ReadOrder", "ReplicaCalls", "have_same_order", "require_same_order"]


class Feed(Protocol):
    """An iterator from which several replicas take.

    Attributes:
        source: the iterator that gives the batches; the feed itself, where it is one.
    """

    @property
    def source(self) -> object: ...

    def align(self) -> None:
        """Let all replicas stand where the first of them is."""
        ...

    def rewind(self) -> None:
        """Let all replicas stand where the last of them is."""
        ...


@dataclass(frozen=True)
class LocalReplicas:
    """The replicas that each worker of a pool has.

    Attributes:
        devices: one for each, by its name on the worker: "gpu:0".
        communication: how they talk to each other.
    """

    devices: tuple[str, ...]
    communication: Communication

    def on(self, task: str) -> list[str]:
        """The devices of one worker.

        Example:
            >>> from types import SimpleNamespace
            >>> LocalReplicas(("gpu:0", "gpu:1"), SimpleNamespace(timeout_s=None)).on("worker:3")
            ['worker:3/gpu:0', 'worker:3/gpu:1']
        """
        return [f"{task}/{device}" for device in self.devices]


@dataclass(frozen=True, eq=False)
class ReplicaCalls:
    """The arguments of the replicas of a worker, by rank.

    Attributes:
        feeds: the iterators from which all of them take.
    """

    calls: tuple[BoundCall, ...]
    feeds: tuple[Feed, ...] = ()

    def align(self, resumed: Sequence[object] = ()) -> None:
        """Let all replicas stand before the same batch of each iterator: a step that was stopped may have left some behind.

        Args:
            resumed: iterators of which that batch is taken once more.
        """
        for feed in self.feeds:
            if any(feed is iterator or feed.source is iterator for iterator in resumed):
                feed.rewind()
            else:
                feed.align()


@dataclass(frozen=True, eq=False)
class LinkedReplicas:
    """The programs of the replicas of a worker, by rank."""

    programs: tuple[LinkedProgram, ...]

    @cached_property
    def joint_reads(self) -> tuple[ReadWithRows, ...]:
        """Their reads of rows, each for all of them."""
        return joint_reads(self.programs)

    @cached_property
    def counted_reads(self) -> CountedReads:
        """Their reads of what they have counted before in the step, to which all of them come."""
        return counted_reads(self.programs)


def have_same_order(programs: Sequence[LinkedProgram]) -> bool:
    """Whether replicas come to their collectives and updates in one order."""
    return len({tuple(_order(program)) for program in {id(program): program for program in programs}.values()}) == 1


def require_same_order(programs: Sequence[LinkedProgram]) -> None:
    """Refuse replicas that come to their collectives and updates in different orders: they would wait for each other for ever.

    Raises:
        InvalidArgumentError: they do.
    """
    if all(program is programs[0] for program in programs):
        return
    counted = counted_reads(programs)
    first, met = _order(programs[0]), _order(programs[0], counted)
    for rank, program in enumerate(programs[1:], 1):
        if _order(program) == first and _order(program, counted) != met:
            raise InvalidArgumentError(
                f"In {program.program.name}, replica 0 and replica {rank} of a worker read what they have counted in the step (variables "
                "with synchronization ON_READ and aggregation SUM, as metrics have) in different places. With "
                f"devices_per_worker={len(programs)} it is added up there for all of them: let each of them read the same, or read it "
                "across the replicas, outside strategy.run."
            )
        if _order(program) != first:
            raise InvalidArgumentError(
                f"In {program.program.name}, replica 0 and replica {rank} of a worker change different variables, or in another order. An "
                "update is sent once for all replicas of a worker: let each of them make the same assignments, whichever replica it is."
            )


def _order(linked: LinkedProgram, counted: CountedReads = frozenset()) -> list[Hashable]:
    """What replicas come to together: the groups of each update, and nothing for each collective, in order; reads, if some are counted."""
    order: list[Hashable] = []
    for op in linked.operations:
        if isinstance(op, LinkedCollective):
            order.append(())
        elif isinstance(op, ApplyAll) and not op.of_each:
            order.append(tuple([part.group for part in op.parts]))
        elif counted and (isinstance(op, ReadWithRows) or op in counted):
            order.append(("rows" if isinstance(op, ReadWithRows) else "counted", dense_read(op) in counted))
    return order


class ReadOrder:
    """How far one replica is in a step: which of its reads and updates are those of the others."""

    def __init__(self) -> None:
        self._num_updates = 0
        self._num_reads: dict[tuple[int, ...], int] = {}

    def read(self, groups: tuple[int, ...]) -> Hashable:
        """The key of the next read of these groups: equal for the replicas that get one answer.

        Example:
            >>> one, other = ReadOrder(), ReadOrder()
            >>> one.read((0, 1)) == other.read((0, 1)), one.update(), one.read((0, 1)) == other.read((0, 1))
            (True, 0, False)
        """
        count = self._num_reads[groups] = self._num_reads.get(groups, -1) + 1
        return self._num_updates, groups, count

    def update(self) -> int:
        """The number of the next update, counted from 0."""
        number, self._num_updates = self._num_updates, self._num_updates + 1
        self._num_reads.clear()
        return number
