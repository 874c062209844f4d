"""Iterators from which several replicas take: each has a view of its own, and gets the same batches, or parts of them.

Invariant: a batch is used up when the last replica has taken it, so a replica may be ahead of the others in the middle of a step.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise

from simdist.data.batch import Batch
from simdist.input.rebatch import replica_batch_sizes
from simdist.input.replica_batch import ReplicaBatch
from simdist.program.per_replica import ReplicaArgument
from simdist.program.step_iterator import BatchSignature, StepBatch, StepIterator

__all__ = ["CommonIterator", "ReplicaFeed", "SplitBatches"]


class ReplicaFeed(ABC):
    """An iterator argument of a step of several replicas."""

    @property
    def source(self) -> object:
        """The iterator that gives the batches."""
        return self

    @abstractmethod
    def replica(self, local_rank: int) -> StepIterator:
        """What one replica takes of it, counted from 0 among those that this program feeds."""

    @abstractmethod
    def align(self) -> None:
        """Let all replicas stand where the first of them is: some may have been stopped in the middle of a step."""

    @abstractmethod
    def rewind(self) -> None:
        """Let all replicas stand where the last of them is: they take what some have taken once more."""


class CommonIterator(ReplicaFeed):
    """An iterator whose batches all replicas take, whole.

    Args:
        source: gives the batches.
        count: replicas.

    Example:
        >>> from simdist.data import Dataset
        >>> common = CommonIterator(iter(Dataset.range(4).batch(2)), 2)
        >>> [common.replica(rank).next_batch().leaves()[0].tolist() for rank in (0, 1, 0)]
        [[0, 1], [0, 1], [2, 3]]
    """

    def __init__(self, source: StepIterator, count: int) -> None:
        self._source = source
        self._first = 0  # the number of the batch that the source gives next
        self._views = [_View(self) for _ in range(count)]

    @property
    def source(self) -> StepIterator:
        return self._source

    def replica(self, local_rank: int) -> StepIterator:
        return self._views[local_rank]

    def align(self) -> None:
        last = max(view.number for view in self._views)
        for view in self._views:
            view.number = last
        self.use_up()

    def rewind(self) -> None:
        for view in self._views:
            view.number = self._first

    def batch(self, number: int) -> StepBatch:
        """A batch by its number, counted from 0.

        Raises:
            StopIteration: there are not so many.
        """
        return self.source.peek(number - self._first)

    def is_next(self, number: int, signature: BatchSignature) -> bool:
        """Whether this batch is there already, and has this signature."""
        return number == self._first and self.source.next_is(signature)

    def use_up(self) -> None:
        """Take from the source what all replicas have taken."""
        for _ in range(min(view.number for view in self._views) - self._first):
            self.source.next_batch()
            self._first += 1


class _View(StepIterator):
    """What one replica takes of a `CommonIterator`."""

    def __init__(self, common: CommonIterator) -> None:
        self.common = common
        self.number = 0

    def next_batch(self) -> StepBatch:
        batch = self.common.batch(self.number)
        self.number += 1
        self.common.use_up()
        return batch

    def peek(self, i: int = 0) -> StepBatch:
        return self.common.batch(self.number + i)

    def next_is(self, signature: BatchSignature) -> bool:
        return self.common.is_next(self.number, signature)


class SplitBatches(ReplicaArgument, ReplicaFeed):
    """Batches that are there already, each cut into a part for every replica, as equal as can be.

    Args:
        batches: [b, ...] each.
        count: replicas.

    Example:
        >>> from simdist.data import Dataset
        >>> split = SplitBatches([iter(Dataset.range(5).batch(5)).next_batch()], 2)
        >>> [split.replica(rank).next_batch().leaves()[0].tolist() for rank in range(2)]
        [[0, 1, 2], [3, 4]]
    """

    def __init__(self, batches: Sequence[Batch], count: int) -> None:
        self._replicas = [_Parts() for _ in range(count)]
        self.begin(batches)

    def begin(self, batches: Sequence[Batch]) -> None:
        """Begin with other batches."""
        for replica in self._replicas:
            replica.parts.clear()
        for batch in batches:
            rows = batch.require_batched().num_rows
            bounds = pairwise(accumulate(replica_batch_sizes(rows, len(self._replicas)), initial=0))
            for replica, bound in zip(self._replicas, bounds, strict=True):
                replica.parts.append(ReplicaBatch(batch.part(*bound), rows))

    def replica(self, local_rank: int) -> StepIterator:
        return self._replicas[local_rank]

    def align(self) -> None:
        """Nothing: each call begins with batches of its own."""

    rewind = align


class _Parts(StepIterator):
    """What one replica takes of `SplitBatches`."""

    def __init__(self) -> None:
        self.parts: deque[ReplicaBatch] = deque()

    def next_batch(self) -> ReplicaBatch:
        if not self.parts:
            raise StopIteration
        return self.parts.popleft()

    def peek(self, i: int = 0) -> ReplicaBatch:
        if i >= len(self.parts):
            raise StopIteration
        return self.parts[i]

    def next_is(self, signature: BatchSignature) -> bool:
        return bool(self.parts) and self.parts[0].signature == signature
