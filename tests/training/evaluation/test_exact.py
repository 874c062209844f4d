"""Evaluation counts each example once, on any number of workers, whichever of them die: the metrics are those of plain Keras."""

from __future__ import annotations

from typing import Any

import keras as plain
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples, sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
ROWS = 10_007  # a prime: the last batch, and its parts, are uneven
RNG = np.random.default_rng(0)
X = RNG.random((ROWS, 4), np.float32)
Y = (X.sum(1, keepdims=True) > 2).astype(np.float32)
BATCH = 128


def compiled(namespace: Any) -> Any:
    out = keras.layers.Dense(1, "sigmoid", kernel_initializer=keras.initializers.GlorotUniform(seed=4))
    model = namespace.Sequential([keras.Input((4,)), out])
    model.compile("sgd", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(num_thresholds=20)])
    return model


@pytest.fixture(scope="module")
def wanted() -> tuple[list[float], Any]:
    model = compiled(plain)
    return model.evaluate(X, Y, batch_size=BATCH, verbose=0), model.predict(X, batch_size=BATCH, verbose=0)


@pytest.fixture(scope="module")
def quiet(wanted: Any) -> list[float]:
    """The metrics on one worker that does not die."""
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})).scope():
        model = compiled(keras)
    found = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    assert found == pytest.approx(wanted[0], rel=1e-6)
    return found


CRASHES = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0.0, 0.012), st.sampled_from([None, 0.0, 0.001, 0.01])),
    max_size=4,
    unique_by=lambda crash: crash[0],
)


@examples(10)
@given(workers=st.integers(1, 7), crashes=CRASHES, exactly_once=st.booleans())
def test_workers_that_die_change_no_bit(workers: int, crashes: Any, exactly_once: bool, quiet: list[float]) -> None:
    cluster = sd.Cluster({"worker": workers, "ps": 2}, seed=workers)
    for number, (worker, at_s, restart_s) in enumerate(crashes):
        # One is left, or comes back.
        cluster.faults.crash(f"worker:{worker % workers}", at=at_s, restart_after=restart_s if number < workers - 1 else 0.001)
    with sd.ParameterServerStrategy(cluster, exactly_once=exactly_once).scope():
        model = compiled(keras)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.showwarning", lambda *_: None)
        assert model.evaluate(X, Y, batch_size=BATCH, verbose=0) == quiet
    assert cluster.now > 0


def test_a_crash_that_meets_the_evaluation_is_seen_in_the_trace(quiet: list[float]) -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=1)
    cluster.faults.crash("worker:1", at=0.003, restart_after=0.001)
    with sd.ParameterServerStrategy(cluster).scope():
        model = compiled(keras)
    assert model.evaluate(X, Y, batch_size=BATCH, verbose=0) == quiet
    assert cluster.trace.instants.where(category="retry")


@pytest.mark.parametrize("workers", sampled([1, 3, 7], [3]))
def test_replicas_share_each_batch_and_the_sums_differ_by_their_order_only(workers: int, wanted: Any) -> None:
    with sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": workers})).scope():
        model = compiled(keras)
    found = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    assert found == pytest.approx(wanted[0], rel=2e-6)
    assert round(found[1] * ROWS) == round(wanted[0][1] * ROWS)  # so many are right
    np.testing.assert_allclose(model.predict(X, batch_size=BATCH, verbose=0), wanted[1], rtol=1e-5, atol=1e-6)


def test_predictions_come_in_the_order_of_the_rows_whichever_worker_is_slow(wanted: Any) -> None:
    cluster = sd.Cluster({"worker": 4, "ps": 1}, seed=2)
    cluster.faults.slow("worker:2", 50.0, at=0.0)
    cluster.faults.crash("worker:0", at=0.002)
    with sd.ParameterServerStrategy(cluster).scope():
        model = compiled(keras)
    np.testing.assert_allclose(model.predict(X, batch_size=BATCH, verbose=0), wanted[1], rtol=1e-6, atol=1e-6)


