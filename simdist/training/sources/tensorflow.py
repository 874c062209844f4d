"""A `tf.data.Dataset` as a source: its batches, read in this process by TensorFlow.

TensorFlow is never imported here: who has such a dataset has imported it. Weights of classes are followed, as in Keras.
"""

from __future__ import annotations

from typing import Self, cast

from keras.src.trainers.data_adapters import is_tf_dataset

from simdist.data import Dataset
from simdist.program.arrays import Tree
from simdist.training.keras_model import Examples
from simdist.training.sources.base import Given, Source
from simdist.training.sources.batches import arrays_of, checked_classes, standard_batch, weighted_by_class
from simdist.training.sources.loaders import Conversions
from simdist.training.sources.refusals import require_alone

__all__ = ["TensorFlowSource"]


class TensorFlowSource(Source):
    """The batches of a dataset of TensorFlow.

    Args:
        data: its batches as an `sd.Dataset`.
        count: its cardinality, in the convention that both share.
    """

    kind = "a tf.data.Dataset"

    def __init__(self, data: Dataset, count: int) -> None:
        super().__init__(data)
        self.count = count

    @classmethod
    def accepts(cls, x: Examples) -> bool:
        return is_tf_dataset(x)

    @classmethod
    def of(cls, given: Given) -> Self:
        """The batches of a tf.data.Dataset.

        Raises:
            InvalidArgumentError: options beside it, other than class_weight.
            TypeError: a strategy of TensorFlow has distributed it.
        """
        require_alone(given, cls.kind, class_weight=True)
        data: Tree = given.x
        if not callable(data.cardinality):
            raise TypeError(
                f"{given.caller} was given a {type(data).__name__} of TensorFlow, whose parts belong to its replicas. Pass the "
                "tf.data.Dataset that it was made of."
            )
        count, classes = int(cast(int, data.cardinality())), checked_classes(given.class_weight)

        def convert(value: Tree) -> Tree:
            if isinstance(value, dict):
                return arrays_of(value, cls.kind)
            return weighted_by_class(standard_batch(value, cls.kind, lone=True), classes)

        return cls(Dataset.from_iterable(Conversions(data, convert)), count)

    def cardinality(self) -> int:
        return self.count
