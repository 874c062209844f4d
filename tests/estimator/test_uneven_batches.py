"""Batches of different sizes on the replicas of an Estimator: they weigh by their rows, whatever else an element has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from estimators import config
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.estimator import Estimator, EstimatorSpec
from simdist.estimator.elements import rows_of
from simdist.estimator.specs import ModeKeys

X = np.arange(8, dtype=np.float32) / 8
WEIGHTS = np.array([1, 0, 2, 5, 1, 2, 3, 0], np.float32)
IDS = np.array([[1, 2, 0], [3, 0, 0], [1, 1, 1], [2, 0, 0], [1, 3, 0], [3, 3, 3]])
RATE = 0.5


def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    prediction = keras.layers.Dense(1, kernel_initializer="zeros")(features["x"][:, None])
    if "weights" in features:
        error = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
        loss = error(labels[:, None], prediction, sample_weight=features["weights"])
    else:
        loss = keras.losses.MeanSquaredError()(labels[:, None], prediction)
    seen = keras.metrics.Sum()
    seen.update_state(labels)
    return EstimatorSpec(mode, loss=loss, train_op=keras.optimizers.SGD(RATE), eval_metric_ops={"seen": seen})


def line(rows: int, batch_size: int, **others: Any) -> Callable[[], sd.Dataset]:
    """Batches of some rows, with labels, and other features for each row or (one value, or of another length) for a batch."""
    of_rows = {name: value[:rows] for name, value in others.items() if np.ndim(value) and len(value) == len(X)}
    of_batch = {name: value for name, value in others.items() if name not in of_rows}

    def input_fn() -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices(({"x": X[:rows], **of_rows}, 3 * X[:rows])).batch(batch_size)
        return dataset.map(lambda features, labels: ({**features, **of_batch}, labels)) if of_batch else dataset

    return input_fn


def descended(rows: int, weights: np.ndarray | None = None) -> list[float]:
    """Weight and bias after global batches of four rows, in float64."""
    found = np.zeros(2)
    for start in range(0, rows, 4):
        x = X[start : min(start + 4, rows)].astype(np.float64)
        w = np.ones_like(x) if weights is None else weights[start : min(start + 4, rows)]
        errors = found[0] * x + found[1] - 3 * x
        found -= RATE * 2 * np.array([(w * errors * x).sum(), (w * errors).sum()]) / w.sum()
    return found.tolist()


def trained(directory: Path, input_fn: Callable[[], sd.Dataset], model: Any = model_fn) -> list[float]:
    """Weight and bias, trained by two replicas, each of which takes half of a global batch."""
    estimator = Estimator(model, config=config(directory, train_distribute=sd.MirroredStrategy(2))).train(input_fn)
    return [float(estimator.get_variable_value(f"dense/{name}").item()) for name in ("kernel", "bias")]


@pytest.mark.sample
@pytest.mark.parametrize("rows", [6, 7])
@pytest.mark.parametrize("other", [np.ones(3), np.float32(1)], ids=["three", "a number"])
def test_weights_are_those_of_one_device_whatever_an_element_has_beside_its_rows(tmp_path: Path, rows: int, other: Any) -> None:
    # With 6 rows the second replica has none in the last step, with 7 it has one and the first has two.
    assert trained(tmp_path, line(rows, 2, classes=other)) == pytest.approx(descended(rows), abs=1e-6)


@pytest.mark.parametrize("rows", [6, 8])
def test_means_by_sample_weight_are_those_of_the_global_batch_also_where_a_replica_has_no_rows(tmp_path: Path, rows: int) -> None:
    assert trained(tmp_path, line(rows, 2, weights=WEIGHTS)) == pytest.approx(descended(rows, WEIGHTS), abs=1e-6)


def test_means_of_masked_steps_are_those_of_the_global_batch_also_where_a_replica_has_no_rows(tmp_path: Path) -> None:
    def masked(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        vectors = keras.layers.Embedding(4, 1, mask_zero=True, embeddings_initializer="ones")
        vectors.trainable = False
        prediction = keras.layers.Dense(1, kernel_initializer="zeros")(vectors(features))
        return EstimatorSpec(mode, loss=keras.losses.MeanSquaredError()(labels, prediction), train_op=keras.optimizers.SGD(RATE))

    labels = IDS[..., None].astype(np.float32)
    found = np.zeros(2)
    for start in (0, 4):  # all features are 1, so weight and bias get the same gradient: of the steps that no mask leaves out
        valid = IDS[start : start + 4] > 0
        found -= RATE * 2 * (found.sum() - IDS[start : start + 4][valid]).mean()
    assert trained(tmp_path, lambda: sd.Dataset.from_tensor_slices((IDS, labels)).batch(2), masked) == pytest.approx(found, abs=1e-6)


def test_state_of_layers_with_a_mean_counts_replicas_by_their_rows(tmp_path: Path) -> None:
    class Moving(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            mean: dict[str, Any] = {"aggregation": "mean"}
            self.mean: Any = self.add_weight(shape=(), initializer="zeros", trainable=False, name="mean", **mean)

        def call(self, x: Any) -> Any:
            self.mean.assign((self.mean + keras.ops.mean(x)) / 2)
            return x

    def moving(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return model_fn({"x": Moving(name="moving")(features["x"])}, labels, mode)

    of_four = config(tmp_path, train_distribute=sd.MirroredStrategy(4))  # in its only step they have 2, 2, 1 and 0 rows
    found = Estimator(moving, config=of_four).train(line(5, 2)).get_variable_value("moving/mean")
    assert float(found) == pytest.approx(X[:5].mean() / 2, abs=1e-6)


@pytest.mark.parametrize("other", [np.ones(1), np.float32(1)], ids=["one", "a number"])
def test_metrics_of_an_evaluation_count_every_row_once(tmp_path: Path, other: Any) -> None:
    for strategy in (None, sd.MirroredStrategy(2)):
        result = Estimator(model_fn, config=config(tmp_path, eval_distribute=strategy)).evaluate(line(6, 2, classes=other))
        assert result["seen"] == pytest.approx(3 * X[:6].sum())


def test_labels_of_which_nobody_knows_the_rows_are_refused_where_replicas_are_weighed(tmp_path: Path) -> None:
    def input_fn() -> sd.Dataset:
        return line(8, 2)().map(lambda features, labels: (features, {"y": labels, "classes": np.ones(3)}))

    def with_dict(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return model_fn(features, labels["y"], mode)

    with pytest.raises(InvalidArgumentError, match=r"'classes': \(3,\).*no common first axis.*all labels"):
        trained(tmp_path, input_fn, with_dict)
    one_device = Estimator(with_dict, config=config(tmp_path / "one")).train(input_fn, steps=1)
    assert one_device.get_variable_value("global_step") == 1


def test_rows_are_those_of_the_labels_or_where_there_are_none_of_the_features() -> None:
    two, three, none = np.ones((2, 3)), np.ones(3), np.float32(1)
    assert rows_of(({"a": three, "b": two}, two), ModeKeys.TRAIN) == 2
    assert rows_of({"a": none, "b": two}, ModeKeys.TRAIN) == rows_of((two, none), ModeKeys.EVAL) == 2
    assert rows_of((two, {"a": two, "b": three}), ModeKeys.TRAIN) is rows_of(none, ModeKeys.TRAIN) is None


def test_a_model_fn_that_takes_no_batch_without_rows_says_so(tmp_path: Path) -> None:
    def divides(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        x = features["x"]
        return model_fn({"x": keras.ops.reshape(x, (x.shape[0], -1))[:, 0]}, labels, mode)

    for number, step in enumerate((lambda of: of.train(line(7, 3)), lambda of: of.evaluate(line(1, 4)))):
        of_two = config(tmp_path / str(number), train_distribute=sd.MirroredStrategy(2), eval_distribute=sd.MirroredStrategy(2))
        with pytest.raises(InvalidArgumentError, match=r"Replica 1 has no rows .*1 row for 2 replicas.*model_fn .*ZeroDivisionError"):
            step(Estimator(divides, config=of_two))