def test_more_workers_take_less_time() -> None:
    def seconds(workers: int) -> float:
        cluster = sd.Cluster({"worker": workers, "ps": 1})
        with sd.ParameterServerStrategy(cluster).scope():
            model = compiled(keras)
        model.evaluate(X, Y, batch_size=BATCH, verbose=0)
        return cluster.now

    assert seconds(1) > 1.8 * seconds(2) > 3 * seconds(4)


@pytest.mark.parametrize("callers", [[1], [0, 1, 2]])
@pytest.mark.sample(2)
def test_any_launched_main_may_evaluate_and_predict_by_itself(callers: list[int]) -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            out = keras.layers.Dense(1, "sigmoid", kernel_initializer=keras.initializers.GlorotUniform(seed=4))
            model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), out])
            model.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
        model.fit(X[:96], Y[:96], verbose=0, shuffle=False)
        if sd.TFConfigClusterResolver().task_id not in callers:
            return None
        found, outputs = model.evaluate(X[:999], Y[:999], batch_size=BATCH, verbose=0, return_dict=True), model.predict(X[:99], verbose=0)
        return found, outputs.tolist()

    run = sd.Cluster({"worker": 3}, seed=0).launch(main)
    run.join()
    results = [run.results[f"worker:{index}"] for index in range(3)]
    assert [index for index, result in enumerate(results) if result is not None] == callers
    for found, outputs in filter(None, results):
        assert 0 < found["loss"] < 2 and (found["accuracy"] * 999) % 1 == pytest.approx(0, abs=1e-3)
        assert len(outputs) == 99


@pytest.mark.parametrize("callers", [[0], [1], [0, 1]])
@pytest.mark.sample(2)
def test_what_mains_evaluate_before_they_train_makes_no_difference(callers: list[int]) -> None:
    """A main that had to wait for the first values of the chief would get what the chief has assigned since then."""

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        outputs = model.predict(X[:3], verbose=0).ravel().tolist() if sd.TFConfigClusterResolver().task_id in callers else None
        with strategy.scope():
            model.compile(keras.optimizers.SGD(0.1), "mse")
        halving = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        history = model.fit(X[:8], Y[:8], batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=[halving]).history
        return outputs, history["loss"], history["learning_rate"]

    run = sd.Cluster({"worker": 2}, seed=0).launch(main)
    run.join()
    (first, *histories), (second, *others) = run.results["worker:0"], run.results["worker:1"]
    assert histories == others and others[1] == pytest.approx([0.05, 0.025])
    assert None in (first, second) or first == second


def test_mains_may_predict_and_never_train() -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        return model.predict(X[:3], verbose=0).tolist()

    run = sd.Cluster({"worker": 2}, seed=0).launch(main)
    run.join()
    assert run.results["worker:0"] == run.results["worker:1"]


def test_a_main_that_evaluates_alone_has_the_metrics_of_keras(wanted: Any) -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = compiled(keras)
        return model.evaluate(X, Y, batch_size=BATCH, verbose=0) if sd.TFConfigClusterResolver().task_id == 0 else None

    run = sd.Cluster({"worker": 2}, seed=0).launch(main)
    run.join()
    assert run.results["worker:0"] == pytest.approx(wanted[0], rel=1e-6)


def test_survivors_count_the_examples_of_a_worker_that_dies(wanted: Any) -> None:
    for at_s in (0.0003, 0.0011):
        cluster = sd.Cluster({"worker": 3}, seed=1)
        cluster.faults.crash("worker:1", at=at_s, restart_after=0.0005)
        with sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue").scope():
            model = compiled(keras)
        found = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
        assert found == pytest.approx(wanted[0], rel=2e-6)
        assert cluster.trace.instants.where(category="crash")


ROUNDS: list[dict[str, Any]] = [{"mode": "sync"}, {"mode": "bounded", "staleness": 2}, {"mode": "sync", "backup_workers": 1}]


