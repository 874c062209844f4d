"""compile(run_eagerly=True): the Python code of a step runs in every step, with values; numbers and virtual times stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.core
import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((12, 3), np.float32)
Y = X.sum(1, keepdims=True)
STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "two replicas": lambda: sd.MirroredStrategy(2),
    "central storage": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "a TPU": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(2)),
}
SAMPLE = ["two replicas", "servers"]


class Watching(keras.layers.Layer):
    """Gives what it gets, and shows it to a function, where it has a value."""

    def __init__(self, watch: Callable[[Any], Any]) -> None:
        super().__init__()
        self.watch = watch

    def call(self, x: Any) -> Any:
        value = x.primal if hasattr(x, "primal") else x  # while gradients are computed
        if not isinstance(value, jax.core.Tracer):
            self.watch(np.asarray(value))
        return x


def layers(*more: Any) -> list[Any]:
    seeds = keras.initializers.GlorotUniform
    return [
        keras.layers.Dense(4, "tanh", kernel_initializer=seeds(seed=1)),
        *more,
        keras.layers.Dense(1, kernel_initializer=seeds(seed=2)),
    ]


def trained(strategy: Any, eager: bool, watch: Callable[[Any], Any] = len, **options: Any) -> tuple[Any, Any]:
    """A model after three batches, and its history."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), Watching(watch), *layers(keras.layers.Dropout(0.4, seed=3))])
        model.compile("adam", "mse", metrics=["mae"], run_eagerly=eager)
    history = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0, **options)
    return model, history.history


@pytest.mark.parametrize("name", sampled(STRATEGIES, SAMPLE))
def test_eager_steps_give_the_numbers_and_the_times_of_compiled_ones(name: str) -> None:
    results: list[Any] = []
    for eager in (False, True):
        strategy = STRATEGIES[name]()
        model, history = trained(strategy, eager)
        score = model.evaluate(X, Y, batch_size=4, verbose=0)
        results.append(((history, score, model.predict(X, batch_size=4, verbose=0), model.get_weights()), strategy.cluster.trace.digest()))
    jax.tree_util.tree_map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6), results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_one_device_gives_the_numbers_of_plain_keras_run_eagerly() -> None:
    def weights(namespace: Any) -> Any:
        model = namespace.Sequential([keras.Input((3,)), *layers(keras.layers.BatchNormalization())])
        model.compile(keras.optimizers.Adam(0.1), "mse", metrics=["mae"], run_eagerly=True)
        history = model.fit(X, Y, batch_size=4, shuffle=False, verbose=0, validation_data=(X, Y)).history
        return history, model.train_on_batch(X[:4], Y[:4]), model.get_weights(), model.predict(X, verbose=0)

    with sd.OneDeviceStrategy().scope():
        ours = weights(keras)
    # Rules of optimizers and sums of metrics are compiled here, and each of their operations is called by itself there.
    jax.tree_util.tree_map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-7), weights(plain), ours)


@pytest.mark.parametrize("name", ["one device", "servers"])
def test_a_layer_sees_the_rows_of_each_step(name: str) -> None:
    seen: list[Any] = []
    model, _ = trained(STRATEGIES[name](), True, seen.append)
    np.testing.assert_array_equal(seen, X.reshape(3, 4, 3))
    seen.clear()
    model.evaluate(X, Y, batch_size=4, verbose=0)
    model.predict(X, batch_size=6, verbose=0)
    model.train_on_batch(X[:2], Y[:2])
    assert [len(rows) for rows in seen] == [4, 4, 4, 6, 6, 2]


def test_each_replica_sees_its_part() -> None:
    seen: list[Any] = []
    trained(sd.MirroredStrategy(2), True, seen.append)
    np.testing.assert_array_equal(np.concatenate(seen), X)


def test_a_step_sees_the_weights_that_the_step_before_has_left() -> None:
    seen: list[Any] = []
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1), Watching(seen.append)])
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    for _ in range(3):
        kernel, bias = model.get_weights()
        seen.clear()
        model.train_on_batch(X, Y)
        np.testing.assert_allclose(np.concatenate(seen), X @ kernel + bias, rtol=1e-5)


@pytest.mark.parametrize("name", sampled(STRATEGIES, SAMPLE))
def test_an_error_of_a_layer_at_the_third_batch_is_raised_as_it_is(name: str) -> None:
    def fail_at_third(rows: Any) -> None:
        if (rows == X[8]).all(1).any():
            raise ZeroDivisionError("these rows")

    strategy = STRATEGIES[name]()
    with pytest.raises(ZeroDivisionError, match="these rows") as caught:
        trained(strategy, True, fail_at_third)
    assert any(entry.name == "fail_at_third" for entry in caught.traceback)
    _, history = trained(strategy, True)  # the cluster is as usable as before
    assert np.isfinite(history["loss"]).all()


