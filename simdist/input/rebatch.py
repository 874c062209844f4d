"""How the b rows of a global batch are shared among r replicas of w workers, and the batches of one worker cut that way.

Where the batch size is known beforehand the parts are as equal as can be, the larger ones first. Where only the batch
itself tells, the older rule holds: parts of the rounded-up size until the rows run out.

Invariant: peeking changes no position.

Taught in lesson 08.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from simdist.arguments import whole_number
from simdist.data.batch import Batch
from simdist.data.iterator import DatasetIterator
from simdist.data.positions import Position
from simdist.errors import InvalidArgumentError
from simdist.input.positions import part_in

__all__ = ["Rebatched", "replica_batch_sizes", "worker_batch_sizes"]


def replica_batch_sizes(batch_size: int, num_replicas: int, *, static: bool = True) -> tuple[int, ...]:
    """Rows of one batch for each replica.

    Args:
        batch_size: rows of the batch, 0 or more.
        num_replicas: parts to make, 1 or more.
        static: False where the batch size is not known beforehand (the pipeline maps after batching, say).

    Returns:
        One size per replica; they add up to `batch_size`.

    Example:
        >>> replica_batch_sizes(5, 3), replica_batch_sizes(1, 2), replica_batch_sizes(5, 4, static=False)
        ((2, 2, 1), (1, 0), (2, 2, 1, 0))
    """
    rows = whole_number(batch_size, "batch_size", 0)
    parts = whole_number(num_replicas, "num_replicas", 1)
    if static:
        size, rest = divmod(rows, parts)
        return tuple(size + (replica < rest) for replica in range(parts))
    size = -(-rows // parts)
    return tuple(max(0, min(size, rows - replica * size)) for replica in range(parts))


def worker_batch_sizes(global_batch_size: int, num_workers: int, num_replicas_per_worker: int, worker_index: int) -> tuple[int, ...]:
    """Sizes that one worker's batches run through, over and over, when it reads a data source of its own.

    At each step the parts of all workers make one global batch, and over a whole round each worker has read exactly
    one global batch: worker w begins the round w workers later.

    Args:
        global_batch_size: rows of one step over all replicas.
        num_workers: workers, each with a source of its own.
        num_replicas_per_worker: replicas of each.
        worker_index: which worker, from 0.

    Returns:
        One size per replica of the whole cluster.

    Raises:
        InvalidArgumentError: there is no such worker.

    Example:
        >>> [worker_batch_sizes(4, 3, 1, worker) for worker in range(3)]
        [(2, 1, 1), (1, 1, 2), (1, 2, 1)]
    """
    whole_number(num_workers, "num_workers", 1)
    if whole_number(worker_index, "worker_index", 0) >= num_workers:
        raise InvalidArgumentError(f"worker_index is {worker_index} of {num_workers}; expected 0 to {num_workers - 1}")
    sizes = replica_batch_sizes(global_batch_size, num_workers * num_replicas_per_worker)
    start = worker_index * num_replicas_per_worker
    return sizes[start:] + sizes[:start]


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a batch, and where it was cut.

    Args:
        part: b rows, which may be 0.
        index: which part of its batch this is, from 0.
        step: steps of the worker before that batch.
        finishes: batches of the source that nobody needs any more when this part was taken.
    """

    part: Batch
    index: int
    step: int
    finishes: int


