"""Canned Estimators: linear models and deep networks have the numbers of numpy and of plain Keras, on every kind of column."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd
from estimators import COLUMNS, input_fn
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.estimator import DNNClassifier, DNNRegressor, LinearClassifier, LinearRegressor

# Plain Keras turns its variables into numpy arrays in a way that numpy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
fc = sd.feature_column
rng = np.random.default_rng(1)
WORDS = np.array(["red", "green", "blue"])
FEATURES = {
    "x": rng.normal(size=(24, 2)).astype(np.float32),
    "colour": WORDS[rng.integers(0, 3, 24)],
    "days": np.where(rng.random((24, 3)) < 0.3, -1, rng.integers(0, 4, (24, 3))),
    "age": rng.uniform(0, 90, 24).astype(np.float32),
}
COLOURS = fc.categorical_column_with_vocabulary_list("colour", WORDS.tolist())
DAYS = fc.categorical_column_with_identity("days", 4)
AGES = fc.bucketized_column(fc.numeric_column("age"), [18, 65])
NUMBERS = fc.numeric_column("x", shape=2)


def data(labels: Any, batch_size: int = 8, endless: bool = True) -> Callable[[], sd.Dataset]:
    def batches() -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices((FEATURES, labels))
        return (dataset.repeat() if endless else dataset).batch(batch_size)

    return batches


def options(directory: Path, **others: Any) -> sd.estimator.RunConfig:
    return sd.estimator.RunConfig(str(directory), tf_random_seed=0, **others)


def one_hot(numbers: np.ndarray, count: int) -> np.ndarray:
    """Counts of numbers in rows (b, k); -1 counts nothing."""
    return np.stack([(numbers == number).sum(axis=1) for number in range(count)], axis=1).astype(np.float64)


def descended(inputs: np.ndarray, labels: np.ndarray, steps: int, gradient: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Weights (and last, a bias) of a linear model after steps of gradient descent with rate 0.2 on batches of eight rows."""
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    found = np.zeros((rows.shape[1], 1))
    for step in range(steps):
        batch = np.arange(8 * step, 8 * step + 8) % len(rows)
        found -= 0.2 * rows[batch].T @ gradient(rows[batch] @ found, labels[batch]) / 8
    return found


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# -- linear ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("combiner", sampled(["sum", "mean"], ["mean"]))
def test_a_linear_model_has_a_weight_for_each_float_and_each_category(tmp_path: Path, combiner: str) -> None:
    labels = rng.normal(size=(24, 1)).astype(np.float32)
    estimator = LinearRegressor(
        [NUMBERS, COLOURS, DAYS, AGES],
        optimizer="SGD",
        config=options(tmp_path, train_distribute=sd.MirroredStrategy(2)),
        sparse_combiner=combiner,
    )
    estimator.train(data(labels, 4), steps=6)
    days = one_hot(FEATURES["days"], 4)
    days = days / np.maximum(days.sum(axis=1, keepdims=True), 1) if combiner == "mean" else days
    parts = {
        "age_bucketized": one_hot(np.digitize(FEATURES["age"], [18, 65])[:, None], 3),
        "colour": one_hot(np.array([list(WORDS).index(word) for word in FEATURES["colour"]])[:, None], 3),
        "days": days,
        "x": FEATURES["x"],
    }
    expected = descended(np.column_stack([*parts.values()]), labels, 6, lambda outputs, wanted: 2 * (outputs - wanted))
    found = [estimator.get_variable_value(f"linear/linear_model/{name}/weights") for name in parts]
    bias = estimator.get_variable_value("linear/linear_model/bias_weights")[:, None]
    assert np.concatenate([*found, bias]) == pytest.approx(expected, abs=1e-5)


