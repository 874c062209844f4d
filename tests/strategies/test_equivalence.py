"""Every synchronous strategy gives the losses of one device with the global batch (class E2), in fit and in custom loops."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

STEPS = 20
RTOL = 1e-6

Strategies = dict[str, Callable[[], Any]]
STRATEGIES: Strategies = {
    "one device": sd.OneDeviceStrategy,
    "mirrored 2": lambda: sd.MirroredStrategy(2),
    "mirrored 3": lambda: sd.MirroredStrategy(3),
    "workers 3": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
    "workers 2 x 2": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=2),
    "central 2": lambda: sd.CentralStorageStrategy(2),
    "tpu": lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")),
}
REPLICAS = [1, 2, 3, 4, 8, 64]
# What CI tries: every strategy and every model, some in fit and some in a loop.
SAMPLE = {
    ("linear", "workers 3"),
    ("linear", "tpu"),
    ("mlp", "workers 2 x 2"),
    ("cnn", "mirrored 3"),
    ("embedding", "central 2"),
    ("synchronised batch-norm", "mirrored 2"),
}


def dense(units: int, seed: int, **options: Any) -> Any:
    return keras.layers.Dense(units, kernel_initializer=keras.initializers.GlorotUniform(seed=seed), **options)


def linear() -> Any:
    return keras.Sequential([keras.Input((5,)), dense(1, 1)])


def mlp() -> Any:
    return keras.Sequential([keras.Input((5,)), dense(8, 1, activation="tanh"), dense(1, 2)])


def cnn() -> Any:
    conv = keras.layers.Conv2D(3, 2, activation="tanh", kernel_initializer=keras.initializers.GlorotUniform(seed=3))
    image = [keras.layers.Reshape((5, 1, 1)), keras.layers.ZeroPadding2D(((0, 0), (0, 1)))]
    return keras.Sequential([keras.Input((5,)), *image, conv, keras.layers.Flatten(), dense(1, 4)])


def embedding() -> Any:
    table = keras.layers.Embedding(7, 4, embeddings_initializer=keras.initializers.RandomUniform(seed=5))
    return keras.Sequential([keras.Input((5,), dtype="int32"), table, keras.layers.GlobalAveragePooling1D(), dense(1, 6)])


def normalised() -> Any:
    # No bias before the normalisation: its gradient is zero but for rounding, which Adam would blow up.
    return keras.Sequential(
        [keras.Input((5,)), dense(6, 1, use_bias=False), keras.layers.BatchNormalization(synchronized=True), dense(1, 2)]
    )


MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn, "embedding": embedding, "synchronised batch-norm": normalised}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
}


def data(model: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    floating = keras.config.floatx()
    x = rng.integers(0, 7, (rows, 5)).astype(np.int32) if model == "embedding" else rng.normal(size=(rows, 5)).astype(floating)
    return x, np.tanh(x.sum(1, keepdims=True)).astype(floating)


def fitted(strategy: Any, model_name: str, optimizer: str, batch: int, rows: int) -> tuple[list[float], list[np.ndarray]]:
    with strategy.scope():
        model = MODELS[model_name]()
        model.compile(OPTIMIZERS[optimizer](), "mse")
    x, y = data(model_name, rows)
    dataset = sd.Dataset.from_tensor_slices((x, y)).batch(batch).repeat()
    losses = model.fit(dataset, epochs=STEPS, steps_per_epoch=1, verbose=0).history["loss"]
    return losses, [np.asarray(w) for w in model.get_weights()]


def looped(strategy: Any, model_name: str, optimizer_name: str, batch: int, rows: int) -> tuple[list[float], list[np.ndarray]]:
    with strategy.scope():
        model = MODELS[model_name]()
        optimizer = sd.Optimizer(OPTIMIZERS[optimizer_name]())
    x, y = data(model_name, rows)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((x, y)).batch(batch).repeat()))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            def loss() -> Any:
                return sd.compute_average_loss(keras.ops.mean((model(x, training=True) - y) ** 2, axis=-1))

            value, gradients = sd.value_and_grad(loss, model.trainable_variables)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return value

        return strategy.reduce("sum", strategy.run(replica, args=next(iterator)), axis=None)

    values: list[Any] = []
    for _ in range(STEPS):
        values.append(step(iterator))
    return [float(value) for value in values], [np.asarray(w) for w in model.get_weights()]


def plain(model_name: str, optimizer: str, batch: int, rows: int) -> tuple[list[float], list[np.ndarray]]:
    """Keras alone, without simdist, one batch at a time."""
    import keras as own

    model = (
        MODELS[model_name]()
        if model_name != "synchronised batch-norm"
        else own.Sequential([own.Input((5,)), dense(6, 1, use_bias=False), own.layers.BatchNormalization(), dense(1, 2)])
    )
    model.compile(OPTIMIZERS[optimizer](), "mse")
    x, y = data(model_name, rows)
    starts = [start for _ in range(STEPS) for start in range(0, rows, batch)][:STEPS]
    losses = [float(np.asarray(model.train_on_batch(x[start : start + batch], y[start : start + batch]))) for start in starts]
    return losses, [np.asarray(w) for w in model.get_weights()]


def agree(found: tuple[list[float], list[np.ndarray]], expected: tuple[list[float], list[np.ndarray]], rtol: float = RTOL) -> None:
    """Losses agree relative to the largest one: a loss near zero is a difference of large numbers."""
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=2 * rtol * max(expected[0]))
    for own, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=50 * rtol * max(1.0, float(np.abs(other).max())))


@functools.cache  # a run that many are compared with; `floatx` is only a part of its key
def on_one_device(run: Any, model: str, optimizer: str, batch: int, rows: int, floatx: str = "float32") -> Any:
    assert keras.config.floatx() == floatx
    return run(sd.OneDeviceStrategy(), model, optimizer, batch, rows)


@pytest.mark.parametrize(("model", "strategy"), sampled(itertools.product(MODELS, list(STRATEGIES)[1:]), SAMPLE))
def test_losses_equal_those_of_one_device(model: str, strategy: str) -> None:
    optimizer = list(OPTIMIZERS)[(list(MODELS).index(model) + list(STRATEGIES).index(strategy)) % 3]
    run = fitted if list(STRATEGIES).index(strategy) % 2 else looped
    # The last batch of each pass has 5 rows, which do not divide evenly, or 1.
    rows = 29 if run is fitted else 25
    agree(run(STRATEGIES[strategy](), model, optimizer, 12, rows), on_one_device(run, model, optimizer, 12, rows))


def test_the_sample_has_every_strategy_and_every_model() -> None:
    assert {model for model, _ in SAMPLE} == set(MODELS)
    assert {strategy for _, strategy in SAMPLE} == set(list(STRATEGIES)[1:])


@pytest.mark.parametrize("replicas", sampled(REPLICAS, [8]))
def test_any_number_of_replicas_gives_the_same_losses(replicas: int) -> None:
    expected = on_one_device(looped, "mlp", "adam", 70, 150)
    agree(looped(sd.MirroredStrategy(replicas), "mlp", "adam", 70, 150), expected)


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
@pytest.mark.parametrize("model", sampled(MODELS, ["synchronised batch-norm"]))
def test_fit_equals_plain_keras(model: str) -> None:
    expected = plain(model, "adam", 12, 29)
    with_strategy = fitted(sd.MirroredStrategy(3), model, "adam", 12, 29)
    agree(with_strategy, expected)


@pytest.mark.parametrize("strategy", sampled(["mirrored 3", "workers 2 x 2", "central 2"], ["workers 2 x 2"]))
def test_double_precision_agrees_to_twelve_digits(strategy: str) -> None:
    jax.config.update("jax_enable_x64", True)
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    try:
        expected = on_one_device(looped, "mlp", "adam", 12, 25, "float64")
        agree(looped(STRATEGIES[strategy](), "mlp", "adam", 12, 25), expected, rtol=1e-12)
    finally:
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
        jax.config.update("jax_enable_x64", False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("replicas", REPLICAS)
@pytest.mark.parametrize("run", [fitted, looped])
def test_the_whole_matrix(run: Any, replicas: int, model: str, optimizer: str) -> None:
    expected = on_one_device(run, model, optimizer, 70, 150)
    agree(run(sd.MirroredStrategy(replicas), model, optimizer, 70, 150), expected)
    agree(run(sd.CentralStorageStrategy(replicas), model, optimizer, 70, 150), expected)
    agree(run(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": replicas})), model, optimizer, 70, 150), expected)
