"""Sources of examples for fit, evaluate and predict: arrays, datasets, or functions that return datasets.

Arrays become a `Dataset` of batches, by the rules of Keras. Evaluation and prediction are the chief's work: what was
distributed is read as the one pipeline that it was made of, so that the metrics are those of the plain dataset.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard, cast

import keras
import numpy as np
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter, can_convert_arrays
from keras.src.trainers.data_adapters.array_slicing import convert_to_sliceable, train_validation_split

from simdist.data import Dataset, DatasetIterator
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, DistributedDataset, DistributedInput, DistributedIterator, FunctionInput, InputContext
from simdist.input.view import InputView
from simdist.program.arrays import Tree
from simdist.strategies.base import DistributedFromFunction, Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.keras_model import Examples, StrategyModel, strategy_of
from simdist.training.step import Example

__all__ = ["Source", "count_steps", "evaluation_source", "first_batch", "is_dataset", "split_arrays", "training_source"]

ENDLESS = -1

Source: TypeAlias = Dataset | DatasetCreator | DistributedFromFunction | DistributedDataset
"""What gives batches by itself."""

Rows: TypeAlias = tuple[Tree, Tree, Tree]
"""x, y and sample_weight as arrays of numpy in structures; None for what was not given."""


def is_dataset(x: Examples) -> TypeGuard[Source]:
    """Whether an object gives batches by itself."""
    return isinstance(x, (Dataset, DatasetCreator, DistributedFromFunction, DistributedDataset))


def training_source(
    model: StrategyModel, x: Examples, y: Examples, shuffle: bool | None, batch_size: int | None, steps: int | None, **weights: Examples
) -> Source:
    """The dataset that `fit` reads.

    Args:
        model: which is to be trained.
        x, y: as given to `fit`.
        shuffle: None shuffles arrays and leaves datasets alone.
        batch_size, steps: as given to `fit`.
        weights: sample_weight and class_weight, as given to `fit`.

    Raises:
        InvalidArgumentError: something was given beside a dataset that belongs into it, or there are no examples.
        TypeError: neither arrays nor a dataset.
    """
    if shuffle not in (None, True, False):
        raise InvalidArgumentError(f"shuffle={shuffle!r} is not known; expected True or False.")
    if not is_dataset(x):
        dataset, rows, size = _batches("fit", x, y, batch_size, steps, **weights)
        return (dataset.shuffle(rows) if shuffle in (None, True) else dataset).batch(size)
    _require_alone("fit", y=y, batch_size=batch_size, shuffle=shuffle or None, **weights)
    _require_own(strategy_of(model), x)
    return x


def evaluation_source(caller: str, x: Examples, y: Examples, sample_weight: Examples, batch_size: int | None, steps: int | None) -> Dataset:
    """The plain dataset that the chief reads to evaluate or predict.

    Args:
        caller: the name of the call, for messages.
        x, y, sample_weight, batch_size: as given to it.
        steps: batches that it will read at most; None reads all.

    Raises:
        InvalidArgumentError: the data has no end and `steps` is missing, or as for `training_source`.
        TypeError: neither arrays nor a dataset.
    """
    if not is_dataset(x):
        dataset, _, size = _batches(caller, x, y, batch_size, steps, sample_weight=sample_weight)
        return dataset.batch(size)
    _require_alone(caller, y=y, batch_size=batch_size, sample_weight=sample_weight)
    dataset = _plain(caller, x, steps)
    if steps is None and dataset.cardinality() == ENDLESS:
        raise InvalidArgumentError(f"{caller} was given a dataset that has no end. Pass steps=, or end it with .take(n).")
    return dataset


def count_steps(source: Source, steps_per_epoch: int | None) -> int | None:
    """The number of steps of an epoch; None where only the end of the data shows it.

    Raises:
        InvalidArgumentError: they must be given, or there are none.
    """
    if steps_per_epoch is not None:
        return steps_per_epoch
    if not isinstance(source, (Dataset, DistributedDataset)):
        return None  # the runner looks at the datasets that the function makes
    count = source.cardinality()
    if count == ENDLESS or (isinstance(source, DistributedDataset) and _never_ends(source.input)):
        raise InvalidArgumentError("steps_per_epoch is missing, and the dataset has no end. Pass steps_per_epoch=.")
    if count == 0:
        raise _nothing("fit")
    return count if count > 0 else None


def first_batch(caller: str, iterator: DistributedIterator | DatasetIterator) -> Example:
    """The first batch, to build a model with.

    Raises:
        InvalidArgumentError: there is none.
    """
    try:
        return iterator.sample() if isinstance(iterator, DistributedIterator) else iterator.peek(0)
    except StopIteration:
        raise _nothing(caller) from None


def split_arrays(x: Examples, y: Examples, sample_weight: Examples, fraction: float) -> tuple[Rows, Rows]:
    """The first rows, to train with, and the last, to validate with.

    Raises:
        InvalidArgumentError: not arrays, or one of the two parts would have no rows.
    """
    if is_dataset(x):
        raise InvalidArgumentError("validation_split takes arrays apart, but x is a dataset. Split it with .take(n) and .skip(n).")
    if not 0.0 < fraction < 1.0:
        raise InvalidArgumentError(f"validation_split={fraction} is not a part of the data; expected more than 0 and less than 1.")
    arrays = _arrays("fit", x, y, sample_weight)
    try:
        train, last = cast(tuple[Rows, Rows], train_validation_split(arrays, fraction))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error
    return train, last


# -- arrays -------------------------------------------------------------------------------------------------------------


def _batches(
    caller: str, x: Examples, y: Examples, batch_size: int | None, steps: int | None, **weights: Examples
) -> tuple[Dataset, int, int]:
    """The rows of arrays as a dataset, how many there are, and the size of a batch."""
    weight, classes = weights.get("sample_weight"), weights.get("class_weight")
    if y is None and not (weight is None and classes is None):
        raise InvalidArgumentError(f"{caller} was given weights but no y. Pass the targets as y, too.")
    if not isinstance(classes, (dict, type(None))):
        raise InvalidArgumentError(f"class_weight={classes!r} is no dictionary; expected a weight for each class: {{0: 1.0, 1: 5.0}}.")
    x, y, weight = _arrays(caller, x, y, weight)
    leaves = [leaf for leaf in keras.tree.flatten((x, y, weight)) if leaf is not None]
    if not all(leaf.shape for leaf in leaves):
        raise InvalidArgumentError(f"{caller} was given a single number; expected arrays with a row for each example.")
    if not all(len(leaf) for leaf in leaves):
        raise _nothing(caller)
    try:
        adapter = ArrayDataAdapter(x, y, weight, batch_size=batch_size, steps=steps, class_weight=classes)
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error
    rows = keras.tree.lists_to_tuples(adapter._inputs)
    return Dataset.from_tensor_slices(rows), len(leaves[0]), int(cast(int, adapter.batch_size))


def _arrays(caller: str, x: Examples, y: Examples, sample_weight: Examples) -> Rows:
    """Structures of numpy arrays, of whatever Keras takes for arrays and of lists of numbers."""
    if x is None:
        raise InvalidArgumentError(f"{caller} was called without x. Pass an sd.Dataset, an sd.DatasetCreator, or arrays.")
    parts = tuple(_written_out(part) for part in (x, y, sample_weight))
    if not can_convert_arrays(parts):
        strange = next(leaf for leaf in keras.tree.flatten(parts) if not can_convert_arrays(leaf))
        raise TypeError(
            f"{caller} takes arrays, an sd.Dataset or an sd.DatasetCreator; got {type(strange).__name__}. Make a dataset of generators "
            "and loaders: sd.Dataset.from_iterable(loader), whose elements are batches (x, y)."
        )
    slices: Tree = convert_to_sliceable(parts, target_backend="numpy")
    return cast(Rows, keras.tree.map_structure(lambda part: None if part is None else np.asarray(part.convert_to_numpy(part[:])), slices))


def _written_out(part: Examples) -> Examples:
    """A list of numbers is an array; a list of arrays is several."""
    leaves = keras.tree.flatten(part)
    numbers = isinstance(part, (list, tuple)) and all(isinstance(leaf, (bool, int, float, complex)) for leaf in leaves)
    if not numbers:
        return part
    try:
        return np.asarray(part)
    except ValueError as error:
        raise InvalidArgumentError(f"A list could not become one array: {error}. Expected rows of equal length.") from error


# -- datasets -----------------------------------------------------------------------------------------------------------


def _require_alone(caller: str, **given: Examples) -> None:
    """A dataset holds its targets, weights and batches itself."""
    remedies = {
        "y": "y was given together with a dataset, whose elements hold their targets already. Leave y out.",
        "batch_size": "batch_size was given together with a dataset, which is batched already. Write dataset.batch(n) instead.",
        "shuffle": "shuffle=True was given together with a dataset. Shuffle it before it is batched: dataset.shuffle(buffer_size).",
        "sample_weight": "sample_weight was given together with a dataset. Make the weights a third component: (x, y, weight).",
        "class_weight": "class_weight was given together with a dataset. Make the weights a third component: (x, y, weight).",
    }
    for name, value in given.items():
        if value is not None:
            raise InvalidArgumentError(f"{caller}: {remedies[name]}")


def _require_own(strategy: Strategy, x: Source) -> None:
    """What was distributed must have been distributed by the model's strategy."""
    coordinated = isinstance(strategy, ParameterServerStrategy)
    other = x.strategy is not strategy if isinstance(x, DistributedDataset) else isinstance(x, DistributedFromFunction) and not coordinated
    if other:
        raise InvalidArgumentError(
            f"fit was given a dataset that another strategy distributed; the model belongs to {strategy!r}. "
            "Distribute it with that one, or pass the plain dataset."
        )


def _plain(caller: str, x: Source, steps: int | None) -> Dataset:
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


def _never_ends(shared: InputView) -> bool:
    """Whether a function made datasets without an end."""
    return isinstance(shared, FunctionInput) and any(
        shared.pipeline(worker * shared.per_worker + at).cardinality() == ENDLESS
        for worker in shared.workers
        for at in range(shared.per_worker)
    )


def _nothing(caller: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{caller} was given no data: it has no row. Check its filter or its slice.")
