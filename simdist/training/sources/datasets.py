"""Datasets as sources: `sd.Dataset`, functions that make datasets, and what a strategy has distributed.

Evaluation and prediction read what was distributed as the one pipeline that it was made of, so that the metrics are those of
the plain dataset.
"""

from __future__ import annotations

from typing import Self, cast

from simdist.data import Dataset
from simdist.data.caching import reads_once
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedInput, FunctionInput, InputContext
from simdist.strategies.base import Strategy
from simdist.strategies.distributed_from_function import DistributedFromFunction
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.keras_model import Examples
from simdist.training.sources.base import ENDLESS, BatchedData, Given, Source
from simdist.training.sources.batches import checked_classes, weighted_by_class
from simdist.training.sources.refusals import require_alone

__all__ = ["DatasetSource"]


class DatasetSource(Source):
    """A dataset that is batched already, or a function that makes such datasets."""

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        return isinstance(x, (Dataset, DatasetCreator, DistributedFromFunction, DistributedDataset))

    @classmethod
    def of(cls, given: Given) -> Self:
        """The dataset as it is to train; the plain one to evaluate or predict.

        Raises:
            InvalidArgumentError: options beside it, other than class_weight for a plain dataset; another strategy distributed it; a
                function without `steps`.
        """
        require_alone(given, cls.kind, class_weight=True)
        if given.strategy is None:
            return cls(_plain(given.caller, given.x, given.steps))
        _require_same_strategy(given.strategy, given.x)
        whole = given.x.dataset if isinstance(given.x, DistributedFromFunction) else None
        return cls(_weighted(given.x if whole is None else whole, checked_classes(given.class_weight)))

    @property
    def can_restart(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """False where an iterator is at its beginning, such as a generator that was called already."""
        data = self.data
        if isinstance(data, DistributedDataset) and isinstance(data.input, DistributedInput):
            data = data.input.dataset
        return not isinstance(data, Dataset) or not reads_once(data.node)

    def cardinality(self) -> int:
        data = self.data
        if isinstance(data, DistributedDataset) and isinstance(data.input, FunctionInput) and _never_ends(data.input):
            return ENDLESS
        return super().cardinality()


def _require_same_strategy(strategy: Strategy, x: BatchedData) -> None:
    """What was distributed must have been distributed by the model's strategy."""
    coordinated = isinstance(strategy, ParameterServerStrategy)
    other = x.strategy is not strategy if isinstance(x, DistributedDataset) else isinstance(x, DistributedFromFunction) and not coordinated
    if other:
        raise InvalidArgumentError(
            f"fit was given a dataset that another strategy distributed; the model belongs to {strategy!r}. "
            "Distribute it with that one, or pass the plain dataset."
        )


def _weighted(data: BatchedData, class_weight: dict[int, float] | None) -> BatchedData:
    """A dataset whose batches have the weights of their classes."""
    if class_weight is None:
        return data
    if not isinstance(data, Dataset):
        raise InvalidArgumentError(
            "fit: class_weight was given together with a dataset that is distributed already. Pass the plain dataset, or make the weights "
            "a third component of its batches: (x, y, weight)."
        )
    return data.map(lambda *batch: weighted_by_class(batch, class_weight), pure=True)


def _plain(caller: str, x: BatchedData, steps: int | None) -> Dataset:
    """The dataset that was distributed; of a function, what it makes for a single pipeline and a single replica."""
    if isinstance(x, DistributedDataset):
        shared = x.input
        x = shared.dataset if isinstance(shared, DistributedInput) else cast(FunctionInput, shared).creator
    x = x.dataset if isinstance(x, DistributedFromFunction) and x.dataset is not None else x
    if isinstance(x, Dataset):
        return x
    if steps is None:
        raise InvalidArgumentError(f"{caller}: steps is missing: a function that makes datasets does not say where they end. Pass steps=.")
    made = (x.dataset_fn if isinstance(x, DistributedFromFunction) else x)(InputContext())
    return made if isinstance(made, Dataset) else Dataset.from_iterable(made)


def _never_ends(shared: FunctionInput) -> bool:
    """Whether a function made datasets without an end."""
    return any(
        shared.pipeline(worker * shared.per_worker + at).cardinality() == ENDLESS
        for worker in shared.workers
        for at in range(shared.per_worker)
    )
