"""Distributed datasets: each element is split among the replicas, or comes from a pipeline for each worker.

Taught in lesson 02.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import jax

from simdist.data import Batch, Dataset, replica_batch_sizes
from simdist.program.per_replica import PerReplica

__all__ = ["DistributedDataset", "DistributedIterator"]


class Part:
    """A replica's part of a batch, and how many rows the whole has."""

    __slots__ = ("batch", "global_rows", "signature")

    def __init__(self, batch: Batch, global_rows: int) -> None:
        self.batch = batch
        self.global_rows = global_rows
        self.signature = (*batch.signature, global_rows)

    @property
    def table(self) -> Any:
        return self.batch.table

    @property
    def rows(self) -> Any:
        return self.batch.rows

    @property
    def structure(self) -> Any:
        return self.batch.structure

    @property
    def num_rows(self) -> int:
        return self.batch.num_rows

    def leaves(self) -> tuple[Any, ...]:
        """The arrays."""
        return tuple(self.batch.leaves())


class DistributedDataset:
    """What `strategy.distribute_dataset` returns."""

    def __init__(self, strategy: Any, source: Any, options: Any = None) -> None:
        self.strategy = strategy
        self.source = source if isinstance(source, Dataset) else Dataset.from_iterable(source)
        self.options = options

    def __iter__(self) -> DistributedIterator:
        return DistributedIterator(self.strategy, iter(self.source))


class DistributedIterator:
    """One pass over a distributed dataset."""

    is_per_replica = True

    def __init__(self, strategy: Any, iterator: Any) -> None:
        self.strategy = strategy
        self.iterator = iterator
        self.num_replicas = strategy.num_replicas_in_sync
        self.parts: deque[list[Part]] = deque()
        self.first = 0  # the number of the element at the left end of `parts`
        self.views = [View(self, place) for place in range(len(strategy.ranks))]

    def view(self, place: int) -> View:
        """The elements' parts of one replica."""
        return self.views[place]

    def next_batch(self) -> Any:
        """For arguments of steps only: marks this as an iterator."""
        raise TypeError("a distributed iterator is taken replica by replica")

    def element(self, number: int) -> list[Part]:
        """The parts of an element, by its number."""
        while len(self.parts) <= number - self.first:
            batch = self.iterator.next_batch()
            sizes = replica_batch_sizes(batch.num_rows, self.num_replicas)
            self.parts.append([Part(part, batch.num_rows) for part in batch.split(sizes)])
        return self.parts[number - self.first]

    def has_next(self) -> bool:
        """Whether there is an element that not all replicas have taken."""
        try:
            self.views[0].peek(0)
        except StopIteration:
            return False
        return True

    def sample(self) -> Any:
        """A part of the next element that has rows, to build a model with."""
        parts = self.element(self.views[0].number)
        return max(parts, key=lambda part: part.num_rows).batch

    def forget(self) -> None:
        """Drop the elements that all replicas have taken."""
        oldest = min(view.number for view in self.views)
        while self.first < oldest:
            self.parts.popleft()
            self.first += 1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        parts = [view.next_batch() for view in self.views]
        if len(parts) == 1:
            return parts[0].batch.value()
        leaves = [PerReplica(leaf) for leaf in zip(*(part.leaves() for part in parts), strict=True)]
        return jax.tree_util.tree_unflatten(parts[0].structure, leaves)

    get_next = __next__


class View:
    """What one replica takes of a distributed iterator."""

    def __init__(self, iterator: DistributedIterator, place: int) -> None:
        self.iterator = iterator
        self.place = place
        self.number = 0

    def next_batch(self) -> Part:
        """This replica's part of the next element."""
        part = self.peek(0)
        self.number += 1
        if self.place == len(self.iterator.views) - 1:
            self.iterator.forget()
        return part

    def peek(self, i: int = 0) -> Part:
        """This replica's part of the next element but `i`."""
        return self.iterator.element(self.number + i)[self.iterator.strategy.ranks.start + self.place]

    def next_is(self, signature: Any) -> bool:
        """Whether the next part has this signature, where that can be told at once."""
        known = self.number - self.iterator.first < len(self.iterator.parts)
        return known and self.peek(0).signature == signature