class Rebatched:
    """The global batches that one worker reads for itself, cut into the sizes of `worker_batch_sizes`, part after part.

    A batch serves W steps of W workers, and the parts of all workers make one global batch at each step. A batch boundary ends
    a step: short batches stay short. Each step has a part for every replica, perhaps without rows.

    Args:
        batches: the worker's dataset.
        batch_size: rows of a full batch; None takes those of the first batch.
        num_workers: workers of the cluster.
        replicas_per_worker: replicas of each.
        worker_index: which of them this one is.

    Example:
        >>> from simdist.data import Dataset
        >>> parts = Rebatched(iter(Dataset.range(5).batch(3)), None, num_workers=2, replicas_per_worker=1, worker_index=0)
        >>> [parts.next_batch().value().tolist() for _ in range(3)]
        [[0, 1], [2], [3, 4]]
    """

    def __init__(
        self, batches: DatasetIterator, batch_size: int | None, num_workers: int, replicas_per_worker: int, worker_index: int
    ) -> None:
        self.batches, self.batch_size = batches, batch_size
        self.num_workers, self.replicas_per_worker, self.worker_index = num_workers, replicas_per_worker, worker_index
        self._sizes: tuple[int, ...] = ()  # of a whole round of W steps, once the batch size is known
        self._queue: deque[Cut] = deque()
        self._ahead = 0  # batches that were cut, or had no rows, and of which a part is still to be taken
        self._step = 0  # steps of the batches that were cut
        self._skip = 0  # parts of the next batch that were taken before a position was restored

    def next_batch(self) -> Batch:
        """The next part.

        Raises:
            StopIteration: there is none left.
        """
        self.peek()
        cut = self._queue.popleft()
        for _ in range(cut.finishes):
            self.batches.next_batch()
        self._ahead -= cut.finishes
        return cut.part

    def peek(self, i: int = 0) -> Batch:
        """The part that the next call but `i` of `next_batch` will give; nothing is consumed.

        Raises:
            StopIteration: there are not so many left.
        """
        while len(self._queue) <= i:
            self._cut_batch()
        return self._queue[i].part

    def element(self) -> int:
        """What tells the batch of the next part from those before it; a short one lasts for fewer steps."""
        self.peek()
        return self._queue[0].step

    def _cut_batch(self) -> None:
        """Put the parts of one more batch into the queue; batches without rows are passed over."""
        batch, passed = self.batches.peek(self._ahead).require_batched(), 1
        while not batch.num_rows:
            batch, passed = self.batches.peek(self._ahead + passed).require_batched(), passed + 1
        begun, bounds = self._step, self._bounds(batch.num_rows)
        if self._skip >= len(bounds):
            raise InvalidArgumentError(
                f"the saved position is after {self._skip} parts of a batch that is cut into {len(bounds)}; "
                "expected the dataset that the position was saved from"
            )
        last = len(bounds) - 1
        self._queue.extend(Cut(batch.part(*bounds[n]), n, begun, passed if n == last else 0) for n in range(self._skip, len(bounds)))
        self._ahead += passed
        self._skip = 0

    def _bounds(self, num_rows: int) -> list[tuple[int, int]]:
        """First and last row of each part of a batch, in the steps that it serves."""
        if not self._sizes:
            self.batch_size = self.batch_size or num_rows
            self._sizes = worker_batch_sizes(self.batch_size, self.num_workers, self.replicas_per_worker, self.worker_index)
        ends = [0]
        while ends[-1] < num_rows:
            first = self._step % self.num_workers * self.replicas_per_worker
            for size in self._sizes[first : first + self.replicas_per_worker]:
                ends.append(min(ends[-1] + size, num_rows))
            self._step += 1
        return list(pairwise(ends))

    def state_dict(self) -> Position:
        """The position, as plain numbers: that of the batches, and the parts taken of the present one."""
        part, step = (self._queue[0].index, self._queue[0].step) if self._queue else (self._skip, self._step)
        return {**self.batches.state_dict(), "part": part, "step": step, "batch_size": self.batch_size}

    def load_state_dict(self, state: Position) -> None:
        """Go to a saved position of an equal source.

        Raises:
            InvalidArgumentError: the state belongs to another source.
        """
        self._begin_at(state, self.batches.load_state_dict)

    def go_to(self, state: Position) -> None:
        """As `load_state_dict`, for an iterator beside others."""
        self._begin_at(state, self.batches.go_to)

    def _begin_at(self, state: Position, move: Callable[[Position], None]) -> None:
        part, step, batch_size = part_in(state)
        move(state)
        self.batch_size, self._sizes = batch_size, ()
        self._queue.clear()
        self._ahead, self._step, self._skip = 0, step, part
