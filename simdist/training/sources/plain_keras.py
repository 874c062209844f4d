"""Datasets for a model that belongs to no strategy: Keras' own loops read them through an adapter.

The order of the batches is that in which a strategy reads them: a shuffle has one order for each epoch, and the batch from which the model
is built is not read twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence

import keras
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from simdist.data import Dataset, DatasetIterator
from simdist.errors import FailedPreconditionError
from simdist.input import DatasetCreator
from simdist.program.arrays import Tree
from simdist.training.keras_model import Examples, KerasArgument, StrategyModel
from simdist.training.sources.base import Given
from simdist.training.sources.batches import standard_batch
from simdist.training.sources.choice import evaluation_source
from simdist.training.sources.datasets import DatasetSource
from simdist.training.sources.refusals import require_shuffle
from simdist.training.sources.steps import count_steps, first_batch

__all__ = ["DatasetAdapter", "readable_by_keras"]

METHODS: dict[str, Callable[..., object]] = {
    "fit": keras.Model.fit,
    "evaluate": keras.Model.evaluate,
    "predict": keras.Model.predict,
}


class DatasetAdapter(DataAdapter):
    """The batches of a dataset, as loops of Keras take them.

    Args:
        dataset: its elements are batches.

    Attributes:
        first: an iterator at the beginning, which is read before all others.

    Example:
        >>> adapter = DatasetAdapter(Dataset.range(3).batch(2))
        >>> [batch[0].tolist() for batch in adapter.get_jax_iterator()], adapter.num_batches
        ([[0, 1], [2]], 2)
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.first: DatasetIterator | None = None

    def get_numpy_iterator(self) -> Iterator[Tree]:
        # Keras asks for more iterators than it reads: an order of a shuffle is used up by the first batch only.
        iterator, self.first = self.first or iter(self.dataset), None
        for batch in iterator:
            yield standard_batch(batch, "a dataset", lone=True)

    def get_jax_iterator(self) -> Iterator[Tree]:
        return self.get_numpy_iterator()

    @property
    def num_batches(self) -> int | None:
        count = self.dataset.cardinality()
        return count if count >= 0 else None

    @property
    def batch_size(self) -> None:
        """Not known before a batch is read."""
        return None


def readable_by_keras(
    caller: str, model: StrategyModel, args: Sequence[Examples | KerasArgument], options: dict[str, KerasArgument]
) -> dict[str, Examples | KerasArgument]:
    """The arguments of a call by name, with adapters in the place of datasets; the model is built for the first batch of `x`.

    Args:
        caller: "fit", "evaluate" or "predict".
        model: which belongs to no strategy.
        args, options: of the call.

    Raises:
        InvalidArgumentError: options beside a dataset, no data, or a dataset without an end and no number of steps.
        FailedPreconditionError: something that a strategy has distributed is to be trained on.
    """
    given = dict(inspect.signature(METHODS[caller]).bind(model, *args, **options).arguments)
    del given["self"]
    given |= given.pop("kwargs", {})
    if DatasetSource.accepts(given.get("x")):
        source = _training_source(given) if caller == "fit" else _evaluation_source(caller, given)
        given["x"] = adapter = DatasetAdapter(source.dataset)
        adapter.first = iter(source)
        _build(caller, model, first_batch(caller, adapter.first).value())
    if DatasetSource.accepts(given.get("validation_data")):
        steps = given.get("validation_steps")
        given["validation_data"] = DatasetAdapter(
            evaluation_source("validation_data", given["validation_data"], None, None, None, steps).dataset
        )
    return given


def _training_source(given: dict[str, Examples]) -> DatasetSource:
    """Of fit."""
    x, steps = given["x"], given.get("steps_per_epoch")
    if not isinstance(x, (Dataset, DatasetCreator)):
        raise FailedPreconditionError(
            "fit was given a dataset that a strategy has distributed, but the model was made outside of every scope. Make and compile the "
            "model inside `with strategy.scope():`, or pass the plain dataset."
        )
    require_shuffle(given.get("shuffle"))
    beside = {name: given.get(name) for name in ("y", "sample_weight", "class_weight", "batch_size", "shuffle")}
    source = DatasetSource.of(Given("fit", x, **beside, steps=steps))
    count_steps(source, steps)
    return source


def _evaluation_source(caller: str, given: dict[str, Examples]) -> DatasetSource:
    """Of evaluate and predict."""
    names = ("x", "y", "sample_weight", "batch_size", "steps")
    source = evaluation_source(caller, *(given.get(name) for name in names))
    assert isinstance(source, DatasetSource)
    return source


def _build(caller: str, model: StrategyModel, element: Tree) -> None:
    """Make the model's variables, as Keras does with a batch that it reads for that alone."""
    batch = standard_batch(element, "a dataset", lone=True)
    if caller != "predict":
        model.simdist_build(batch)
    elif not model.built:
        model.simdist_forward(batch[0])
