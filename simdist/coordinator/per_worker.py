"""Per-worker values: one dataset, iterator or resource on each worker, made there, and made again when it comes back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from simdist.data import Dataset
from simdist.data.iterator import DatasetIterator
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.input import InputContext
from simdist.runtime.work import Worker
from simdist.strategies.base import DistributedFromFunction

__all__ = ["PerWorker", "PerWorkerDataset", "PerWorkerIterator", "PerWorkerResource"]

T = TypeVar("T")
_numbers = itertools.count()


class PerWorker(Generic[T]):
    """Something that each worker makes for itself when it first needs it."""

    def __init__(self) -> None:
        self.number = next(_numbers)

    def make(self, worker: Worker, context: InputContext) -> T:
        """Make this worker's own."""
        raise FailedPreconditionError(f"{type(self).__name__} cannot be made on {worker.name}.")

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> T:
        """This worker's own; made now if this incarnation has none."""
        if self.number not in worker.local:
            worker.local[self.number] = self.make(worker, context_of(worker))
        return worker.local[self.number]


class PerWorkerDataset(PerWorker[Dataset]):
    """A dataset on each worker. ``iter()`` gives an iterator on each worker.

    Args:
        source: the dataset, or a function that makes it; or one that was distributed from a function.
    """

    def __init__(self, source: Dataset | DistributedFromFunction | Callable[[], object]) -> None:
        super().__init__()
        self.source = source

    def make(self, worker: Worker, context: InputContext) -> Dataset:
        made = self.source if isinstance(self.source, (Dataset, DistributedFromFunction)) else self.source()
        if isinstance(made, DistributedFromFunction):
            made = made.dataset_fn(context)
        if not isinstance(made, Dataset):
            raise InvalidArgumentError(f"A per-worker dataset must be an sd.Dataset; the function returned {type(made).__name__}.")
        return made

    def __iter__(self) -> PerWorkerIterator:
        return PerWorkerIterator(self)


class PerWorkerIterator(PerWorker[DatasetIterator]):
    """An iterator on each worker; pass it to a step, and call ``next`` there."""

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__()
        self.dataset = dataset

    def make(self, worker: Worker, context: InputContext) -> DatasetIterator:
        return iter(self.dataset.on(worker, lambda _: context))

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> NoReturn:
        raise FailedPreconditionError(
            "next() was called on a per-worker iterator at the coordinator, but its elements live on the workers. Pass the iterator "
            "to a step: coordinator.schedule(step_fn, args=(iterator,)), and call next(iterator) in step_fn."
        )


class PerWorkerResource(PerWorker[object]):
    """What a function makes on each worker."""

    def __init__(self, fn: Callable[[], object]) -> None:
        super().__init__()
        self.fn = fn

    def make(self, worker: Worker, context: InputContext) -> object:
        return self.fn()
