"""Optimizers in training: wherever they were made, however they are applied, they do what plain Keras does on one device."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import jax.numpy as jnp
import keras as plain
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

# Plain Keras turns its variables into numpy arrays in a way that numpy 2 warns of.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
rng = np.random.default_rng(0)
X = rng.random((12, 4), np.float32)
Y = (X @ rng.random((4, 1))).astype(np.float32)


def servers(partitioner: Any = None) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), partitioner)


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "replicas": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "parameter servers": servers,
    "shards": lambda: servers(sd.FixedShardsPartitioner(3)),
}


def model_of(namespace: Any, optimizer: Any, loss: Any = "mse") -> Any:
    first, last = (plain.layers.Dense(n, kernel_initializer=keras.initializers.GlorotUniform(n)) for n in (3, 1))
    model = namespace.Sequential([plain.Input((4,)), first, last])
    model.compile(optimizer, loss)
    return model


def fitted(model: Any, epochs: int = 3, callbacks: Sequence[Any] = ()) -> list[float]:
    """Epochs of three batches."""
    if getattr(model, "simdist_strategy", None) is None:
        return model.fit(X, Y, batch_size=4, shuffle=False, epochs=epochs, callbacks=list(callbacks), verbose=0).history["loss"]
    dataset = sd.Dataset.from_tensor_slices((X, Y)).batch(4)
    return model.fit(dataset, steps_per_epoch=3, epochs=epochs, callbacks=list(callbacks), verbose=0).history["loss"]


def require_same(model: Any, expected: Any) -> None:
    for own, other in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(own.value, other.value, rtol=1e-4, atol=1e-6)


def falling(epoch: int, rate: float) -> float:
    return 0.1 if epoch == 0 else 0.01


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["replicas", "shards"]))
def test_an_optimizer_made_outside_the_scope_has_its_learning_rate_and_count_of_steps(strategy: str) -> None:
    optimizer = plain.optimizers.SGD(0.5)
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, optimizer)
    expected = model_of(plain, plain.optimizers.SGD(0.5))
    callback = plain.callbacks.LearningRateScheduler
    assert fitted(model, callbacks=[callback(falling)]) == pytest.approx(fitted(expected, callbacks=[callback(falling)]), rel=1e-5)
    require_same(model, expected)
    assert int(optimizer.iterations) == 9
    assert float(np.asarray(optimizer.learning_rate)) == pytest.approx(0.01)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_wrapped_optimizer_made_outside_the_scope_obeys_its_user(replicas: int) -> None:
    strategy, inner = sd.MirroredStrategy(replicas), plain.optimizers.SGD(0.5)
    optimizer = sd.Optimizer(inner)
    with strategy.scope():
        v = sd.Variable([1.0, 2.0])
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.ones(2) / replicas, v)])))
    step()
    inner.learning_rate = 0.25
    step()
    np.testing.assert_allclose(v.numpy(), [0.25, 1.25])
    assert int(optimizer.iterations) == 2


@pytest.mark.parametrize(
    ("strategy", "built"),
    sampled(
        [(one, built) for one in ("replicas", "workers", "one device") for built in (True, False)], [("replicas", False), ("workers", True)]
    ),
)
def test_an_optimizer_of_keras_applied_as_it_is_adds_up_the_gradients_of_all_replicas(strategy: str, built: bool) -> None:
    chosen = STRATEGIES[strategy]()
    with chosen.scope():
        model = model_of(keras, "sgd")
        optimizer = plain.optimizers.Adam(0.1)
        if built:
            optimizer.build(model.trainable_variables)

    @sd.function
    def step(iterator: Any) -> None:
        def replica(data: Any) -> None:
            def loss() -> Any:
                return sd.compute_average_loss(((model(data[0]) - data[1]) ** 2)[:, 0], global_batch_size=12)

            _, gradients = sd.value_and_grad(loss, model.trainable_variables)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        chosen.run(replica, (next(iterator),))

    iterator = iter(chosen.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).batch(12).repeat()))
    for _ in range(3):
        step(iterator)
    expected = model_of(plain, plain.optimizers.Adam(0.1))
    expected.fit(X, Y, batch_size=12, epochs=3, shuffle=False, verbose=0)
    require_same(model, expected)
    for own, other in zip(optimizer.variables, expected.optimizer.variables, strict=True):
        np.testing.assert_allclose(own.value, other.value, rtol=1e-4, atol=1e-6)


def averaging(scaled: bool = False) -> Any:
    optimizer = plain.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.9)
    return plain.optimizers.LossScaleOptimizer(optimizer) if scaled else optimizer


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["workers", "shards"]))
def test_moving_averages_become_the_weights_when_training_ends(strategy: str, scaled: bool) -> None:
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, averaging(scaled))
    expected = model_of(plain, averaging(scaled))
    assert fitted(model) == pytest.approx(fitted(expected), rel=1e-5)
    require_same(model, expected)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["workers", "shards"]))
def test_without_an_epoch_there_are_no_moving_averages_to_become_the_weights(strategy: str, scaled: bool) -> None:
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, averaging(scaled))
    before = model.get_weights()
    model.fit(X, Y, epochs=0, verbose=0)
    for value, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, old)


class Interrupting(plain.callbacks.Callback):
    """Raises at the end of the second epoch, or after a batch of it."""

    def __init__(self, error: BaseException, at_batch: bool) -> None:
        super().__init__()
        self.error, self.at_batch, self.epochs = error, at_batch, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1
        if self.epochs == 2:
            raise self.error

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.at_batch and self.epochs == 1:
            raise self.error


@pytest.mark.parametrize("at_batch", [False, True])
@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt("mine"), SystemExit("mine")])
@pytest.mark.sample
def test_moving_averages_become_the_weights_when_training_is_interrupted(error: BaseException, at_batch: bool) -> None:
    with STRATEGIES["workers"]().scope():
        model = model_of(keras, averaging())
    expected = model_of(plain, averaging())
    for each in (model, expected):
        with pytest.raises(type(error), match="mine"):
            fitted(each, callbacks=[Interrupting(error, at_batch)])
    require_same(model, expected)


def test_moving_averages_become_the_weights_when_training_on_parameter_servers_is_interrupted() -> None:
    with STRATEGIES["shards"]().scope():
        model = model_of(keras, averaging())
    expected = model_of(plain, averaging())
    for each in (model, expected):
        with pytest.raises(ValueError, match="mine"):
            fitted(each, callbacks=[Interrupting(ValueError("mine"), False)])
    require_same(model, expected)


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["replicas", "shards"]))
def test_saved_weights_have_the_slots_and_training_goes_on_from_them(strategy: str, tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    chosen = STRATEGIES[strategy]()
    with chosen.scope():
        model, loaded = (model_of(keras, plain.optimizers.Adam(0.1)) for _ in range(2))
    fitted(model, epochs=1)
    model.save_weights(path)
    expected = model_of(plain, plain.optimizers.Adam(0.1))
    fitted(expected, epochs=1)
    with h5py.File(path) as file:
        group: Any = file["optimizer/vars"]
        saved = [np.asarray(group[str(number)]) for number in range(len(group))]
    for own, other in zip(saved, expected.optimizer.variables, strict=True):
        np.testing.assert_allclose(own, other.value, rtol=1e-4, atol=1e-6)
    loaded.load_weights(path)
    assert int(loaded.optimizer.iterations) == 3
    fitted(loaded, epochs=1)
    fitted(model, epochs=1)
    require_same(loaded, model)


def test_slots_that_were_loaded_by_plain_keras_are_used(tmp_path: Path) -> None:
    path = tmp_path / "model.weights.h5"
    expected = model_of(plain, plain.optimizers.Adam(0.1))
    fitted(expected, epochs=1)
    expected.save_weights(path)
    with servers(sd.FixedShardsPartitioner(2)).scope():
        model = model_of(keras, plain.optimizers.Adam(0.1))
        model.optimizer.build(model.trainable_variables)
        plain.Sequential.load_weights(model, path)
    assert fitted(model, epochs=1) == pytest.approx(fitted(expected, epochs=1), rel=1e-5)
    require_same(model, expected)


def scaled(**options: Any) -> Any:
    return plain.optimizers.LossScaleOptimizer(plain.optimizers.Adam(0.1, **options), initial_scale=2.0**127, dynamic_growth_steps=3)


@pytest.mark.parametrize("strategy", ["replicas", "shards"])
def test_steps_with_infinite_gradients_are_skipped_and_the_loss_scale_moves(strategy: str) -> None:
    with STRATEGIES[strategy]().scope():
        model = model_of(keras, scaled(global_clipnorm=0.5))
    expected = model_of(plain, scaled(global_clipnorm=0.5))
    fitted(model)
    fitted(expected)
    assert float(model.optimizer.dynamic_scale.value) == float(expected.optimizer.dynamic_scale.value)
    assert int(model.optimizer.step_counter.value) == int(expected.optimizer.step_counter.value)
    assert int(model.optimizer.iterations) == int(expected.optimizer.iterations) < 9
    require_same(model, expected)


def test_a_model_of_mixed_precision_trains_with_a_scaled_loss() -> None:
    before = plain.config.dtype_policy()
    plain.config.set_dtype_policy("mixed_float16")
    try:
        with sd.MirroredStrategy(2).scope():
            model = model_of(keras, "adam")
        expected = model_of(plain, "adam")
        assert fitted(model) == pytest.approx(fitted(expected), rel=1e-2)
    finally:
        plain.config.set_dtype_policy(before)
    assert type(model.optimizer).__name__ == "LossScaleOptimizer"
    assert 0 < int(model.optimizer.iterations) == int(expected.optimizer.iterations)


def test_a_step_that_the_loss_scale_skips_does_not_end_the_training() -> None:
    x = np.ones((8, 2), np.float32)
    x[5] = 1e6  # infinite in half precision
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones", dtype="mixed_float16")])
        model.compile(plain.optimizers.LossScaleOptimizer(plain.optimizers.SGD(0.1), initial_scale=8.0), "mse")
    with pytest.warns(UserWarning, match="The loss of an epoch is inf. LossScaleOptimizer skips"):
        history = model.fit(x, np.zeros((8, 1)), batch_size=4, epochs=2, shuffle=False, verbose=0).history
    assert history["loss"] == [np.inf, np.inf]
    # The first batch of each epoch has given the predictions 2 and 0.8; its gradients are twice as much.
    assert model.get_weights()[0].ravel() == pytest.approx([0.44, 0.44], rel=1e-2)


def test_a_loss_scale_that_is_not_there_yet_is_asked_for() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable([1.0])
        optimizer = sd.Optimizer(scaled())
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.ones(1), v)])))
    with pytest.raises(sd.errors.FailedPreconditionError, match="build"):
        step()


def test_an_optimizer_refuses_variables_that_it_was_not_built_for() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, w = sd.Variable([1.0]), sd.Variable([2.0])
        optimizer = sd.Optimizer(plain.optimizers.SGD(0.5))
    sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.ones(1), v)])))()
    with pytest.raises(sd.errors.InvalidArgumentError, match="was built for"):
        sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.ones(1), v), (jnp.ones(1), w)])))()


@pytest.mark.sample
@pytest.mark.parametrize("builds", [False, True], ids=["at once", "built first"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_variables_of_a_strategy_are_changed_outside_of_every_step_too(strategy: str, optimizer: str, builds: bool) -> None:
    def trained(make: Any) -> list[Any]:
        chosen = getattr(plain.optimizers, optimizer)(0.1)
        variables = [make(np.arange(6, dtype=np.float32)), make(np.ones((4, 2), np.float32))]
        if builds:
            chosen.build(variables)
        for scale in (1.0, -0.5, 2.0):
            chosen.apply_gradients([(scale * np.asarray(variable) + 1.0, variable) for variable in variables])
        assert int(chosen.iterations.numpy()) == 3
        return [np.asarray(variable) for variable in variables]

    expected = trained(plain.Variable)
    with STRATEGIES[strategy]().scope():
        found = trained(sd.Variable)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def built_for_two(strategy: str, builds: bool) -> tuple[Any, list[Any], Any]:
    """A strategy, three variables, and an optimizer of plain Keras for two of them."""
    chosen = STRATEGIES[strategy]()
    with chosen.scope():
        variables = [sd.Variable(np.ones(6, np.float32), name=name) for name in ("v", "w", "other")]
        optimizer = plain.optimizers.Adam(0.1)
        if builds:
            optimizer.build(variables[:2])
    return chosen, variables, optimizer


@pytest.mark.sample(4)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_optimizer_that_was_built_for_variables_of_a_strategy_takes_steps_and_is_saved(strategy: str, tmp_path: Path) -> None:
    def trained(builds: bool, path: str | None = None) -> tuple[list[Any], str]:
        chosen, (v, w, other), optimizer = built_for_two(strategy, builds)
        checkpoint = sd.Checkpoint(v=v, w=w, optimizer=optimizer)
        checkpoint.restore(path)
        step = sd.function(lambda: optimizer.apply_gradients([(v.value, v), (w.value + 1.0, w)]))
        for _ in range(3):
            chosen.run(step)
        with pytest.raises(sd.errors.InvalidArgumentError, match="Adam was built for v, w, and is now to change other"):
            optimizer.apply_gradients([(np.ones(6, np.float32), other)])
        values = [v.numpy().tolist(), w.numpy().tolist()]
        return values, checkpoint.save(str(tmp_path / f"{builds}"))

    (built, path), (at_once, other_path) = trained(builds=True), trained(builds=False)
    assert built == at_once
    runs = [trained(builds, saved)[0] for saved in (path, other_path) for builds in (True, False)]
    assert all(run == runs[0] for run in runs) and runs[0] != built


WITHOUT_A_SCOPE = """
import keras
import numpy as np
import simdist as sd

