"""The variables of a model_fn are created once, whatever it makes, and found again in each trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.estimator.built_model import BuiltModel
from simdist.estimator.specs import ModeKeys

X = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
BATCH = (X, 2 * X)


def built(layers: Callable[[Any], Any], mode: ModeKeys = ModeKeys.TRAIN, seed: int | None = 0, **options: Any) -> BuiltModel:
    """A model of one number, under two replicas."""

    def model_fn(features: Any, labels: Any) -> sd.estimator.EstimatorSpec:
        prediction = layers(features)
        loss = 0.0 if labels is None else jnp.mean((prediction - labels) ** 2)
        return sd.estimator.EstimatorSpec(mode, prediction, loss, keras.optimizers.SGD(0.1), **options)

    return BuiltModel(sd.MirroredStrategy(2), mode, model_fn, BATCH, seed)


def names(model: BuiltModel) -> dict[str, tuple[int, ...]]:
    return {name: tuple(variable.shape) for name, variable in model.saved_variables.items()}


def take_step(model: BuiltModel, rows: int = 4) -> float:
    """A step of two batches, which traces the model_fn again."""
    dataset = model.strategy.distribute_datasets_from_function(lambda _: sd.Dataset.from_tensor_slices(BATCH).batch(rows))
    model.strategy.run_step(model.step, (iter(dataset),), {})
    return float(np.asarray(model.trainable_variables[0].value).ravel()[0])


def test_layers_of_all_kinds_keep_their_variables_from_trace_to_trace() -> None:
    def layers(x: Any) -> Any:
        net = keras.layers.BatchNormalization()(keras.layers.Dense(3, activation="relu")(x), training=True)
        net = keras.layers.Dropout(0.5)(net, training=True)
        return keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])(net) * keras.Variable(1.0, name="scale")

    model = built(layers)
    normalization = {f"batch_normalization/{name}": (3,) for name in ("gamma", "beta", "moving_mean", "moving_variance")}
    assert names(model) == {
        "dense/kernel": (1, 3),
        "dense/bias": (3,),
        **normalization,
        "sequential/dense_1/kernel": (3, 2),
        "sequential/dense_1/bias": (2,),
        "sequential/dense_2/kernel": (2, 1),
        "sequential/dense_2/bias": (1,),
        "scale": (),
    }
    before = {name: np.asarray(variable.value) for name, variable in model.saved_variables.items()}
    variables = len(model.strategy.variables)
    for rows in (4, 2):
        take_step(model, rows)
    assert len(model.strategy.variables) == variables
    assert int(model.global_step.numpy()) == 2
    changed = [name for name, variable in model.saved_variables.items() if not np.array_equal(before[name], np.asarray(variable.value))]
    assert {"dense/kernel", "sequential/dense_2/bias", "scale", "batch_normalization/moving_mean"} <= set(changed)


def test_names_are_those_of_the_first_call_also_for_a_second_model() -> None:
    one, other = (built(lambda x: keras.layers.Dense(1)(keras.layers.Dense(2)(x))) for _ in range(2))
    assert list(names(one)) == list(names(other)) == ["dense_1/kernel", "dense_1/bias", "dense/kernel", "dense/bias"]


@pytest.mark.parametrize("aggregation", ["sum", "mean", "only_first_replica"])
def test_variables_are_saved_however_they_are_aggregated_and_metrics_are_not(aggregation: str) -> None:
    class Own(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__(name="own")
            self.inner = keras.metrics.Mean(name="inner")
            self.total = self.add_variable((), "zeros", name="total", aggregation=aggregation)

        def update_state(self, value: Any) -> None:
            self.inner.update_state(value)
            self.total.assign_add(jnp.sum(value))

        def result(self) -> Any:
            return self.total.value

    def layers(x: Any) -> Any:
        Own().update_state(x)
        keras.metrics.MeanSquaredError().update_state(x, x)
        seen = keras.Variable(0.0, trainable=False, name="seen", aggregation=aggregation)
        seen.assign_add(1.0)
        return keras.layers.Dense(1)(x)

    assert set(names(built(layers))) == {"seen", "dense/kernel", "dense/bias"}


def test_two_layers_of_one_name_are_told_apart() -> None:
    model = built(lambda x: keras.layers.Dense(1, name="a")(keras.layers.Dense(1, name="a")(x)))
    assert list(names(model)) == ["a/kernel", "a/bias", "a/kernel_of_1", "a/bias_of_1"]


def test_initial_values_follow_from_the_seed_alone() -> None:
    def dense(x: Any) -> Any:
        return keras.layers.Dense(1)(x)

    values: list[float] = []
    for number, seed in enumerate((3, 3, 4, None, None)):
        keras.utils.set_random_seed(number)  # which is not what an Estimator goes by
        values.append(float(np.asarray(built(dense, seed=seed).trainable_variables[0].value)[0, 0]))
    assert values[0] == values[1] and values[3] == values[4]  # without a seed, that of the cluster counts
    assert len({*values}) == 3


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("more", "made 'dense_1/kernel' of shape .* where the first call had made 'sgd/iteration' of shape"),
        ("fewer", r"made 'sgd/iteration' of shape \(\) where the first call had made 'dense_1/kernel'"),
        ("wider", r"made 'dense/kernel' of shape \(1, 4\) where the first call had made 'dense/kernel' of shape \(1, 8\)"),
        ("renamed", "made 'other/kernel' of shape"),
    ],
)
def test_other_layers_in_a_later_trace_are_an_error_that_names_them(kind: str, message: str) -> None:
    def layers(x: Any) -> Any:
        again = x.shape[0] != 8  # the first call has a batch of eight rows
        if kind in ("more", "fewer"):
            net = keras.layers.Dense(1)(x)
            return keras.layers.Dense(1)(net) if again is (kind == "more") else net
        if kind == "wider":
            return jnp.sum(keras.layers.Dense(x.shape[0])(x), axis=-1, keepdims=True)
        return keras.layers.Dense(1, name="other" if again else "dense")(x)

    with pytest.raises(InvalidArgumentError, match=message):
        take_step(built(layers))


def test_variables_of_ours_and_models_without_variables_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="makes 'mine', an sd"):
        built(lambda x: x * sd.Variable(1.0, name="mine").value)
    with pytest.raises(InvalidArgumentError, match="no trainable variable"):
        built(lambda x: x)


def test_what_was_made_before_is_used_but_not_trained() -> None:
    with pytest.raises(InvalidArgumentError, match="made outside strategy"):
        outside = keras.layers.Dense(1)
        outside.build((None, 1))
        built(lambda x: outside(x) + keras.layers.Dense(1)(x))


def test_a_variable_of_a_layer_is_saved_also_where_it_is_called_as_one_of_an_optimizer() -> None:
    def layers(x: Any) -> Any:
        seen = keras.Variable(0.0, trainable=False, name="iteration", aggregation="only_first_replica")
        seen.assign_add(1.0)
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam())
        return keras.layers.Dense(1)(x)

    assert list(names(built(layers))) == ["iteration", "dense/kernel", "dense/bias"]


def test_averages_that_nothing_would_ever_take_over_are_refused() -> None:
    def model_fn(features: Any, labels: Any) -> sd.estimator.EstimatorSpec:
        averaging = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(use_ema=True))
        return sd.estimator.EstimatorSpec("train", None, jnp.mean(keras.layers.Dense(1)(features)), averaging)

    with pytest.raises(InvalidArgumentError, match=r"use_ema=True and no ema_overwrite_frequency.*checkpoint to checkpoint"):
        BuiltModel(sd.OneDeviceStrategy(), ModeKeys.TRAIN, model_fn, BATCH, 0)


def test_metrics_and_optimizers_are_no_part_of_the_saved_variables() -> None:
    def layers(x: Any) -> Any:
        keras.metrics.MeanSquaredError().update_state(x, x)
        return keras.layers.Dense(1)(x)

    assert list(names(built(layers))) == ["dense/kernel", "dense/bias"]
    assert list(names(built(layers, ModeKeys.PREDICT))) == ["dense/kernel", "dense/bias"]


def test_keras_is_as_before_outside() -> None:
    def number() -> int:
        return int(keras.layers.Dense(1).name.rpartition("_")[2])

    keras.layers.Dense(1)
    before = number()
    built(lambda x: keras.layers.Dense(1)(x))
    assert number() == before + 1
    assert float(keras.Variable(3.0).value) == 3.0


def test_a_layer_that_all_calls_share_is_refused() -> None:
    model = built(keras.layers.Dense(1, name="shared"), ModeKeys.PREDICT)
    with pytest.raises(InvalidArgumentError, match=r"made 'sgd/iteration' .* where the first call had made 'shared/kernel'"):
        take_step(model)
    with pytest.raises(InvalidArgumentError, match="made nothing where the first call had made 'shared/kernel'"), model.variables.open():
        pass
