"""What one worker reads for itself, step by step: batches that are cut for its replicas, or elements that nobody cuts.

A worker with a dataset of its own reads whole global batches from it. So a batch serves W steps of W workers, and the
parts of all workers make one global batch at each step. A batch boundary ends a step: short batches stay short.

Invariant: `parts` consumes nothing; `consume` passes what `parts` told last.

Taught in lesson 08.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from simdist.data.batch import Batch
from simdist.data.iterator import DatasetIterator
from simdist.data.rebatch import worker_batch_sizes
from simdist.errors import InvalidArgumentError

__all__ = ["OwnSource", "SplitSource", "WholeSource"]


class OwnSource(ABC):
    """The parts of one worker's replicas."""

    @abstractmethod
    def parts(self, step: int) -> list[Batch | None]:
        """The next part of each replica, None where there is nothing left for it; nothing is consumed."""

    @abstractmethod
    def consume(self) -> None:
        """Go on behind the parts that `parts` told last."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The position, as plain numbers."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go to a position that `state` told."""


class SplitSource(OwnSource):
    """Batches that are cut into the sizes of `worker_batch_sizes`.

    Args:
        batches: the worker's dataset.
        batch_size: rows of a full batch; None takes those of the first batch.
        num_workers: workers of the cluster.
        replicas_per_worker: replicas of each.
        worker: which of them this one is.
    """

    def __init__(self, batches: DatasetIterator, batch_size: int | None, num_workers: int, replicas_per_worker: int, worker: int) -> None:
        self.batches, self.batch_size = batches, batch_size
        self.num_workers, self.replicas, self.worker = num_workers, replicas_per_worker, worker
        self.sizes: tuple[int, ...] = ()  # of a whole round, once the batch size is known
        self.offset = 0  # rows of the present batch that were given out
        self.told = 0  # rows that `parts` told last
        self.left = 0  # rows of the present batch before that

    def parts(self, step: int) -> list[Batch | None]:
        try:
            batch = self.present()
        except StopIteration:
            self.told = 0
            return [None] * self.replicas
        if not self.sizes:
            self.batch_size = self.batch_size or batch.num_rows
            self.sizes = worker_batch_sizes(self.batch_size, self.num_workers, self.replicas, self.worker)
        start = step % self.num_workers * self.replicas
        ends = accumulate(self.sizes[start : start + self.replicas], initial=self.offset)
        bounds = list(pairwise(min(end, batch.num_rows) for end in ends))
        self.told, self.left = bounds[-1][1] - self.offset, batch.num_rows - self.offset
        return [batch.part(*bound) for bound in bounds]

    def present(self) -> Batch:
        """The batch that is being given out; batches without rows are passed over."""
        while not (batch := self.batches.peek().require_batched()).num_rows:
            self.batches.next_batch()
        return batch

    def consume(self) -> None:
        self.offset += self.told
        if self.told and self.told == self.left:
            self.batches.next_batch()
            self.offset = 0
        self.told = 0

    def state(self) -> dict[str, Any]:
        return {**self.batches.state_dict(), "offset": self.offset, "batch_size": self.batch_size}

    def restore(self, state: dict[str, Any]) -> None:
        try:
            offset, size = int(state["offset"]), state["batch_size"]
            self.batch_size = None if size is None else int(size)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"not a saved position of cut batches: {state!r}; expected what state_dict() returned") from error
        self.batches.load_state_dict(state)
        self.offset, self.told, self.sizes = offset, 0, ()


class WholeSource(OwnSource):
    """Elements that reach their replica as they are.

    Args:
        pipelines: one that feeds all replicas in turn, or one for each replica.
        replicas: replicas of this worker.
    """

    def __init__(self, pipelines: Sequence[DatasetIterator], replicas: int) -> None:
        self.pipelines, self.replicas = pipelines, replicas
        self.told: list[DatasetIterator] = []  # whose next element `parts` told, in order

    def parts(self, step: int) -> list[Batch | None]:
        self.told, found = [], list[Batch | None]()
        for replica in range(self.replicas):
            pipeline = self.pipelines[replica % len(self.pipelines)]
            try:
                found.append(pipeline.peek(replica // len(self.pipelines)))
                self.told.append(pipeline)
            except StopIteration:
                found.append(None)
        return found

    def consume(self) -> None:
        for pipeline in self.told:
            pipeline.next_batch()
        self.told = []

    def state(self) -> dict[str, Any]:
        return {"pipelines": [pipeline.state_dict() for pipeline in self.pipelines]}

    def restore(self, state: dict[str, Any]) -> None:
        positions: Any = state.get("pipelines", [])
        if len(positions) != len(self.pipelines):
            raise InvalidArgumentError(
                f"not a saved position of {len(self.pipelines)} pipeline(s): {state!r}; expected what state_dict() returned"
            )
        for pipeline, position in zip(self.pipelines, positions, strict=True):
            pipeline.load_state_dict(position)
