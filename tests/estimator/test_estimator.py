"""Estimators with model functions of their own: the numbers of plain Keras, on replicas, and from checkpoint to checkpoint."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import keras as plain
import numpy as np
import optax
import pytest

import simdist as sd
from estimators import X, Y, config, descended, input_fn, regressor, weights
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, OutOfRangeError
from simdist.estimator import Estimator, EstimatorSpec, ModeKeys

# Plain Keras turns its variables into numpy arrays in a way that numpy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
TARGETS = Y[:, None]


def network(namespace: Any) -> list[Any]:
    """Layers with fixed initial values."""
    return [
        namespace.layers.Dense(n, name=name, kernel_initializer=plain.initializers.GlorotUniform(n)) for n, name in ((4, "a"), (1, "b"))
    ]


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    """Two layers, the mean squared error, and an optimizer of the params."""
    net = features["x"]
    for layer in network(keras):
        net = layer(net)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": net, "twice": 2 * net})
    error = keras.metrics.MeanAbsoluteError(name="mae")
    error.update_state(labels, net)
    loss = keras.losses.MeanSquaredError()(labels, net)
    return EstimatorSpec(mode, loss=loss, train_op=params["optimizer"](), eval_metric_ops={"mae": error})


def batches(batch_size: int, endless: bool = True) -> Callable[[], sd.Dataset]:
    def make() -> sd.Dataset:
        dataset = sd.Dataset.from_tensor_slices(({"x": X}, TARGETS))
        return (dataset.repeat() if endless else dataset).batch(batch_size)

    return make


def deep(directory: Path, optimizer: Callable[[], Any] = lambda: keras.optimizers.Adam(0.05), **options: Any) -> Estimator:
    return Estimator(model_fn, config=config(directory, **options), params={"optimizer": optimizer})


def values(estimator: Estimator) -> list[np.ndarray]:
    return [estimator.get_variable_value(f"{layer}/{name}") for layer in ("a", "b") for name in ("kernel", "bias")]


def by_keras(steps: int, batch_size: int) -> list[np.ndarray]:
    """The same weights, trained by plain Keras on one device."""
    model = plain.Sequential([plain.Input((3,)), *network(plain)])
    model.compile(plain.optimizers.Adam(0.05), "mse")
    rows = np.arange(steps * batch_size) % len(X)
    model.fit(X[rows], TARGETS[rows], batch_size=batch_size, shuffle=False, verbose=0)
    return model.get_weights()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Estimator:
    """Eight steps of twelve rows on one device, with a checkpoint every four."""
    return deep(tmp_path_factory.mktemp("trained"), save_checkpoints_steps=4).train(batches(12), steps=8)


# -- numbers ------------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_plain_keras_on_one_device_and_on_replicas(trained: Estimator, tmp_path: Path) -> None:
    expected = by_keras(8, 12)
    three = deep(tmp_path, train_distribute=sd.MirroredStrategy(3)).train(batches(4), steps=8)
    for estimator in (trained, three):
        for found, wanted in zip(values(estimator), expected, strict=True):
            assert found == pytest.approx(wanted, abs=1e-6)


def test_uneven_last_batches_weigh_by_their_rows(tmp_path: Path) -> None:
    # 48 rows, in batches of 10 for two replicas: 10 + 10, 10 + 10, 8 + none.
    estimator = regressor(tmp_path, train_distribute=sd.MirroredStrategy(2)).train(input_fn(10, endless=False))
    assert estimator.get_variable_value("global_step") == 3
    assert weights(estimator) == pytest.approx(descended(3, 20, epoch=True), abs=1e-6)


def test_a_replica_without_rows_changes_nothing_of_layers_and_losses(tmp_path: Path) -> None:
    found = deep(tmp_path, train_distribute=sd.MirroredStrategy(2)).train(batches(48, endless=False))
    assert found.get_variable_value("global_step") == 1
    assert all(np.isfinite(value).all() for value in values(found))


@pytest.mark.parametrize(
    ("optimizer", "momentum"),
    [
        (sd.Optimizer(optax.sgd(0.05)), 0.0),
        (keras.optimizers.SGD(0.05, momentum=0.9), 0.9),
        (lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), initial_scale=8.0), 0.0),
    ],
    ids=["optax", "momentum", "loss scale"],
)
def test_other_optimizers_do_what_they_do_on_one_device(tmp_path: Path, optimizer: Any, momentum: float) -> None:
    estimator = regressor(tmp_path, optimizer, train_distribute=sd.MirroredStrategy(2)).train(input_fn(8), steps=3)
    estimator.train(lambda: input_fn(8)().skip(6), steps=3)  # it goes on, with what the optimizer has kept
    assert weights(estimator) == pytest.approx(descended(6, 16, 0.05, momentum), abs=1e-6)


def test_two_calls_equal_one_bit_for_bit_also_in_another_program(trained: Estimator, tmp_path: Path) -> None:
    assert deep(tmp_path).train(batches(12), steps=4).get_variable_value("global_step") == 4
    again = deep(tmp_path).train(batches(12), max_steps=8)  # its data begin anew: four batches are a pass
    for one, other in zip(values(trained), values(again), strict=True):
        assert np.array_equal(one, other)
    names = again.get_variable_names()
    assert [name for name in names if name.startswith("adam")] and {"a/kernel", "global_step"} <= set(names)


def test_evaluation_and_prediction_are_those_of_the_weights(trained: Estimator) -> None:
    (first, bias), (last, end) = values(trained)[:2], values(trained)[2:]
    outputs = (X @ first + bias) @ last + end
    estimator = deep(Path(trained.model_dir), eval_distribute=sd.MirroredStrategy(2))
    result = estimator.evaluate(batches(12, endless=False))
    assert result == {
        "global_step": 8,
        "loss": pytest.approx(np.mean((outputs - TARGETS) ** 2), rel=1e-5),
        "mae": pytest.approx(np.mean(np.abs(outputs - TARGETS)), rel=1e-5),
    }
    assert estimator.evaluate(batches(12, endless=False)) == result  # metrics begin anew
    rows = list(estimator.predict(batches(20, endless=False)))
    assert np.stack([row["y"] for row in rows]) == pytest.approx(outputs, abs=1e-5)
    assert {key: value.shape for key, value in rows[0].items()} == {"y": (1,), "twice": (1,)}
    (whole,) = estimator.predict(lambda: sd.Dataset.from_tensor_slices({"x": X}).batch(48), "twice", yield_single_examples=False)
    assert list(whole) == ["twice"] and whole["twice"] == pytest.approx(2 * outputs, abs=1e-5)


def test_an_older_checkpoint_can_be_asked_for(trained: Estimator) -> None:
    directory = Path(trained.model_dir)
    older = str(directory / "model.ckpt-4")
    assert trained.latest_checkpoint() == str(directory / "model.ckpt-8")
    assert trained.evaluate(batches(12), steps=1, checkpoint_path=older)["global_step"] == 4
    first = next(trained.predict(batches(12), checkpoint_path=older))["y"]
    assert first != pytest.approx(next(trained.predict(batches(12)))["y"], abs=1e-6)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        trained.evaluate(batches(12), steps=1, checkpoint_path=older + "0")


def test_initial_values_follow_from_the_seed(tmp_path: Path) -> None:
    def dense(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        prediction = keras.layers.Dense(1)(features["x"])
        return EstimatorSpec(mode, prediction, jnp.mean((prediction - labels) ** 2) if labels is not None else None)

    first = [next(Estimator(dense, tmp_path, config(tmp_path, tf_random_seed=seed)).predict(batches(4))) for seed in (1, 1, 2)]
    assert first[0] == first[1] != first[2]


# -- files and reports --------------------------------------------------------------------------------------------------


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """What the event files of a directory say, by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(directory)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_event_files_have_losses_speeds_and_results(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    estimator = regressor(tmp_path, save_summary_steps=2, log_step_count_steps=3)
    with caplog.at_level(logging.INFO, "simdist"):
        estimator.train(input_fn(16), steps=7)
    found = scalars(tmp_path)
    assert [step for step, _ in found["loss"]] == [2, 4, 6]
    assert [step for step, _ in found["global_step/sec"]] == [3, 6] and all(rate > 0 for _, rate in found["global_step/sec"])
    assert "Step 3: the loss is" in caplog.text and "The loss of the last step, 7, is" in caplog.text
    result = estimator.evaluate(input_fn(16), steps=1, name="first")
    assert scalars(tmp_path / "eval_first")["average_loss"] == [(7, pytest.approx(result["average_loss"]))]


def test_old_checkpoints_go_and_a_listener_hears_of_each_and_can_end_the_training(tmp_path: Path) -> None:
    heard: list[str] = []

    class Listener(sd.estimator.CheckpointSaverListener):
        def begin(self) -> None:
            heard.append("begin")

        def before_save(self, session: None, global_step_value: int) -> None:
            heard.append(f"before {global_step_value}")

        def after_save(self, session: None, global_step_value: int) -> bool:
            heard.append(f"after {global_step_value}")
            return global_step_value == 4

        def end(self, session: None, global_step_value: int) -> None:
            heard.append(f"end {global_step_value}")

    estimator = regressor(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=2)
    estimator.train(input_fn(16), steps=100, saving_listeners=[Listener()])
    assert heard == ["begin", "before 0", "after 0", "before 2", "after 2", "before 4", "after 4", "end 4"]
    assert sorted(path.name for path in tmp_path.glob("model.ckpt-*")) == ["model.ckpt-2", "model.ckpt-4"]


def test_checkpoints_by_virtual_seconds(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1}, hardware=sd.hardware.Device(launch_overhead=1.0))
    strategy = sd.OneDeviceStrategy(cluster=cluster)
    regressor(tmp_path, save_checkpoints_secs=4.5, train_distribute=strategy, keep_checkpoint_max=0).train(input_fn(16), steps=7)
    steps = sorted(int(path.name.rpartition("-")[2]) for path in tmp_path.glob("model.ckpt-*"))
    step_s = cluster.now / 7  # saving takes next to no time
    between = int(np.ceil(4.5 / step_s))
    assert steps == sorted({*range(0, 7, between), 7}) and 1 < between < 6


