"""Batches that came with a step as arrays: what its program takes them from on a host."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from simdist.program.arrays import HostArray
from simdist.program.step_iterator import BatchSignature, StepBatch

__all__ = ["SentBatch", "SentBatches"]


class SentBatch:
    """One batch of b rows, as `StepBatch`: arrays of shape [b, ...], without a table, and without the structure that the driver keeps."""

    table = rows = structure = global_rows = None

    def __init__(self, arrays: tuple[HostArray, ...]) -> None:
        self._arrays = arrays

    @property
    def signature(self) -> BatchSignature:
        return None, tuple([(array.shape, str(array.dtype)) for array in self._arrays])

    @property
    def num_rows(self) -> int:
        return len(self._arrays[0])

    def leaves(self) -> tuple[HostArray, ...]:
        return self._arrays


class SentBatches:
    """The batches that one iterator gives in one step, as `StepIterator`."""

    def __init__(self, batches: Iterable[tuple[HostArray, ...]]) -> None:
        self._left = deque(map(SentBatch, batches))

    def next_batch(self) -> StepBatch:
        if not self._left:
            raise StopIteration
        return self._left.popleft()

    def peek(self, i: int = 0, /) -> StepBatch:
        if i >= len(self._left):
            raise StopIteration
        return self._left[i]

    def next_is(self, signature: BatchSignature, /) -> bool:
        return bool(self._left) and self._left[0].signature == signature