def test_a_linear_classifier_of_two_classes_and_all_its_metrics(tmp_path: Path) -> None:
    labels = np.where(FEATURES["x"][:, 0] > 0.2, "yes", "no")
    estimator = LinearClassifier([NUMBERS], label_vocabulary=["no", "yes"], optimizer="SGD", config=options(tmp_path))
    estimator.train(data(labels), steps=9)
    truth = (labels == "yes").astype(np.float64)[:, None]
    expected = descended(FEATURES["x"], truth, 9, lambda logits, wanted: sigmoid(logits) - wanted)
    logits = np.column_stack([FEATURES["x"], np.ones(24)]) @ expected
    share, losses = sigmoid(logits), np.log1p(np.exp(-np.where(truth == 1, logits, -logits)))
    result = estimator.evaluate(data(labels, endless=False))
    said = share > 0.5
    assert result["average_loss"] == result["loss"] == pytest.approx(losses.mean(), rel=1e-4)
    assert result["accuracy"] == pytest.approx(np.mean(said == truth))
    assert result["accuracy_baseline"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    assert result["precision"] == pytest.approx(truth[said].mean()) and result["recall"] == pytest.approx(said[truth == 1].mean())
    assert (result["label/mean"], result["prediction/mean"]) == (pytest.approx(truth.mean()), pytest.approx(share.mean(), rel=1e-4))
    pairs = share[truth == 1][:, None] - share[truth == 0][None]
    assert result["auc"] == pytest.approx(np.mean(pairs > 0), abs=0.02) and 0 < result["auc_precision_recall"] <= 1
    assert sorted(result) == sorted({*result}) and result["global_step"] == 9
    row = next(estimator.predict(data(labels)))
    assert {name: value.shape for name, value in row.items()} == {
        "logits": (1,),
        "logistic": (1,),
        "probabilities": (2,),
        "class_ids": (1,),
        "classes": (1,),
        "all_class_ids": (2,),
        "all_classes": (2,),
    }
    assert row["probabilities"] == pytest.approx([1 - share[0, 0], share[0, 0]], abs=1e-5)
    assert row["classes"][0] == ["no", "yes"][int(said[0, 0])] and list(row["all_classes"]) == ["no", "yes"]


def test_a_linear_classifier_of_three_classes(tmp_path: Path) -> None:
    labels = np.digitize(FEATURES["x"][:, 0], [-0.5, 0.5])
    estimator = LinearClassifier([NUMBERS], n_classes=3, optimizer="SGD", config=options(tmp_path)).train(data(labels), steps=30)
    result = estimator.evaluate(data(labels, endless=False))
    assert sorted(result) == ["accuracy", "average_loss", "global_step", "loss"] and result["average_loss"] < np.log(3)
    rows = list(estimator.predict(data(labels, endless=False)))
    chosen = np.array([row["class_ids"][0] for row in rows])
    assert result["accuracy"] == pytest.approx(np.mean(chosen == labels))
    assert [row["classes"][0] for row in rows] == [str(number) for number in chosen]
    assert -np.mean(np.log([row["probabilities"][label] for row, label in zip(rows, labels, strict=True)])) == pytest.approx(
        result["average_loss"], rel=1e-4
    )


# -- deep -----------------------------------------------------------------------------------------------------------------


def test_a_deep_network_is_that_of_plain_keras_with_its_columns_in_the_order_of_names(tmp_path: Path) -> None:
    labels = rng.normal(size=(24, 1)).astype(np.float32)
    vectors = fc.embedding_column(DAYS, 2, combiner="sqrtn", initializer=plain.initializers.GlorotUniform(7))
    columns = [NUMBERS, fc.indicator_column(COLOURS), vectors, AGES]
    estimator = DNNRegressor([4], columns, optimizer="SGD", activation_fn="tanh", config=options(tmp_path, save_checkpoints_steps=6))
    estimator.train(data(labels), steps=6)
    first = str(tmp_path / "model.ckpt-0")

    def value(name: str, path: str | None = None) -> np.ndarray:
        from simdist.estimator.saved_steps import saved_values

        return saved_values(path or estimator.latest_checkpoint())[f"dnn/{name}"]

    names = ["input_layer/days_embedding/embedding_weights", "hiddenlayer_0/kernel", "hiddenlayer_0/bias", "logits/kernel", "logits/bias"]
    colours = one_hot(np.array([list(WORDS).index(word) for word in FEATURES["colour"]])[:, None], 3)
    floats = np.column_stack([one_hot(np.digitize(FEATURES["age"], [18, 65])[:, None], 3), colours]).astype(np.float32)
    weights = [plain.ops.convert_to_tensor(value(name, first)) for name in names]

    def loss(weights: Any, batch: Any) -> Any:
        table, kernel, bias, last, end = weights
        there = (FEATURES["days"][batch] >= 0).astype(np.float32)[..., None]
        rows = plain.ops.take(table, np.maximum(FEATURES["days"][batch], 0), axis=0) * there
        vector = plain.ops.sum(rows, axis=1) / np.sqrt(np.maximum(there.sum(axis=1), 1))
        hidden = plain.ops.tanh(plain.ops.concatenate([floats[batch], vector, FEATURES["x"][batch]], axis=1) @ kernel + bias)
        return plain.ops.mean((hidden @ last + end - labels[batch]) ** 2)

    import jax

    for step in range(6):
        batch = np.arange(8 * step, 8 * step + 8) % 24
        weights = [weight - 0.01 * part for weight, part in zip(weights, jax.grad(loss)(weights, batch), strict=True)]
    for name, expected in zip(names, weights, strict=True):
        assert value(name) == pytest.approx(np.asarray(expected), abs=1e-5)


def test_a_deep_classifier_with_dropout_and_normalization_under_parameter_servers(tmp_path: Path) -> None:
    labels = (FEATURES["x"][:, :1] > 0).astype(np.int32)
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    servers = options(tmp_path, train_distribute=strategy, save_checkpoints_steps=100)
    estimator = DNNClassifier([4], [NUMBERS], optimizer="SGD", dropout=0.2, batch_norm=True, config=servers).train(data(labels), steps=3)
    names = ["batchnorm_0/beta", "batchnorm_0/gamma", "batchnorm_0/moving_mean", "batchnorm_0/moving_variance"]
    names += ["hiddenlayer_0/bias", "hiddenlayer_0/kernel", "logits/bias", "logits/kernel"]
    assert [name for name in estimator.get_variable_names() if name.startswith("dnn/")] == [f"dnn/{name}" for name in names]
    assert np.any(estimator.get_variable_value("dnn/batchnorm_0/moving_mean") != 0)
    first, again = (list(estimator.predict(data(labels, endless=False))) for _ in range(2))
    assert [row["logits"] for row in first] == [row["logits"] for row in again]  # nothing is left out of a prediction


def test_vectors_that_are_not_trainable_stay(tmp_path: Path) -> None:
    column = fc.embedding_column(DAYS, 2, initializer="ones", trainable=False)
    estimator = DNNRegressor([2], [column], optimizer="SGD", config=options(tmp_path)).train(data(np.ones(24)), steps=2)
    assert np.all(estimator.get_variable_value("dnn/input_layer/days_embedding/embedding_weights") == 1)


def test_names_that_an_optimizer_leaves_out_of_weight_decay_are_left_out(tmp_path: Path) -> None:
    rate, decay = 0.1, 0.5
    optimizer = keras.optimizers.SGD(rate, weight_decay=decay)
    optimizer.exclude_from_weight_decay(var_names=["bias_weights"])
    labels = 3 + FEATURES["x"].sum(axis=1)
    for given in (optimizer, keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)):
        directory = tmp_path / type(given).__name__
        estimator = LinearRegressor([NUMBERS], optimizer=given, config=options(directory)).train(data(labels, 24), steps=5)
        weights, bias = np.zeros(2), 0.0
        for _ in range(5):
            errors = FEATURES["x"] @ weights + bias - labels
            weights = (1 - rate * decay) * weights - rate * 2 * FEATURES["x"].T @ errors / 24
            bias -= rate * 2 * errors.mean()
        assert estimator.get_variable_value("linear/linear_model/bias_weights") == pytest.approx([bias], abs=1e-5)
        assert estimator.get_variable_value("linear/linear_model/x/weights")[:, 0] == pytest.approx(weights, abs=1e-5)
    by_identity = keras.optimizers.SGD(rate, weight_decay=decay)
    by_identity.exclude_from_weight_decay(var_list=[plain.Variable(0.0)])
    for given in (by_identity, sd.Optimizer(by_identity)):
        with pytest.raises(InvalidArgumentError, match=r"var_list=.*Give their names"):
            LinearRegressor([NUMBERS], optimizer=given)


