"""`LinearRegressor` and `LinearClassifier`: one weight for each float and each category."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import jax

from simdist.estimator.canned.base import CannedEstimator, Network
from simdist.estimator.canned.heads import RegressionHead, classification_head
from simdist.estimator.canned.options import OptimizerLike, checked_columns, checked_combiner, refuse_options
from simdist.estimator.run_config import RunConfig
from simdist.feature_column.base import FeatureColumn

__all__ = ["LinearClassifier", "LinearRegressor"]

LEARNING_RATE = 0.2
"""Of an optimizer that is given by name, as in TensorFlow."""


class LinearRegressor(CannedEstimator):
    """A linear model of numbers, with the squared error.

    Args:
        feature_columns: of `sd.feature_column`; of floats or categories.
        model_dir, config: as of `Estimator`.
        label_dimension: numbers of a row of labels.
        optimizer: the name of an optimizer ("Ftrl", "SGD", "Adam", "Adagrad", "RMSProp"; its learning rate is 0.2), one of Keras, an
            `sd.Optimizer`, or a function that makes one.
        sparse_combiner: of several categories of a row: "sum", "mean" or "sqrtn".
        weight_column, warm_start_from, loss_reduction: as TensorFlow's, to be left out.

    Raises:
        TypeError: something of another class.
        InvalidArgumentError: no columns or two of one name, an unknown optimizer or combiner, or an option that must be left out.

    Example:
        >>> import simdist as sd
        >>> mirrored_strategy = sd.MirroredStrategy(2)
        >>> config = sd.estimator.RunConfig(train_distribute=mirrored_strategy, eval_distribute=mirrored_strategy)
        >>> regressor = sd.estimator.LinearRegressor(
        ...     feature_columns=[sd.feature_column.numeric_column("feats")], optimizer="SGD", config=config)
        >>> def input_fn():
        ...     dataset = sd.Dataset.from_tensors(({"feats": [1.0]}, [1.0]))
        ...     return dataset.repeat(1000).batch(10)
        >>> regressor = regressor.train(input_fn=input_fn, steps=10)
        >>> sorted(regressor.evaluate(input_fn=input_fn, steps=10))
        ['average_loss', 'global_step', 'label/mean', 'loss', 'prediction/mean']
    """

    def __init__(
        self,
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        refuse_options(weight_column, loss_reduction)
        columns = checked_columns(feature_columns, deep=False)
        head = RegressionHead(label_dimension)
        super().__init__(columns, _linear(columns, sparse_combiner), head, optimizer, LEARNING_RATE, model_dir, config, warm_start_from)


class LinearClassifier(CannedEstimator):
    """A linear model of classes, with the cross-entropy.

    Args:
        feature_columns, model_dir, optimizer, config, sparse_combiner: as of `LinearRegressor`.
        n_classes: how many; labels are 0 to n_classes - 1.
        label_vocabulary: the names of the classes, in order, where labels are words.
        weight_column, warm_start_from, loss_reduction: as TensorFlow's, to be left out.

    Raises:
        TypeError, InvalidArgumentError: as `LinearRegressor`; or fewer than two classes, or another number of names.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> def input_fn():
        ...     x = np.array([-1.0, 1.0] * 8, "float32")
        ...     return sd.Dataset.from_tensor_slices(({"x": x}, (x > 0).astype("int32"))).batch(8).repeat()
        >>> classifier = sd.estimator.LinearClassifier([sd.feature_column.numeric_column("x")])
        >>> classifier.train(input_fn, steps=2).evaluate(input_fn, steps=2)["accuracy"]
        1.0
    """

    def __init__(
        self,
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: None = None,
        label_vocabulary: Sequence[str | bytes] | None = None,
        optimizer: OptimizerLike = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: None = None,
        loss_reduction: str = "sum_over_batch_size",
        sparse_combiner: str = "sum",
    ) -> None:
        refuse_options(weight_column, loss_reduction)
        columns = checked_columns(feature_columns, deep=False)
        head = classification_head(n_classes, label_vocabulary)
        super().__init__(columns, _linear(columns, sparse_combiner), head, optimizer, LEARNING_RATE, model_dir, config, warm_start_from)


def _linear(columns: Sequence[FeatureColumn], combiner: str) -> Network:
    checked_combiner(combiner)

    def network(features: Mapping[str, jax.Array], units: int, training: bool) -> jax.Array:
        from simdist.estimator.canned.networks import linear_logits

        return linear_logits(columns, features, units, combiner)

    return network