def with_own_step(namespace: Any, look: Callable[[Any, Any], Any]) -> Any:
    """A model whose training step shows loss and new weights to a function, and doubles the gradients where it returns True."""

    class Own(namespace.Model):
        def __init__(self) -> None:
            super().__init__()
            self.parts = layers()

        def call(self, x: Any, training: bool = False) -> Any:
            for part in self.parts:
                x = part(x)
            return x

        def train_step(self, state: Any, data: Any) -> Any:
            weights, others, slots, metrics = state
            x, y = data
            compute = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
            (loss, (_, _, others, metrics)), gradients = compute(
                weights, others, metrics, x, y, None, training=True, optimizer_variables=slots
            )
            if loss > 0.5:  # a value decides
                gradients = [2 * gradient for gradient in gradients]
            weights, slots = self.optimizer.stateless_apply(slots, gradients, weights)
            look(loss, weights)
            return {"scaled": float(loss) * 10, "rows": len(np.asarray(x))}, (weights, others, slots, metrics)

    model = Own()
    model.compile(keras.optimizers.SGD(0.2, momentum=0.5), "mse", run_eagerly=True)
    return model


def test_an_own_step_decides_by_values_and_prints_new_weights() -> None:
    def run(namespace: Any) -> Any:
        looks: list[Any] = []
        model = with_own_step(namespace, lambda loss, weights: looks.append((float(loss), np.asarray(weights[0]))))
        history = model.fit(X, Y, batch_size=4, epochs=2, shuffle=False, verbose=0).history
        return (model.get_weights(), looks[-6:]), history["scaled"]

    with sd.OneDeviceStrategy().scope():
        ours, our_logs = run(keras)
    theirs, their_logs = run(plain)
    jax.tree_util.tree_map(np.testing.assert_array_equal, theirs, ours)
    np.testing.assert_allclose(our_logs, their_logs, rtol=1e-6)
    losses = [loss for loss, _ in ours[1]]
    assert min(losses) < 0.5 < max(losses)


@pytest.mark.parametrize("name", sampled(STRATEGIES, SAMPLE))
def test_an_own_step_has_values_under_every_strategy(name: str) -> None:
    losses: list[float] = []
    with STRATEGIES[name]().scope():
        model = with_own_step(keras, lambda loss, weights: losses.append(float(loss)))
    model.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
    assert len(losses) >= 4
    assert np.isfinite(losses).all()


def test_new_weights_are_not_there_before_all_replicas_have_added_up_their_gradients() -> None:
    shown: list[str] = []
    with sd.MirroredStrategy(2).scope():
        printing = with_own_step(keras, lambda loss, weights: shown.append(repr(weights[0])))
        computing = with_own_step(keras, lambda loss, weights: np.sum(weights[0]))
    printing.fit(X, Y, verbose=0)
    assert "not there yet" in shown[-1]
    with pytest.raises(sd.errors.FailedPreconditionError, match="takes place after it"):
        computing.fit(X, Y, verbose=0)


def test_metrics_and_losses_of_the_user_see_values() -> None:
    seen: list[str] = []

    def loss(y: Any, y_pred: Any) -> Any:
        if not isinstance(y, jax.core.Tracer):
            seen.append(f"loss {float(y[0, 0]):.3f}")
        return keras.ops.mean((y - y_pred) ** 2, -1)

    def bias(y: Any, y_pred: Any) -> Any:
        if not isinstance(y_pred, jax.core.Tracer):
            seen.append(f"metric {len(np.asarray(y_pred))}")
        return y - y_pred

    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), *layers()])
        model.compile("sgd", loss, metrics=[bias], run_eagerly=True)
    model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
    firsts = [f"loss {Y[row, 0]:.3f}" for row in (0, 4, 8, 10)]
    assert sorted(seen) == sorted([*firsts, "metric 4", "metric 4", "metric 2", "metric 2"])


def test_launched_mains_print_under_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    def main() -> Any:
        _, history = trained(sd.MultiWorkerMirroredStrategy(), True, lambda rows: print(f"{len(rows)} rows"))
        return history["loss"]

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    assert run.results["worker:0"] == run.results["worker:1"]
    printed = capsys.readouterr().out.splitlines()
    assert sorted(set(printed)) == ["[worker:0] 2 rows", "[worker:1] 2 rows"]
    assert len(printed) == 6