# -- errors -------------------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_takes_no_place_of_a_good_checkpoint(tmp_path: Path) -> None:
    estimator = deep(tmp_path, lambda: keras.optimizers.SGD(1e30), save_checkpoints_steps=2)
    with pytest.raises(InvalidArgumentError, match=r"no number \(NaN\) in the \d steps so far.*last checkpoint is of step"):
        estimator.train(batches(12), steps=40)
    assert not any(np.isnan(value).any() for value in values(estimator))
    unsaved = deep(tmp_path / "unsaved", lambda: keras.optimizers.SGD(1e30), save_checkpoints_steps=None)
    with pytest.raises(InvalidArgumentError, match=r"in the 9 steps so far, so nothing is saved\. Lower"):
        unsaved.train(batches(12), steps=9)


def test_a_loss_that_is_no_number_is_found_where_the_newest_one_does_not_show_it(tmp_path: Path) -> None:
    """A worker that has read before; and a step that looks up other rows of a table."""

    def of_two_workers(input_context: sd.InputContext) -> sd.Dataset:
        labels = np.where(np.arange(len(Y)) == 0, np.nan, Y)
        return sd.Dataset.from_tensor_slices(({"x": X}, labels)).batch(8).shard(2, input_context.input_pipeline_id)

    servers = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    with pytest.raises(InvalidArgumentError, match="in the 2 steps so far"):
        regressor(tmp_path / "servers", train_distribute=servers, save_checkpoints_steps=2).train(of_two_workers, steps=2)

    def rows_of_a_table(features: Any, labels: Any, mode: str) -> sd.estimator.EstimatorSpec:
        outputs = keras.layers.Embedding(4, 1)(features)
        return sd.estimator.EstimatorSpec(mode, loss=keras.ops.mean((outputs - labels) ** 2), train_op=keras.optimizers.SGD(0.1))

    def row_after_row() -> sd.Dataset:
        return sd.Dataset.from_tensor_slices((np.arange(4), np.array([0, np.nan, 0, 0], np.float32))).batch(1)

    for strategy in (None, sd.MirroredStrategy(2)):
        config = sd.estimator.RunConfig(str(tmp_path / str(strategy is None)), train_distribute=strategy)
        with pytest.raises(InvalidArgumentError, match=r"in the \d steps so far"):
            sd.estimator.Estimator(rows_of_a_table, config=config).train(row_after_row)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    regressor(tmp_path).train(input_fn(16), steps=1)
    with pytest.raises(InvalidArgumentError, match=r"no value for .*a/kernel.*another model"):
        deep(tmp_path).evaluate(batches(12), steps=1)
    with pytest.raises(NotFoundError, match="no variable 'weights'"):
        regressor(tmp_path).get_variable_value("weights")
    with pytest.raises(InvalidArgumentError, match="no checkpoint yet"):
        regressor(tmp_path / "other").get_variable_names()


