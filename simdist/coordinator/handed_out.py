"""Batches that a coordinator hands out by their number: each is in one closure, and in the same one when that is run again.

Every worker can read the whole dataset, and a closure says which of its batches to take; so an epoch visits each example once, whichever
workers there are and whichever of them die. What travels is the numbers. A dataset whose order only one reader can know (an unseeded
generator) is read by the coordinator.

Not simulated: the time that a worker takes to find a batch in the middle of its dataset; where the coordinator reads, the way of the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from simdist.coordinator.per_worker import PerWorker
from simdist.coordinator.table_copies import bring_tables
from simdist.data.batch import Batch
from simdist.data.iterator import DatasetIterator
from simdist.errors import FailedPreconditionError
from simdist.input import InputContext
from simdist.input.replica_feed import SplitBatches
from simdist.program.step_iterator import BatchSignature, StepBatch, StepIterator
from simdist.runtime.work import Worker

__all__ = ["BatchesOfClosure", "HandedOut", "NumberedBatches"]


class BatchesOfClosure(StepIterator):
    """The batches that a closure takes, on the worker that runs it."""

    def __init__(self) -> None:
        self.batches: deque[StepBatch] = deque()

    def begin(self, batches: Sequence[StepBatch]) -> None:
        """Begin with other batches."""
        self.batches = deque(batches)

    def next_batch(self) -> StepBatch:
        if not self.batches:
            raise StopIteration
        return self.batches.popleft()

    def peek(self, i: int = 0) -> StepBatch:
        if i >= len(self.batches):
            raise StopIteration
        return self.batches[i]

    def next_is(self, signature: BatchSignature) -> bool:
        return bool(self.batches) and self.batches[0].signature == signature


Batches = BatchesOfClosure | SplitBatches


class HandedOut(PerWorker[Batches]):
    """The iterator argument of closures that take batches by number. Where workers have several replicas, each takes a part of each batch.

    Args:
        whole: whether each replica takes the whole batch instead; default False.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
        >>> coordinator, handed_out = sd.ClusterCoordinator(strategy), HandedOut()
        >>> batches = iter(sd.Dataset.range(6).batch(2))
        >>> step = sd.function(lambda iterator: next(iterator).sum())
        >>> sums = [coordinator.schedule(step, (handed_out.batches([batches.next_batch()]),)) for _ in range(3)]
        >>> [int(total) for total in coordinator.fetch(sums)]
        [1, 5, 9]
    """

    name = "batches"

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole

    def batches(self, batches: Iterable[Batch]) -> NumberedBatches:
        """The argument of a closure that takes these."""
        return NumberedBatches(self, tuple(batches))

    def next_batches(self, iterator: DatasetIterator, count: int) -> tuple[NumberedBatches, int]:
        """The argument of a closure that takes the next `count` batches, and how many there are: fewer where the data end."""
        batches: list[Batch] = []
        for _ in range(count):
            try:
                batches.append(iterator.next_batch())
            except StopIteration:
                break
        return self.batches(batches), len(batches)

    def make(self, worker: Worker, context: InputContext) -> Batches:
        bring_tables(worker)
        replicas = context.num_replicas_in_sync
        return BatchesOfClosure() if replicas == 1 or self.whole else SplitBatches([], replicas)


class NumberedBatches(PerWorker[Batches]):
    """Some batches: the argument of one closure."""

    def __init__(self, handed_out: HandedOut, batches: tuple[Batch, ...]) -> None:
        self.number = handed_out.number  # calls with other batches are equal, but for the batches
        self.handed_out = handed_out
        self.taken = batches

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> Batches:
        found = self.handed_out.on(worker, context_of)
        found.begin(self.taken)
        return found

    def put_in_place(self, worker: Worker) -> None:
        """Let the worker begin with the first of these: it has made its iterator in an earlier closure."""
        found: Batches = worker.local[self.number]
        found.begin(self.taken)

    def __next__(self) -> NoReturn:
        raise FailedPreconditionError("next() was called at the coordinator on batches of a closure. Call it in the step.")