v, optimizer = sd.Variable(np.ones(2, np.float32)), keras.optimizers.SGD(0.1)
step = sd.function(lambda: optimizer.apply_gradients([(v.value, v)]))
for change in ({first}, {second}):
    change()
    print([round(float(value), 3) for value in v.numpy()], int(optimizer.iterations.numpy()))
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("order", [("step", "outside"), ("outside", "step")], ids=str)
def test_where_only_plain_keras_is_imported_and_no_scope_is_open_it_is_the_same(order: tuple[str, str]) -> None:
    calls = {"step": "step", "outside": "lambda: optimizer.apply_gradients([(np.ones(2, np.float32), v)])"}
    script = WITHOUT_A_SCOPE.format(first=calls[order[0]], second=calls[order[1]])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    second = {"step": 0.81, "outside": 0.8}[order[1]]
    assert done.stdout.splitlines() == ["[0.9, 0.9] 1", f"[{second}, {second}] 2"], done.stderr


@pytest.mark.parametrize("make", [lambda optimizer: optimizer, sd.Optimizer], ids=["as it is", "wrapped"])
@pytest.mark.parametrize("strategy", ["one device", "replicas", "workers"])
def test_gradients_that_a_step_has_added_up_and_clipped_itself_are_not_added_up_again(strategy: str, make: Callable[[Any], Any]) -> None:
    chosen = STRATEGIES[strategy]()
    with chosen.scope():
        v, optimizer = sd.Variable([3.0, 4.0]), make(keras.optimizers.SGD(1.0))

    @sd.function
    def step() -> None:
        gradients = sd.value_and_grad(lambda: (v.value**2).sum() / 2 / chosen.num_replicas_in_sync, [v])()[1]
        (gradient,) = sd.get_replica_context().all_reduce("sum", gradients)
        clipped = gradient / jnp.sqrt((gradient**2).sum())
        optimizer.apply_gradients([(clipped, v)], skip_gradients_aggregation=True)

    chosen.run(step)
    np.testing.assert_allclose(v.numpy(), [3.0 - 0.6, 4.0 - 0.8], rtol=1e-6)
