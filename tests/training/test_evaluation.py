"""evaluate and predict under strategies are those of plain Keras: values, their order, hooks, and what they leave behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

X = np.random.default_rng(0).random((23, 6), np.float32)
Y = X.sum(1, keepdims=True)
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored 2": lambda: sd.MirroredStrategy(2),
    "parameter servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})),
}


def linear(namespace: Any, **options: Any) -> Any:
    model = namespace.Sequential([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mse", **options)
    return model


def both(make: Callable[[Any], Any], strategy: str = "mirrored 2") -> tuple[Any, Any]:
    """The same model under a strategy, and of plain Keras."""
    with STRATEGIES[strategy]().scope():
        ours = make(keras)
    return ours, make(plain)


@pytest.mark.parametrize("strategy", sampled(["one device", "mirrored 2"], ["mirrored 2"]))
def test_test_step_of_the_users_own_gives_the_logs_of_evaluate_and_of_validation(strategy: str) -> None:
    def make(namespace: Any) -> Any:
        class Mine(namespace.Model):
            def __init__(self) -> None:
                super().__init__()
                self.out = keras.layers.Dense(1, kernel_initializer="ones")

            def call(self, x: Any) -> Any:
                return self.out(x)

            def test_step(self, state: Any, data: Any) -> Any:
                logs, state = super().test_step(state, data)
                return {"twice": 2 * logs["loss"]}, state

        model = Mine()
        model.compile(keras.optimizers.SGD(0.01), "mse")
        return model

    ours, expected = both(make, strategy)
    assert ours.evaluate(X, Y, verbose=0) == pytest.approx(expected.evaluate(X, Y, verbose=0), rel=1e-6)
    options: dict[str, Any] = {"batch_size": 8, "shuffle": False, "verbose": 0, "validation_data": (X, Y)}
    found, wanted = (model.fit(X, Y, **options).history for model in (ours, expected))
    assert list(found) == list(wanted) == ["loss", "val_twice"]
    assert found["val_twice"] == pytest.approx(wanted["val_twice"], rel=1e-5)


def test_compute_metrics_of_the_users_own_is_followed_by_evaluate_and_fit() -> None:
    def make(namespace: Any) -> Any:
        class Mine(namespace.Sequential):
            def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
                return {**super().compute_metrics(x, y, y_pred, sample_weight), "largest": keras.ops.max(y_pred)}

        model = Mine([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile("sgd", "mse")
        return model

    ours, expected = both(make)
    found = ours.evaluate(X, Y, verbose=0, return_dict=True)
    assert found == pytest.approx(expected.evaluate(X, Y, verbose=0, return_dict=True), rel=1e-6)
    assert set(found) == {"loss", "largest"}
    found, wanted = (model.fit(X, Y, shuffle=False, verbose=0).history for model in both(make, "one device"))
    assert list(found) == list(wanted) and found["largest"] == pytest.approx(wanted["largest"], rel=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("data", [X, {"a": X}], ids=["array", "dict"])
def test_a_predict_step_of_the_users_own_gets_arrays_as_from_keras_in_no_tuple(data: Any, strategy: str) -> None:
    def make(namespace: Any) -> Any:
        class Mine(namespace.Sequential):
            def predict_step(self, state: Any, data: Any) -> Any:
                return keras.ops.sum(data["a"] if isinstance(data, dict) else data, axis=-1), state[1]

        model = Mine([keras.Input((6,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model

    ours, expected = both(make, strategy)
    np.testing.assert_allclose(ours.predict(data, verbose=0), expected.predict(data, verbose=0), rtol=1e-5)


def test_compute_loss_and_predict_step_of_the_users_own_are_called() -> None:
    def make(namespace: Any) -> Any:
        class Mine(namespace.Sequential):
            def compute_loss(
                self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
            ) -> Any:
                return 3 * keras.ops.mean((y - y_pred) ** 2)

            def predict_step(self, state: Any, data: Any) -> Any:
                output, state = super().predict_step(state, data)
                return output + 7, state

        model = Mine([keras.Input((6,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        return model

    ours, expected = both(make)
    found, wanted = (model.fit(X, Y, batch_size=8, shuffle=False, verbose=0, epochs=2).history["loss"] for model in (ours, expected))
    assert found == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(ours.predict(X, verbose=0), expected.predict(X, verbose=0), rtol=1e-5, atol=1e-6)


def test_values_of_several_outputs_come_in_the_order_of_keras() -> None:
    def make(namespace: Any) -> Any:
        inputs = keras.Input((6,))
        outputs = {
            name: keras.layers.Dense(1, kernel_initializer="ones", bias_initializer=bias, name=name)(inputs) for name, bias in BIASES
        }
        model = namespace.Model(inputs, outputs)
        model.compile("sgd", {"p": "mse", "q": "mse"}, metrics={"p": ["mae"]})
        return model

    ours, expected = both(make)
    targets = {"p": 2 * Y, "q": 3 * Y}
    wanted = expected.evaluate(X, targets, verbose=0)
    assert ours.evaluate(X, targets, verbose=0) == pytest.approx(wanted, rel=1e-6)
    assert len(set(wanted)) == 4
    by_name = expected.evaluate(X, targets, verbose=0, return_dict=True)
    assert list(ours.evaluate(X, targets, verbose=0, return_dict=True)) == list(by_name)


BIASES = (("p", "zeros"), ("q", "ones"))


class Span(plain.metrics.Metric):
    """Two results under names of their own."""

    def __init__(self) -> None:
        super().__init__(name="span")
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign_add(keras.ops.sum(y_pred))

    def result(self) -> Any:
        return {"span_once": 1 * self.total, "span_twice": 2 * self.total}


def test_metrics_that_are_no_scalars_are_given_as_keras_gives_them() -> None:
    labels = np.eye(2, dtype=np.float32)[np.arange(len(X)) % 2]

    def make(namespace: Any) -> Any:
        model = namespace.Sequential(
            [keras.Input((6,)), keras.layers.Dense(2, "softmax", kernel_initializer=keras.initializers.GlorotUniform(3))]
        )
        model.compile(keras.optimizers.SGD(0.1), "mse", metrics=[keras.metrics.F1Score(), Span()])
        return model

    ours, expected = both(make)
    found, wanted = (model.fit(X, labels, batch_size=8, shuffle=False, verbose=0).history for model in (ours, expected))
    assert list(found) == list(wanted) == ["f1_score", "loss", "span_once", "span_twice"]
    np.testing.assert_allclose(found["f1_score"][0], wanted["f1_score"][0], rtol=1e-6)
    assert found["span_twice"] == pytest.approx(wanted["span_twice"], rel=1e-5)
    values, expected_values = (model.evaluate(X, labels, verbose=0) for model in (ours, expected))
    for value, expected_value in zip(values, expected_values, strict=True):
        np.testing.assert_allclose(value, expected_value, rtol=1e-5)


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["mirrored 2", "parameter servers"]))
def test_distributed_data_is_evaluated_and_predicted_as_the_plain_dataset(strategy: str) -> None:
    model, expected = both(lambda namespace: linear(namespace, metrics=["mae"]), strategy)
    dataset = sd.Dataset.from_tensor_slices((X, Y)).batch(8)
    own = model.simdist_strategy

    def made(context: sd.InputContext) -> sd.Dataset:
        rows = sd.Dataset.from_tensor_slices((X, Y)).shard(context.num_input_pipelines, context.input_pipeline_id)
        return rows.batch(context.get_per_replica_batch_size(8))

    wanted = expected.evaluate(X, Y, batch_size=8, verbose=0)
    functions = [sd.DatasetCreator(made), own.distribute_datasets_from_function(made)]
    for data in functions:
        assert model.evaluate(data, steps=3, verbose=0) == pytest.approx(wanted, rel=1e-6)
        with pytest.raises(sd.errors.InvalidArgumentError, match="steps"):
            model.evaluate(data, verbose=0)
    distributed = own.distribute_dataset(dataset) if hasattr(own, "distribute_dataset") else dataset
    assert model.evaluate(distributed, verbose=0) == pytest.approx(wanted, rel=1e-6)
    np.testing.assert_allclose(model.predict(distributed, verbose=0), expected.predict(X, verbose=0), rtol=1e-6, atol=1e-6)
    for data, steps in ((distributed, None), (functions[0], 3)):
        history = model.fit(dataset, epochs=1, steps_per_epoch=1, verbose=0, validation_data=data, validation_steps=steps).history
        expected.set_weights(model.get_weights())
        assert history["val_mae"] == pytest.approx([expected.evaluate(X, Y, batch_size=8, verbose=0)[1]], rel=1e-6)


@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_data_without_an_end_is_refused_where_steps_are_missing(call: str) -> None:
    model, _ = both(linear)
    endless = sd.Dataset.from_tensor_slices((X, Y)).batch(8).repeat()
    with pytest.raises(sd.errors.InvalidArgumentError, match="no end"):
        getattr(model, call)(endless, verbose=0)
    getattr(model, call)(endless, steps=2, verbose=0)
    with pytest.raises(sd.errors.InvalidArgumentError, match="no end"):
        model.fit(X, Y, verbose=0, validation_data=endless)


def test_steps_end_evaluation_early_and_data_that_ends_before_is_reported() -> None:
    model, expected = both(linear)
    assert model.evaluate(X, Y, batch_size=8, steps=2, verbose=0) == pytest.approx(expected.evaluate(X[:16], Y[:16], verbose=0), rel=1e-6)
    with pytest.warns(UserWarning, match="after 3 of 5 steps"):
        model.predict(X, batch_size=8, steps=5, verbose=0)


class Diary(plain.callbacks.Callback):
    """Writes down what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Any] = []

    def on_test_begin(self, logs: Any = None) -> None:
        self.lines.append("begin")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.lines.append(batch)

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.lines.append((batch, None if logs is None else round(logs["loss"], 3)))

    def on_test_end(self, logs: Any = None) -> None:
        self.lines.append(sorted(logs or {}))

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.lines.append((batch, len((logs or {})["outputs"])))

    def on_predict_end(self, logs: Any = None) -> None:
        self.lines.append("end")


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_callbacks_are_told_of_evaluation_and_prediction_what_keras_tells_them(steps_per_execution: int) -> None:
    diaries: list[Any] = []
    for model in both(lambda namespace: linear(namespace, steps_per_execution=steps_per_execution)):
        diary = Diary()
        model.evaluate(X, Y, batch_size=8, verbose=0, callbacks=[diary])
        model.predict(X, batch_size=8, verbose=0, callbacks=[diary])
        diaries.append(diary.lines)
    # Keras numbers the last of three batches as if there were a fourth.
    wanted = [(2, *line[1:]) if isinstance(line, tuple) and line[0] == 3 else line for line in diaries[1]]
    assert diaries[0] == wanted
    assert diaries[0][0] == "begin"