def test_what_a_step_changes_must_not_depend_on_values() -> None:
    class Sometimes(keras.layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.count = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any) -> Any:
            if isinstance(x, jax.core.Tracer):
                self.count.assign(self.count + 1)
            return x

    with sd.OneDeviceStrategy().scope():
        model = keras.Sequential([keras.Input((3,)), Sometimes(), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(sd.errors.FailedPreconditionError, match="not which variables are changed"):
        model.fit(X, Y, verbose=0)


@pytest.mark.parametrize("kind", ["statistics", "mask"])
def test_collectives_in_the_middle_of_the_python_are_refused(kind: str) -> None:
    with sd.MirroredStrategy(2).scope():
        more = keras.layers.BatchNormalization(synchronized=True) if kind == "statistics" else keras.layers.Masking()
        model = keras.Sequential([keras.Input((3, 1)), more, keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(sd.errors.FailedPreconditionError, match="one replica"):
        model.fit(X[..., None], X[..., None], verbose=0)


def test_a_cluster_without_numbers_is_refused() -> None:
    with sd.OneDeviceStrategy(cluster=sd.Cluster({"worker": 1}, numerics="off")).scope():
        model = keras.Sequential([keras.Input((3,)), *layers()])
        with pytest.raises(sd.errors.FailedPreconditionError, match="computes no numbers"):
            model.compile("sgd", "mse", run_eagerly=True)


@pytest.mark.parametrize("numerics", sampled(["eager", "loop", "replay", "vmap"], ["vmap"]))
def test_every_plan_runs_the_python_once_for_each_step(numerics: str) -> None:
    seen: list[Any] = []
    cluster = sd.Cluster({"worker": 2}, numerics=numerics)
    trained(sd.MultiWorkerMirroredStrategy(cluster), True, seen.append)
    assert len(seen) == 6
    np.testing.assert_array_equal(np.concatenate(seen), X)


def test_rows_of_a_table_travel_as_in_compiled_steps() -> None:
    ids = np.random.default_rng(2).integers(0, 5, (12, 3))
    results: list[Any] = []
    for eager in (False, True):
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(2))
        with strategy.scope():
            table = keras.layers.Embedding(400, 4, embeddings_initializer=keras.initializers.RandomNormal(seed=4))
            model = keras.Sequential([keras.Input((3,), dtype="int32"), table, keras.layers.Flatten(), *layers()])
            model.compile("sgd", "mse", run_eagerly=eager)
        history = model.fit(ids, Y, batch_size=4, shuffle=False, verbose=0).history
        results.append(((history, model.get_weights(), model.evaluate(ids, Y, verbose=0)), strategy.cluster.trace.digest()))
    jax.tree_util.tree_map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-6), results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_gradients_of_a_table_travel_as_rows_as_in_compiled_steps() -> None:
    words = np.random.default_rng(1).integers(0, 300, (12, 3)).astype("int32")

    def losses(eager: bool) -> tuple[list[float], float, int]:
        strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
        with strategy.scope():
            table = keras.layers.Embedding(300, 4, embeddings_initializer=keras.initializers.RandomUniform(seed=1))
            model = keras.Sequential([keras.Input((3,), dtype="int32"), table, keras.layers.Flatten(), *layers()])
            model.compile("adam", "mse", run_eagerly=eager)
        history = model.fit(words, Y, batch_size=4, epochs=2, shuffle=False, verbose=0).history["loss"]
        cluster = strategy.cluster
        return history, cluster.now, sum(cluster.trace.totals[task, "bytes_sent"] for task in ("worker:0", "worker:1"))

    found, expected = losses(True), losses(False)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1:] == expected[1:]
    assert expected[2] < 12 * 300 * 4 * 4  # no table has travelled


def test_a_table_of_which_rows_are_read_twice_has_the_rows_of_both_reads() -> None:
    ids = np.array([[0, 7], [20, 0], [30, 59], [59, 3]], np.int32)
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).scope():
        words, table = keras.Input((2,), dtype="int32"), keras.layers.Embedding(60, 1)
        model = keras.Model(words, keras.layers.Flatten()(table(words) + table((words + 1) % 60)))
        model.compile(keras.optimizers.SGD(0.0), "mse", run_eagerly=True)
    model.set_weights([np.arange(60, dtype=np.float32)[:, None]])
    np.testing.assert_array_equal(model.predict(ids, batch_size=2, verbose=0), ids + (ids + 1) % 60)


class Jitted(keras.layers.Layer):  # type: ignore[misc]
    """Multiplies by a weight, in a function that JAX remembers."""

    def build(self, input_shape: Any) -> None:
        self.w = self.add_weight(shape=(), initializer="ones")
        self.compiled = jax.jit(lambda x: x * self.w.value)

    def call(self, x: Any) -> Any:
        return self.compiled(x)


def test_a_function_that_jax_remembers_reads_the_present_value() -> None:
    ones, zeros = np.ones((8, 1), np.float32), np.zeros((8, 1), np.float32)
    with sd.MirroredStrategy(1).scope():
        model = keras.Sequential([keras.Input((1,)), Jitted()])
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    assert model.evaluate(ones, zeros, verbose=0) == 1
    model.layers[0].w.assign(3.0)
    assert model.evaluate(ones, zeros, verbose=0) == 9
    model.fit(ones, zeros, batch_size=4, verbose=0)
    assert float(model.layers[0].w.value) == pytest.approx(3 * 0.8**2)
