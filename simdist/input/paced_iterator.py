"""The batches of a dataset for one replica alone, which waits for them as replicas wait for those of a distributed dataset.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.data import Dataset
from simdist.data.batch import Batch
from simdist.input.prefetch import PrefetchBuffer
from simdist.program.step_iterator import BatchSignature, StepIterator, TimedIterator

__all__ = ["PacedIterator"]


class PacedIterator(StepIterator, TimedIterator):
    """One pass over a dataset by one replica. Its pipeline keeps one element ready, or as many as the dataset prefetches.

    Args:
        dataset: of batches.
        began_s: when the pipeline starts.

    Example:
        >>> from simdist.data import Options
        >>> options = Options()
        >>> options.seconds_per_element = 2.0
        >>> batches = PacedIterator(Dataset.range(4).batch(2).with_options(options), began_s=1.0)
        >>> batches.ready_s(1.5), batches.next_batch().num_rows, batches.ready_s(4.0)
        (3.0, 2, 5.0)
    """

    def __init__(self, dataset: Dataset, began_s: float) -> None:
        self._batches = iter(dataset)
        self._prefetched = PrefetchBuffer(dataset.options().seconds_per_element, max(1, dataset.prefetched), began_s)
        self._number = 0

    def next_batch(self) -> Batch:
        """The next batch.

        Raises:
            StopIteration: there is none left.
        """
        batch = self._batches.next_batch()
        self._number += 1
        return batch

    def peek(self, i: int = 0) -> Batch:
        """The next batch but `i`.

        Raises:
            StopIteration: there are not so many left.
        """
        return self._batches.peek(i)

    def next_is(self, signature: BatchSignature) -> bool:
        """Whether the next batch is there already, and has this signature."""
        return self._batches.next_is(signature)

    def ready_s(self, now_s: float) -> float:
        """When the next batch, wanted now, is there."""
        return self._prefetched.ready_s(self._number, now_s)