def test_progress_is_shown_as_verbose_says(capsys: pytest.CaptureFixture[str]) -> None:
    model, _ = both(linear)
    model.evaluate(X, Y, verbose=0)
    model.predict(X, verbose=0)
    assert capsys.readouterr().out == ""
    model.evaluate(X, Y, verbose=2)
    model.predict(X, verbose=2)
    shown = capsys.readouterr().out
    assert "loss" in shown
    assert shown.count("1/1") == 2


def test_state_that_a_layer_carries_from_batch_to_batch_is_kept_as_in_keras() -> None:
    def make(namespace: Any) -> Any:
        cell = keras.layers.SimpleRNN(2, stateful=True, kernel_initializer="ones", recurrent_initializer="ones")
        return namespace.Sequential([keras.Input(batch_shape=(4, 3, 1)), cell])

    steps = np.linspace(0, 0.1, 24, dtype=np.float32).reshape(8, 3, 1)
    ours, expected = both(make)
    for _ in range(2):
        np.testing.assert_allclose(ours.predict(steps, 4, verbose=0), expected.predict(steps, 4, verbose=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first", [[], [keras.Input((6,))]], ids=["batches in turn", "batches anywhere"])
def test_moving_averages_of_replicas_count_by_their_mean_and_stay_as_they_are(first: list[Any]) -> None:
    def make(namespace: Any) -> Any:
        model = namespace.Sequential([*first, keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse")
        return model

    ours, expected = both(make)
    for model in (ours, expected):
        model.fit(X[:16], Y[:16], batch_size=8, verbose=0)
    expected.set_weights(ours.get_weights())
    strategy = ours.simdist_state.strategy
    before = [np.asarray(value) for value in strategy.local_results(ours.layers[0].moving_mean)]
    assert np.abs(before[0] - before[1]).max() > 1e-3
    np.testing.assert_allclose(ours.predict(X, 8, verbose=0), expected.predict(X, 8, verbose=0), rtol=1e-5, atol=1e-6)
    assert ours.evaluate(X, Y, 8, verbose=0) == pytest.approx(expected.evaluate(X, Y, 8, verbose=0), rel=1e-5)
    after = [np.asarray(value) for value in strategy.local_results(ours.layers[0].moving_mean)]
    np.testing.assert_array_equal(before, after)


def test_a_subclassed_model_predicts_before_it_has_seen_targets() -> None:
    def make(namespace: Any) -> Any:
        class Mine(namespace.Model):
            def __init__(self) -> None:
                super().__init__()
                self.out = keras.layers.Dense(1, kernel_initializer="ones")

            def call(self, x: Any) -> Any:
                return self.out(x)

        model = Mine()
        model.compile(keras.optimizers.SGD(0.01), "mse", metrics=["mae"])
        return model

    ours, expected = both(make)
    np.testing.assert_allclose(ours.predict(X, verbose=0), expected.predict(X, verbose=0), rtol=1e-6, atol=1e-6)
    found, wanted = (model.fit(X, Y, shuffle=False, verbose=0).history["mae"] for model in (ours, expected))
    assert found == pytest.approx(wanted, rel=1e-6)


def test_single_batches_are_evaluated_and_predicted() -> None:
    ours, expected = both(lambda namespace: linear(namespace, metrics=["mae"]))
    weight = np.arange(len(X), dtype=np.float32)
    assert ours.test_on_batch(X, Y) == pytest.approx(expected.test_on_batch(X, Y), rel=1e-6)
    wanted = expected.test_on_batch(X, Y, weight, return_dict=True)
    assert ours.test_on_batch(X, Y, weight, return_dict=True) == pytest.approx(wanted, rel=1e-6)
    np.testing.assert_allclose(ours.predict_on_batch(X), expected.predict_on_batch(X), rtol=1e-6)


def predicted_on(layers: list[Any]) -> tuple[Any, set[str]]:
    """The predictions of a model for 23 rows, and the devices that have computed them."""
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = keras.Sequential(layers)
    model.compile("sgd", "mse")
    model.fit(X[:16], Y[:16], batch_size=8, verbose=0)
    began = strategy.cluster.now
    outputs = model.predict(X[:16], batch_size=8, verbose=0)
    return outputs, {span.lane for span in strategy.cluster.trace.spans.where(category="compute") if span.start_s >= began}


def test_a_sequential_model_without_an_input_is_predicted_on_all_replicas() -> None:
    outputs, devices = predicted_on([keras.layers.Dense(1)])
    assert outputs.shape == (16, 1)
    assert len(devices) == 2


def test_a_model_for_one_size_of_batches_is_predicted_in_one_place() -> None:
    fixed = [keras.Input(batch_shape=(8, 6)), keras.layers.Dense(1), keras.layers.Lambda(lambda x: keras.ops.reshape(x, (8, 1)))]
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = keras.Sequential(fixed)
    model.compile("sgd", "mse")
    assert model.predict(X[:16], batch_size=8, verbose=0).shape == (16, 1)
    assert len({span.lane for span in strategy.cluster.trace.spans.where(category="compute")}) == 1
