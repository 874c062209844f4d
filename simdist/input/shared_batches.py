"""Steps of one source that all workers share: each global batch is cut into a part for every replica.

Replica by replica the parts are dealt out to the workers: of W workers, worker w gets parts w, w + W, w + 2W, and so on.

Invariant: the view of one worker gives exactly the parts that the view of all workers gives to it.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise

from simdist.caches import bounded
from simdist.data.iterator import DatasetIterator
from simdist.data.positions import Position
from simdist.input.positions import sources_in
from simdist.input.rebatch import replica_batch_sizes
from simdist.input.steps import InputIterator, InputStep

__all__ = ["SharedBatches"]


class SharedBatches(InputIterator):
    """Global batches, cut into one part for each replica of all workers.

    Args:
        batches: the global batches.
        num_workers: workers of the cluster.
        replicas_per_worker: replicas of each.
        workers: those whose parts are wanted.
        even: False cuts parts of the rounded-up size until the rows run out.
        on_restore: called with a position to which this iterator was moved.
    """

    def __init__(
        self,
        batches: DatasetIterator,
        num_workers: int,
        replicas_per_worker: int,
        workers: range,
        *,
        even: bool = True,
        on_restore: Callable[[Position], None] | None = None,
    ) -> None:
        super().__init__(on_restore)
        self.batches = batches
        self.num_workers, self.num_replicas, self.workers = num_workers, num_workers * replicas_per_worker, workers
        self.even = even

    def read_step(self) -> InputStep:
        batch = self.batches.next_batch().require_batched()
        while not batch.num_rows:
            batch = self.batches.next_batch().require_batched()
        bounds, sizes = cuts(batch.num_rows, self.num_workers, self.num_replicas, self.even)
        return InputStep(tuple([tuple([batch.part(*bound) for bound in bounds[worker]]) for worker in self.workers]), sizes)

    def read_position(self) -> Position:
        return {"sources": [self.batches.state_dict()]}

    def move_to(self, position: Position, follows: bool) -> None:
        (source,) = sources_in(position, 1)
        (self.batches.load_state_dict if follows else self.batches.go_to)(source)


@bounded("cuts of batches", size=64)
def cuts(num_rows: int, num_workers: int, num_replicas: int, even: bool) -> tuple[list[list[tuple[int, int]]], tuple[tuple[int, ...], ...]]:
    """First and last row of each part, and its size, by worker w and replica r; kept, since most batches are of one size."""
    sizes = replica_batch_sizes(num_rows, num_replicas, static=even)
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    of_worker = [slice(worker, None, num_workers) for worker in range(num_workers)]
    return [bounds[parts] for parts in of_worker], tuple([sizes[parts] for parts in of_worker])