def test_one_optimizer_may_be_given_to_several_estimators(tmp_path: Path) -> None:
    labels = FEATURES["x"].sum(axis=1)
    for kind, given in {"keras": sd.Optimizer(keras.optimizers.Adam(0.1)), "optax": sd.Optimizer(optax.adam(0.1), lazy_rows=True)}.items():
        found = []
        for name in ("first", "second"):
            unsaved = LinearRegressor([NUMBERS], optimizer=given, config=options(tmp_path / kind / "unsaved", save_checkpoints_steps=None))
            estimator = LinearRegressor([NUMBERS], optimizer=given, config=options(tmp_path / kind / name))
            for trained in (unsaved, unsaved, estimator):
                trained.train(data(labels), steps=2)
            found.append(estimator.get_variable_value("linear/linear_model/x/weights"))
        np.testing.assert_array_equal(*found)


# -- what is refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LinearRegressor([]), ValueError, "is empty"),
        (lambda: LinearRegressor(["x"]), TypeError, "feature_columns has 'x'"),  # type: ignore[list-item]
        (lambda: LinearRegressor([NUMBERS, NUMBERS]), ValueError, "two columns of the name 'x'"),
        (lambda: LinearRegressor(COLUMNS, optimizer="sgd"), ValueError, "'sgd' is not known; use one of 'Adagrad'"),
        (lambda: LinearRegressor(COLUMNS, optimizer=3), TypeError, "optimizer is 3"),  # type: ignore[arg-type]
        (lambda: LinearRegressor(COLUMNS, sparse_combiner="max"), ValueError, "sparse_combiner='max'"),
        (lambda: LinearRegressor(COLUMNS, weight_column="w"), ValueError, "weight_column='w'"),  # type: ignore[arg-type]
        (lambda: LinearRegressor(COLUMNS, loss_reduction="sum"), ValueError, "the loss of a batch is a mean"),
        (lambda: LinearRegressor(COLUMNS, label_dimension=0), ValueError, "label_dimension is 0"),
        (lambda: LinearClassifier(COLUMNS, n_classes=1), ValueError, "n_classes is 1"),
        (lambda: LinearClassifier(COLUMNS, label_vocabulary=["a", "a"]), ValueError, "2 different names"),
        (lambda: DNNRegressor([4], [COLOURS]), ValueError, "Wrap it: indicator_column"),
        (lambda: LinearClassifier(COLUMNS, label_vocabulary="ab"), TypeError, "expected a list of names"),
        (lambda: DNNRegressor([0], COLUMNS), ValueError, "hidden_units is 0"),
        (lambda: DNNRegressor("16", COLUMNS), TypeError, "hidden_units is '16'; expected a list of the units of each layer"),
        (lambda: DNNRegressor([2], 5), TypeError, "feature_columns is 5; expected a list of feature columns"),
        (lambda: DNNRegressor([2], COLUMNS, activation_fn="rellu"), ValueError, "activation_fn='rellu' is no activation of Keras"),
        (lambda: DNNRegressor([2], COLUMNS, activation_fn=np.zeros(2)), ValueError, "activation_fn=.* is no activation of Keras"),
        (lambda: DNNRegressor(3, COLUMNS), TypeError, "expected a list of the units"),  # type: ignore[arg-type]
        (lambda: DNNClassifier([4], COLUMNS, dropout=1.0), ValueError, "dropout=1.0"),
        (lambda: DNNClassifier([4], COLUMNS, batch_norm=1), TypeError, "batch_norm"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_make_no_sense_are_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("labels", "n_classes", "message"),
    [
        (np.full(24, 3), 3, "a label 3; with n_classes=3"),
        (np.full(24, 0.5), 2, "a label 0.5"),
        (np.full(24, "a"), 2, "give a label_vocabulary"),
        (np.zeros((24, 2)), 2, r"expected \(b, 1\) or \(b,\)"),
    ],
)
def test_labels_that_cannot_be_are_refused(tmp_path: Path, labels: np.ndarray, n_classes: int, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        LinearClassifier([NUMBERS], n_classes=n_classes, config=options(tmp_path)).train(data(labels), steps=1)


def test_a_third_part_of_an_element_is_refused_unless_it_is_predicted(tmp_path: Path) -> None:
    estimator = LinearRegressor([NUMBERS], config=options(tmp_path))

    def weighted() -> sd.Dataset:
        return sd.Dataset.from_tensor_slices((FEATURES, np.ones(24), np.zeros(24))).batch(8)

    for call in (estimator.train, estimator.evaluate):
        with pytest.raises(InvalidArgumentError, match=r"tuples of 3 parts.*weight_column=.*leave the third part out"):
            call(weighted)
    assert len(list(estimator.predict(weighted))) == 24


def test_features_without_labels_are_refused_unless_they_are_predicted(tmp_path: Path) -> None:
    estimator = LinearRegressor([NUMBERS], config=options(tmp_path))

    def unlabelled() -> sd.Dataset:
        return sd.Dataset.from_tensor_slices(FEATURES).batch(8)

    for call in (estimator.train, estimator.evaluate):
        with pytest.raises(InvalidArgumentError, match=r"features alone.*Let it give pairs \(features, labels\)"):
            call(unlabelled)
    assert len(list(estimator.predict(unlabelled))) == 24


@pytest.mark.parametrize("labels", [np.full(24, -1), np.full(24, "?"), np.zeros((24, 7))])
def test_nobody_looks_at_the_labels_of_a_prediction(tmp_path: Path, labels: np.ndarray) -> None:
    estimator = LinearClassifier([NUMBERS], config=options(tmp_path))
    assert [row["class_ids"].tolist() for row in estimator.predict(data(labels, endless=False))] == [[0]] * 24


def test_features_without_their_column_are_refused(tmp_path: Path) -> None:
    estimator = LinearRegressor([fc.numeric_column("y")], config=options(tmp_path))
    with pytest.raises(InvalidArgumentError, match="have no 'y'"):
        estimator.train(input_fn(), steps=1)
    words = LinearClassifier([NUMBERS], label_vocabulary=["no", b"yes"], config=options(tmp_path))
    assert set(words.evaluate(data(np.full(24, "yes")), steps=1)) > {"accuracy"}
    with pytest.raises(InvalidArgumentError, match="'maybe', which is not in the label_vocabulary"):
        words.evaluate(data(np.full(24, "maybe")), steps=1)
