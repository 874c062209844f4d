"""A model or a metric that a step is the first to call: built before the step, as one that was built in the scope."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.random.default_rng(0).random((8, 2), np.float32)
Y = X @ np.array([[1.0], [2.0]], np.float32)


class Two(keras.Model):
    """A model that Keras builds by calling it, without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = keras.layers.Dense(3), keras.layers.Dense(1)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.second(self.first(x))


def sequence() -> keras.Sequential:
    layers = [keras.layers.Flatten(), keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def trained_by(strategy: Any, model: Any, optimizer: Any) -> Any:
    """A step that trains the model, and reads its variables before it calls it."""

    @sd.function
    def step(x: Any, y: Any) -> Any:
        variables = model.trainable_variables
        loss, gradients = sd.value_and_grad(lambda: ((model(x, training=True) - y) ** 2).mean(), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    return step


def in_replicas(strategy: Any, built: bool, make: Callable[[], Any]) -> list[Any]:
    """What four steps of `strategy.run` leave of a model."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model, optimizer = make(), keras.optimizers.Adam(0.1)
        if built:
            model(X[:2])
    step = trained_by(strategy, model, optimizer)
    batches = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).batch(4).repeat(2)))
    losses = [strategy.reduce("mean", strategy.run(step, args=next(batches)), axis=None) for _ in range(4)]
    return [float(loss) for loss in losses] + [(weight.path, weight.numpy().tolist()) for weight in model.weights]


def by_closures(built: bool, make: Callable[[], Any], plain: bool, **options: Any) -> list[Any]:
    """The same for closures of parameter servers."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2), **options)
    coordinator = sd.ClusterCoordinator(strategy)
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model, optimizer = make(), keras.optimizers.Adam(0.1)
        if built:
            model(X[:2])
    trained = trained_by(strategy, model, optimizer)
    step = sd.function(lambda iterator: strategy.run(trained, args=next(iterator)))
    iterator = iter(coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()))
    losses = [coordinator.schedule((lambda it: step(it)) if plain else step, args=(iterator,)) for _ in range(6)]
    coordinator.join()
    return [float(loss.fetch()) for loss in losses] + [(weight.path, weight.numpy().tolist()) for weight in model.weights]


@pytest.mark.parametrize("make", [sequence, Two])
@pytest.mark.parametrize(
    "strategy",
    [
        lambda: sd.OneDeviceStrategy(),
        lambda: sd.MirroredStrategy(2),
        lambda: sd.CentralStorageStrategy(2),
        lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    ],
)
@pytest.mark.sample(at_most=2)
def test_step_trains_the_model_that_it_is_the_first_to_call(strategy: Callable[[], Any], make: Callable[[], Any]) -> None:
    found = in_replicas(strategy(), built=False, make=make)
    assert found == in_replicas(strategy(), built=True, make=make)
    assert found[3] < found[0]


@pytest.mark.parametrize("options", [{}, {"mode": "sync"}])
@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.sample
def test_closure_trains_the_model_that_it_is_the_first_to_call(plain: bool, options: dict[str, Any]) -> None:
    assert by_closures(False, Two, plain, **options) == by_closures(True, Two, plain, **options)


def test_each_launched_main_builds_its_own() -> None:
    def main(built: bool) -> list[Any]:
        return in_replicas(sd.MultiWorkerMirroredStrategy(), built, sequence)

    results = []
    for built in (False, True):
        run = sd.Cluster({"worker": 2}).launch(main, args=(built,))
        run.join()
        results.append(run.results)
    assert results[0] == results[1]
    assert results[0]["worker:0"] == results[0]["worker:1"]


def test_layers_that_are_called_one_by_one_and_in_a_scan_are_built_each() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        layers = [keras.layers.Dense(3), keras.layers.Dense(3), keras.layers.Dense(3, use_bias=False)]
    traces = []

    def step(x: Any) -> Any:
        traces.append(sum(layer.built for layer in layers))
        x = layers[1](layers[0](x))
        return jax.lax.scan(lambda carried, _: (layers[2](carried), None), x, None, length=2)[0]

    found = strategy.local_results(strategy.run(step, args=(X,)))[0]
    assert traces == [0, 1, 2, 3]
    expected = X
    for layer in (*layers, layers[2]):
        expected = expected @ layer.get_weights()[0]  # the biases are 0
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_metrics_that_get_their_variables_in_a_step_have_the_results_of_plain_keras() -> None:
    def metrics() -> list[Any]:
        return [keras.metrics.F1Score(), keras.metrics.R2Score(), keras.metrics.AUC(multi_label=True)]

    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        ours = metrics()

    def step(x: Any) -> None:
        for metric in ours:
            metric.update_state((x > 0.5).astype("float32"), x)

    for part in (X, X[::-1] ** 2):
        strategy.run(step, args=(part,))
    plain = metrics()
    for part in (X, X[::-1] ** 2) * 2:  # two replicas have counted each
        for metric in plain:
            metric.update_state((part > 0.5).astype("float32"), part)
    for mine, other in zip(ours, plain, strict=True):
        assert np.asarray(mine.result()) == pytest.approx(np.asarray(other.result()), rel=1e-5)


class WithVariable(keras.layers.Layer):
    """A layer that makes a variable of ours, and a weight."""

    def build(self, shape: Any) -> None:
        self.scale = sd.Variable(np.full(shape[-1:], 3.0, np.float32))
        self.weight = self.add_weight(shape=shape[-1:], initializer="ones")

    def call(self, x: Any) -> Any:
        return x * self.scale.value * self.weight


def test_variable_that_a_build_makes_is_none_of_those_that_the_step_makes() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        layer = WithVariable()

    @sd.function
    def step(x: Any) -> Any:
        total = sd.Variable(np.zeros((), np.float32), name="total")
        total.assign_add(layer(x).sum())
        return total.value

    results = [float(strategy.local_results(strategy.run(step, args=(X,)))[0]) for _ in range(2)]
    assert results == pytest.approx([3 * X.sum(), 6 * X.sum()], rel=1e-5)
    assert layer.scale.numpy().tolist() == [3.0, 3.0]


def test_restored_values_come_to_a_model_that_a_step_builds(tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        saved, restored = sequence(), sequence()
        saved(X)
        saved.layers[1].kernel.assign(np.full((2, 3), 0.5, np.float32))
        path = sd.Checkpoint(model=saved).save(str(tmp_path / "point"))
        status = sd.Checkpoint(model=restored).restore(path)
    found = strategy.local_results(strategy.run(lambda: restored(X)))[0]
    status.assert_consumed()
    assert np.asarray(found).tolist() == np.asarray(strategy.local_results(strategy.run(lambda: saved(X)))[0]).tolist()


class Failing(keras.layers.Layer):
    """A layer whose build fails."""

    def build(self, shape: Any) -> None:
        raise RuntimeError("no disk")

    def call(self, x: Any) -> Any:
        return x


def test_error_of_a_build_is_raised_as_it_is() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        layer = Failing()
    with pytest.raises(RuntimeError, match="no disk"):
        strategy.run(lambda: layer(X))
    assert not layer.built


class OfNumpy(Two):
    """A model whose Python needs numbers."""

    def call(self, x: Any, training: bool = False) -> Any:
        return self.first(np.asarray(x))


def test_model_that_needs_numbers_is_told_of_by_the_error_of_jax() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        model = OfNumpy()
    with pytest.raises(jax.errors.TracerArrayConversionError) as raised:
        strategy.run(lambda x: model(x), args=(X,))
    assert "jax.numpy or keras.ops in place of numpy" in raised.value.__notes__[0]


def test_layer_without_any_strategy_is_not_taken_by_the_default_one() -> None:
    layer = keras.layers.Dense(1)
    with pytest.raises(InvalidArgumentError, match=r"Make its model, layer, metric or optimizer inside `with strategy\.scope"):
        sd.function(lambda x: layer(x))(X)
    assert layer(X).shape == (8, 1)
    assert type(layer.kernel) is keras.Variable


def test_layer_of_a_user_that_has_no_hash_is_built_as_others() -> None:
    class Compared(keras.layers.Layer):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return type(self) is type(other)

        def build(self, shape: Any) -> None:
            self.factor = self.add_weight(shape=shape[-1:], initializer="ones")

        def call(self, x: Any) -> Any:
            return x * self.factor

    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        layers = [Compared(), Compared()]
    found = strategy.local_results(strategy.run(lambda: layers[1](layers[0](X)).sum()))
    assert [float(one) for one in found] == pytest.approx([X.sum()] * 2)
    assert all(layer.built for layer in layers)
