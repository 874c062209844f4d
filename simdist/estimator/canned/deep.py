"""`DNNRegressor` and `DNNClassifier`: hidden layers on floats."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import jax

from simdist.estimator.canned.base import CannedEstimator, Network
from simdist.estimator.canned.heads import RegressionHead, classification_head
from simdist.estimator.canned.options import Activation, DeepOptions, OptimizerLike, checked_columns, refuse_options
from simdist.estimator.run_config import RunConfig
from simdist.feature_column.base import FeatureColumn

__all__ = ["DNNClassifier", "DNNRegressor"]


class DNNRegressor(CannedEstimator):
    """A deep network for numbers, with the squared error.

    Args:
        hidden_units: units of each hidden layer.
        feature_columns: of `sd.feature_column`; of floats.
        model_dir, config: as of `Estimator`.
        label_dimension: numbers of a row of labels.
        optimizer: as of `LinearRegressor`, with Keras' default learning rate.
        activation_fn: of the hidden layers, as Keras takes it.
        dropout: the share of units that training leaves out; None: none.
        batch_norm: whether hidden layers are normalized.
        weight_column, warm_start_from, loss_reduction: as TensorFlow's, to be left out.

    Raises:
        TypeError, InvalidArgumentError: as `LinearRegressor`; or a column of categories, or hidden layers that cannot be.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> def input_fn():
        ...     x = np.linspace(0, 1, 16, dtype="float32")
        ...     return sd.Dataset.from_tensor_slices(({"x": x}, x * x)).batch(8).repeat()
        >>> regressor = sd.estimator.DNNRegressor([8], [sd.feature_column.numeric_column("x")], optimizer="SGD")
        >>> sorted(regressor.train(input_fn, steps=2).get_variable_names())[:3]
        ['dnn/hiddenlayer_0/bias', 'dnn/hiddenlayer_0/kernel', 'dnn/logits/bias']
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        refuse_options(weight_column, loss_reduction)
        columns = checked_columns(feature_columns, deep=True)
        network = _deep(columns, DeepOptions.checked(hidden_units, activation_fn, dropout, batch_norm))
        super().__init__(columns, network, RegressionHead(label_dimension), optimizer, None, model_dir, config, warm_start_from)


class DNNClassifier(CannedEstimator):
    """A deep network for classes, with the cross-entropy.

    Args:
        hidden_units, feature_columns, model_dir, optimizer, activation_fn, dropout, config, batch_norm: as of `DNNRegressor`.
        n_classes, label_vocabulary: as of `LinearClassifier`.
        weight_column, warm_start_from, loss_reduction: as TensorFlow's, to be left out.

    Raises:
        TypeError, InvalidArgumentError: as `DNNRegressor` and `LinearClassifier`.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> def input_fn():
        ...     x = np.linspace(-1, 1, 16, dtype="float32")
        ...     return sd.Dataset.from_tensor_slices(({"x": x}, (x > 0).astype("int32"))).batch(8).repeat()
        >>> classifier = sd.estimator.DNNClassifier([8], [sd.feature_column.numeric_column("x")], optimizer="SGD")
        >>> metrics = classifier.train(input_fn, steps=2).evaluate(input_fn, steps=2)
        >>> metrics["global_step"], 0.0 <= metrics["accuracy"] <= 1.0
        (2, True)
    """

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Iterable[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: None = None,
        label_vocabulary: Sequence[str | bytes] | None = None,
        optimizer: OptimizerLike = "Adagrad",
        activation_fn: Activation = "relu",
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: None = None,
        loss_reduction: str = "sum_over_batch_size",
        batch_norm: bool = False,
    ) -> None:
        refuse_options(weight_column, loss_reduction)
        columns = checked_columns(feature_columns, deep=True)
        network = _deep(columns, DeepOptions.checked(hidden_units, activation_fn, dropout, batch_norm))
        head = classification_head(n_classes, label_vocabulary)
        super().__init__(columns, network, head, optimizer, None, model_dir, config, warm_start_from)


def _deep(columns: Sequence[FeatureColumn], options: DeepOptions) -> Network:
    def network(features: Mapping[str, jax.Array], units: int, training: bool) -> jax.Array:
        from simdist.estimator.canned.networks import deep_logits

        return deep_logits(columns, features, units, options, training)

    return network