@pytest.mark.parametrize("options", sampled(ROUNDS, ROUNDS[1:]))
def test_workers_in_rounds_count_each_example_once(options: Any, wanted: Any) -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=1)
    cluster.faults.crash("worker:1", at=0.002, restart_after=0.001)
    with sd.ParameterServerStrategy(cluster, **options).scope():
        model = compiled(keras)
    assert model.evaluate(X, Y, batch_size=BATCH, verbose=0) == pytest.approx(wanted[0], rel=1e-6)


def test_validation_of_launched_mains_is_shared_and_equal_on_all(wanted: Any) -> None:
    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = compiled(keras)
        model.optimizer.learning_rate = 0.0
        return model.fit(X[:64], Y[:64], verbose=0, validation_data=(X, Y), validation_batch_size=BATCH).history

    run = sd.Cluster({"worker": 2}, seed=0).launch(main)
    run.join()
    first, second = run.results["worker:0"], run.results["worker:1"]
    assert first == second
    assert [first["val_loss"][0], first["val_accuracy"][0]] == pytest.approx(wanted[0][:2], rel=1e-5)


def test_validation_of_launched_mains_is_with_the_moving_averages_of_all() -> None:
    def validated(strategy: sd.MultiWorkerMirroredStrategy) -> list[float]:
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)])
            model.layers[1].set_weights([np.full((4, 1), 0.5, "f"), np.zeros(1, "f")])
            model.compile(keras.optimizers.SGD(0.0), "mse")
        return model.fit(X[:8], Y[:8], verbose=0, shuffle=False, validation_data=(X[:8], Y[:8])).history["val_loss"]

    run = sd.Cluster({"worker": 2}).launch(lambda: validated(sd.MultiWorkerMirroredStrategy()))
    run.join()
    x = np.asarray(X[:8], np.float64)
    parts = x[:4], x[4:]  # of which each replica has the moving averages
    mean, variance = (
        np.mean([0.5 * old + 0.5 * of(part, axis=0) for part in parts], axis=0) for old, of in ((0.0, np.mean), (1.0, np.var))
    )
    outputs = ((x - mean) / np.sqrt(variance + 1e-3)).sum(1, keepdims=True) / 2
    expected = [float(np.mean((outputs - np.asarray(Y[:8])) ** 2))]
    for found in (*run.results.values(), validated(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})))):
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("creator", [False, True])
def test_an_epoch_visits_each_example_once_also_where_workers_die(creator: bool) -> None:
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=5)
    cluster.faults.crash("worker:0", after_steps=2, restart_after=0.001)
    cluster.faults.crash("worker:2", at=0.002)
    with sd.ParameterServerStrategy(cluster, exactly_once=True).scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.0), "mse")
    rows = 103

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        whole = sd.Dataset.from_tensor_slices((X[:rows], Y[:rows]))
        return whole.shard(context.num_input_pipelines, context.input_pipeline_id).batch(4)

    data: Any = sd.DatasetCreator(dataset_fn) if creator else sd.Dataset.from_tensor_slices((X[:rows], Y[:rows])).batch(4)
    history = model.fit(data, epochs=2, verbose=0).history
    assert float(model.metrics_variables[1].numpy()) == rows  # the count of the mean loss
    steps = sum(-(-len(range(worker, rows, 3)) // 4) for worker in range(3)) if creator else -(-rows // 4)
    assert int(model.optimizer.iterations) == 2 * steps
    expected = float(np.mean((np.asarray(model.predict(X[:rows], verbose=0)) - Y[:rows]) ** 2))
    assert history["loss"] == pytest.approx([expected] * 2, rel=1e-5)


def test_a_creator_without_an_end_needs_steps() -> None:
    for strategy in (sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1})), sd.MirroredStrategy(2)):
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        endless = sd.DatasetCreator(lambda context: sd.Dataset.from_tensor_slices((X, Y)).batch(4).repeat())
        with pytest.raises(sd.errors.InvalidArgumentError, match=r"steps_per_epoch is missing.*no end"):
            model.fit(endless, verbose=0)