@pytest.mark.parametrize(
    ("dataset", "error", "message"),
    [
        (lambda: batches(12)().take(0), OutOfRangeError, "without elements"),
        (batches(12), InvalidArgumentError, "without an end"),
        (lambda: (X, Y), TypeError, "returned tuple"),
        (lambda: sd.Dataset.from_tensor_slices(({"x": X}, TARGETS, X)).batch(12), InvalidArgumentError, "tuples of 3"),
        (lambda: sd.Dataset.from_tensor_slices(({"x": ["a"]}, [[1.0]])).batch(1), InvalidArgumentError, "holds strings"),
    ],
)
def test_data_that_nobody_can_use_are_refused(tmp_path: Path, dataset: Any, error: type[Exception], message: str) -> None:
    for call in (deep(tmp_path).train, deep(tmp_path).evaluate):
        with pytest.raises(error, match=message):
            call(dataset)


def test_full_batches_for_some_replicas_alone_are_no_step(tmp_path: Path) -> None:
    one_full_batch = lambda: sd.Dataset.from_tensor_slices(({"x": X}, TARGETS)).batch(len(X), drop_remainder=True)  # noqa: E731
    estimator = deep(tmp_path, train_distribute=sd.MirroredStrategy(2))
    with pytest.raises(OutOfRangeError, match="with fewer of them than the 2 replicas take in a step"):
        estimator.train(one_full_batch)


