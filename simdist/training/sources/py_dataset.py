"""A `keras.utils.PyDataset` as a source: batches by their numbers.

They are made in this process, when a step needs them and in the order of their numbers, or of a shuffle of the numbers that the
cluster's seed decides. ``workers``, ``use_multiprocessing`` and ``max_queue_size`` change nothing: no thread or process is started, whose
order could differ from run to run.

``on_epoch_begin`` and ``on_epoch_end`` are called by the chief, when Keras calls them: around every epoch, and around the first batch,
which is read once before the first epoch to build the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self

import keras

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.training.keras_model import Examples
from simdist.training.sources.base import Given, Source
from simdist.training.sources.batches import arrays_of, checked_classes, standard_batch, weighted_by_class
from simdist.training.sources.refusals import require_alone, require_shuffle

__all__ = ["PyDatasetSource"]

LAST_NUMBER = (1 << 31) - 1  # numbers of batches are int32


class PyDatasetSource(Source):
    """The batches of a PyDataset.

    Args:
        numbers: the numbers of the batches, in the order of an epoch.
        batch: makes the batch with a number.
        given: the PyDataset itself.
    """

    kind = "a PyDataset"
    may_change = True

    def __init__(self, numbers: Dataset, batch: Callable[[int], Tree], given: keras.utils.PyDataset) -> None:
        super().__init__(numbers.map(batch, pure=False))
        self.given = given

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        return isinstance(x, keras.utils.PyDataset)

    @classmethod
    def of(cls, given: Given) -> Self:
        """The batches of a PyDataset.

        Raises:
            InvalidArgumentError: y, sample_weight or batch_size beside it; shuffle=True, and it has no end.
        """
        require_alone(given, cls.kind, class_weight=True, shuffle=True)
        require_shuffle(given.shuffle)
        count = given.x.num_batches
        if count is None and given.shuffle:
            raise InvalidArgumentError(
                f"{given.caller}: shuffle=True was given together with a PyDataset without an end. Leave shuffle out."
            )
        batch = partial(_batch, given.x, checked_classes(given.class_weight))
        numbers = Dataset.range(LAST_NUMBER).repeat() if count is None else Dataset.range(int(count))
        if count and given.shuffle is not False:
            numbers = numbers.shuffle(int(count))
        return cls(numbers, batch, given.x)

    @contextmanager
    def epoch(self, *, reset: bool = False) -> Iterator[None]:
        if reset:
            self.given.on_epoch_end()
        self.given.on_epoch_begin()
        try:
            yield
        finally:
            self.given.on_epoch_end()


def _batch(given: keras.utils.PyDataset, class_weight: dict[int, float] | None, number: int) -> Tree:
    """One batch, weighted by class."""
    value: Tree = given[int(number)]
    if isinstance(value, dict):
        return arrays_of(value, PyDatasetSource.kind)
    return weighted_by_class(standard_batch(value, PyDatasetSource.kind, lone=hasattr(value, "shape")), class_weight)
