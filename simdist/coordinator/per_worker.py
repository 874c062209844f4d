"""Per-worker values: one dataset, iterator or resource on each worker, made there, and made again when it comes back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from simdist.data import Dataset
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.input import InputContext
from simdist.runtime.work import Worker
from simdist.strategies.base import DistributedFromFunction

__all__ = ["PerWorker", "PerWorkerDataset", "PerWorkerIterator", "PerWorkerResource"]

_numbers = itertools.count()


class PerWorker:
    """Something that each worker makes for itself when it first needs it."""

    def __init__(self) -> None:
        self.number = next(_numbers)

    def make(self, worker: Worker, context: InputContext) -> Any:
        """Make this worker's own."""
        raise FailedPreconditionError(f"{type(self).__name__} cannot be made on {worker.name}.")

    def on(self, worker: Worker, context_of: Callable[[Worker], InputContext]) -> Any:
        """This worker's own; made now if this incarnation has none."""
        if self.number not in worker.local:
            worker.local[self.number] = self.make(worker, context_of(worker))
        return worker.local[self.number]


class PerWorkerDataset(PerWorker):
    """A dataset on each worker. ``iter()`` gives an iterator on each worker."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source = source

    def make(self, worker: Worker, context: InputContext) -> Any:
        made = self.source() if callable(self.source) and not isinstance(self.source, Dataset) else self.source
        if isinstance(made, DistributedFromFunction):
            made = made.dataset_fn(context)
        if not isinstance(made, Dataset):
            raise InvalidArgumentError(f"A per-worker dataset must be an sd.Dataset; the function returned {type(made).__name__}.")
        return made

    def __iter__(self) -> PerWorkerIterator:
        return PerWorkerIterator(self)


class PerWorkerIterator(PerWorker):
    """An iterator on each worker; pass it to a step, and call ``next`` there."""

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__()
        self.dataset = dataset

    def make(self, worker: Worker, context: InputContext) -> Any:
        return iter(self.dataset.on(worker, lambda _: context))

    def __iter__(self) -> PerWorkerIterator:
        return self

    def __next__(self) -> Any:
        raise FailedPreconditionError(
            "next() was called on a per-worker iterator at the coordinator, but its elements live on the workers. Pass the iterator "
            "to a step: coordinator.schedule(step_fn, args=(iterator,)), and call next(iterator) in step_fn."
        )


class PerWorkerResource(PerWorker):
    """What a function makes on each worker."""

    def __init__(self, fn: Callable[[], Any]) -> None:
        super().__init__()
        self.fn = fn

    def make(self, worker: Worker, context: InputContext) -> Any:
        return self.fn()