def test_predictions_that_cannot_be_given_are_refused(tmp_path: Path) -> None:
    estimator = deep(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"predict_keys=\['z'\], but model_fn predicts \['twice', 'y'\]"):
        next(estimator.predict(batches(12), ["z"]))
    with pytest.raises(TypeError, match="yield_single_examples is 'no'"):
        next(estimator.predict(batches(12), yield_single_examples="no"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name is 3"):
        estimator.evaluate(batches(12), steps=1, name=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="checkpoint_path is 3; expected the path of a checkpoint"):
        estimator.evaluate(batches(12), steps=1, checkpoint_path=3)  # type: ignore[arg-type]
    assert sorted(next(estimator.predict(batches(12), []))) == ["twice", "y"]  # all, as in TensorFlow
    uneven = Estimator(lambda features, mode: EstimatorSpec(mode, predictions={"a": features["x"], "b": jnp.ones(3)}), tmp_path)
    with pytest.raises(InvalidArgumentError, match="different numbers of rows"):
        next(uneven.predict(batches(12)))
    assert next(uneven.predict(batches(12), yield_single_examples=False))["b"].shape == (3,)


def test_what_an_estimator_is_made_with_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="config is 3"):
        Estimator(model_fn, config=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"params is \[1\]; expected a dict"):
        Estimator(model_fn, params=[1])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="the RunConfig has model_dir='a'"):
        Estimator(model_fn, "b", sd.estimator.RunConfig("a"))
    with pytest.raises(InvalidArgumentError, match="warm_start_from"):
        Estimator(model_fn, tmp_path, warm_start_from="a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected an sd"):
        sd.estimator.train_and_evaluate(1, sd.estimator.TrainSpec(print), sd.estimator.EvalSpec(print))  # type: ignore[arg-type]
    task = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "chief", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    with pytest.raises(InvalidArgumentError, match="model_dir is missing"):
        Estimator(model_fn)
    with pytest.raises(InvalidArgumentError, match="nothing says how they train together"):
        deep(tmp_path).train(batches(12), steps=1)


def test_params_are_those_of_the_beginning(tmp_path: Path) -> None:
    params = {"units": [1]}
    estimator = Estimator(lambda features, params: EstimatorSpec("infer"), tmp_path, params=params)
    params["units"].append(2)
    estimator.params["units"].append(3)
    assert estimator.params == {"units": [1]}
    assert estimator.model_dir == str(tmp_path) and estimator.eval_dir() == str(tmp_path / "eval")


def test_without_values_nothing_can_be_trained(tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics="off"))
    with pytest.raises(FailedPreconditionError, match="off"):
        regressor(tmp_path, train_distribute=strategy).train(input_fn(16), steps=1)


@pytest.mark.parametrize(("aggregation", "replicas", "expected"), [("sum", 1, 5), ("sum", 2, 10), ("mean", 2, 5)])
def test_counts_of_a_model_fn_go_on_from_call_to_call(tmp_path: Path, aggregation: str, replicas: int, expected: float) -> None:
    def counting(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        seen = keras.Variable(0.0, trainable=False, name="seen", aggregation=aggregation)
        prediction = keras.layers.Dense(1)(features["x"])
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions=jnp.ones(len(prediction)) * seen)
        seen.assign_add(1.0)
        return EstimatorSpec(mode, loss=jnp.mean((prediction - labels) ** 2), train_op=keras.optimizers.SGD(0.1))

    for steps in (3, 2):
        estimator = Estimator(counting, config=config(tmp_path, train_distribute=sd.MirroredStrategy(replicas))).train(
            batches(4), steps=steps
        )
    assert estimator.get_variable_value("seen") == next(estimator.predict(batches(4))) == expected
