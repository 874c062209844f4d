"""Arrays as a source: those of numpy, JAX, pandas and torch, lists of numbers, and whatever has ``__array__``.

They are converted, weighted and batched by the rules of Keras, and become rows of a table.
"""

from __future__ import annotations

from typing import Self, TypeAlias, cast

import keras
import numpy as np
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter, can_convert_arrays
from keras.src.trainers.data_adapters.array_slicing import convert_to_sliceable, train_validation_split

from simdist.arguments import number, shown
from simdist.coordinator.per_worker import PerWorkerDataset, PerWorkerIterator
from simdist.data import Dataset
from simdist.data.iterator import DatasetIterator
from simdist.errors import InvalidArgumentError
from simdist.input.distributed_iterator import DistributedIterator
from simdist.program.arrays import Tree
from simdist.program.narrowing import require_unmasked
from simdist.training.keras_model import Examples
from simdist.training.sources.base import Given, Source
from simdist.training.sources.batches import checked_classes, refuse_sparse, written_out
from simdist.training.sources.refusals import no_data

__all__ = ["ArraySource", "Rows", "split_rows"]

Rows: TypeAlias = tuple[Tree, Tree, Tree]
"""x, y and sample_weight as arrays of numpy in structures; None for what was not given."""

PARTS = ("x", "y", "sample_weight")


class ArraySource(Source):
    """Rows of arrays, shuffled if that was asked for, in batches."""

    kind = "arrays"

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        """Arrays are what nothing else is: the conversion refuses what is none."""
        return True

    @classmethod
    def of(cls, given: Given) -> Self:
        """The rows, in batches of the size that Keras would choose.

        Raises:
            InvalidArgumentError: weights without targets, rows that do not match, no rows.
            TypeError: not arrays.
        """
        if given.y is None and not (given.sample_weight is None and given.class_weight is None):
            raise InvalidArgumentError(f"{given.caller} was given weights but no y. Pass the targets as y, too.")
        classes = checked_classes(given.class_weight)
        x, y, weight = rows_of(given.caller, given.x, given.y, given.sample_weight)
        leaves = [leaf for leaf in keras.tree.flatten((x, y, weight)) if leaf is not None]
        if not all(leaf.shape for leaf in leaves):
            raise InvalidArgumentError(f"{given.caller} was given a single number; expected arrays with a row for each example.")
        if not leaves or not all(len(leaf) for leaf in leaves):
            raise no_data(given.caller)
        try:
            adapter = ArrayDataAdapter(x, y, weight, batch_size=given.batch_size, steps=given.steps, class_weight=classes)
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from error
        rows = Dataset.from_tensor_slices(keras.tree.lists_to_tuples(adapter._inputs))
        shuffled = rows if given.shuffle is False else rows.shuffle(len(leaves[0]))
        return cls(shuffled.batch(int(cast(int, adapter.batch_size))))


def split_rows(x: Examples, y: Examples, sample_weight: Examples, fraction: float) -> tuple[Rows, Rows]:
    """The first rows, to train with, and the last, to validate with; as Keras splits them, before any shuffle.

    Raises:
        InvalidArgumentError: one of the two parts would have no rows, or `fraction` is no part.

    Example:
        >>> (x, _, _), (last, _, _) = split_rows(np.arange(5), None, None, 0.4)
        >>> x, last
        (array([0, 1, 2]), array([3, 4]))
    """
    fraction = number(fraction, "validation_split")
    if not 0.0 < fraction < 1.0:
        raise InvalidArgumentError(f"validation_split={fraction} is not a part of the data; expected more than 0 and less than 1.")
    arrays = rows_of("fit", x, y, sample_weight)
    try:
        train, last = cast(tuple[Rows, Rows], train_validation_split(arrays, fraction))
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error
    return train, last


def rows_of(caller: str, x: Examples, y: Examples, sample_weight: Examples) -> Rows:
    """Structures of numpy arrays, of whatever Keras takes for arrays and of lists of numbers."""
    if x is None:
        raise InvalidArgumentError(f"{caller} was called without x. Pass an sd.Dataset, an sd.DatasetCreator, or arrays.")
    parts = tuple(written_out(part) for part in (x, y, sample_weight))
    for leaf in keras.tree.flatten(parts):
        # Keras' trees know the sparse arrays of JAX as leaves, those of scipy as well.
        refuse_sparse(leaf, caller)
        require_unmasked(leaf, f"an array of {caller}")
        if not can_convert_arrays(leaf):
            raise _strange(caller, leaf)
        if getattr(leaf, "shape", None) == ():
            raise InvalidArgumentError(f"{caller} was given the single number {shown(leaf)}; expected arrays with a row for each example.")
    slices: Tree = tuple(_sliceable(caller, name, part) for name, part in zip(PARTS, parts, strict=True))
    rows = keras.tree.map_structure(lambda part: None if part is None else np.asarray(part.convert_to_numpy(part[:])), slices)
    _require_equal_rows(caller, rows)
    return cast(Rows, rows)


def _sliceable(caller: str, name: str, part: Tree) -> Tree:
    """What Keras slices; its error about the dtype does not say which of the arguments has it."""
    try:
        return convert_to_sliceable(part, target_backend="numpy")
    except ValueError as error:
        dtype = str(error).removeprefix("Invalid dtype: ")
        if dtype == str(error):
            raise
        raise InvalidArgumentError(
            f"{name} of {caller} has the dtype {dtype}, and a model computes with numbers. Where it holds numbers, convert it, "
            f'{name}.astype("float32"); numbers of words come from sd.StringLookup or sd.TextVectorization, before the call.'
        ) from error


def _require_equal_rows(caller: str, parts: Tree) -> None:
    """Refuse arrays of different lengths.

    Raises:
        InvalidArgumentError: one has more rows than another.
    """
    rows = {
        name: [len(leaf) for leaf in keras.tree.flatten(part) if leaf is not None and leaf.shape]
        for name, part in zip(PARTS, parts, strict=True)
    }
    if len({count for counts in rows.values() for count in counts}) > 1:
        shown = ", ".join(f"{name} has {' and '.join(map(str, counts))}" for name, counts in rows.items() if counts)
        raise InvalidArgumentError(
            f"{caller} was given arrays of different numbers of rows: {shown}. Give each example a row in every array."
        )


def _strange(caller: str, leaf: object) -> TypeError:
    return TypeError(
        f"{caller} takes arrays, an sd.Dataset, an sd.DatasetCreator, a generator, a keras.utils.PyDataset, a DataLoader of torch or a "
        f"tf.data.Dataset; got {type(leaf).__name__}. {_remedy(leaf)}"
    )


def _remedy(leaf: object) -> str:
    if isinstance(leaf, (PerWorkerDataset, PerWorkerIterator)):
        return "Its elements live on the workers: pass the function that makes the dataset, sd.DatasetCreator(lambda context: dataset)."
    if isinstance(leaf, (DatasetIterator, DistributedIterator)):
        return "Pass the dataset of which it is an iterator."
    called = "It is a function: pass what it returns. " if callable(leaf) else ""
    return f"{called}Make a dataset of other iterables: sd.Dataset.from_iterable(iterable), whose elements are batches (x, y)."
