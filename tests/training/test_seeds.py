"""Seeds that users set: of a generator of random numbers, of a layer, and of all of Keras."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest

import simdist as sd
from simdist import keras

STRATEGIES = [
    lambda: sd.OneDeviceStrategy(),
    lambda: sd.MirroredStrategy(2),
    lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync"),
]


def drawn(seed: int) -> list[list[float]]:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        generator = keras.random.SeedGenerator(seed)
    values = strategy.run(sd.function(lambda: keras.random.uniform((3,), seed=generator)))
    return [np.asarray(value).tolist() for value in strategy.local_results(values)]


def test_numbers_of_a_step_depend_on_the_seed_of_their_generator() -> None:
    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first == again != other
    assert first[0] != first[1]  # the replicas draw different ones


@pytest.mark.parametrize("make", STRATEGIES, ids=["one device", "mirrored", "parameter servers"])
@pytest.mark.sample(2)
def test_dropout_depends_on_the_seed_of_its_layer(make: Callable[[], sd.Strategy]) -> None:
    x = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)

    def losses(seed: int) -> list[float]:
        with make().scope():
            layers = [keras.layers.Dropout(0.5, seed=seed), keras.layers.Dense(1, kernel_initializer="ones")]
            model = keras.Sequential([keras.Input((4,)), *layers])
            model.compile("sgd", "mse")
        return model.fit(x, x.sum(1, keepdims=True), batch_size=6, shuffle=False, verbose=0).history["loss"]

    assert losses(7) == losses(7) != losses(8)


def test_generators_with_one_seed_draw_the_same_and_others_do_not() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        generators = [keras.random.SeedGenerator(seed) for seed in (3, 3, 4, None, None)]
    values = strategy.run(sd.function(lambda: [keras.random.uniform((), seed=generator) for generator in generators]))
    first, same, *others = map(float, values)
    assert first == same
    assert len({first, *others}) == 4


def kernel(strategy: sd.Strategy | None = None) -> list[float]:
    with (strategy or sd.MirroredStrategy(2)).scope():
        layer = keras.layers.Dense(1)
        layer.build((None, 2))
    return layer.kernel.numpy().ravel().tolist()


def test_the_seed_of_keras_decides_about_first_values() -> None:
    found: list[list[float]] = []
    for seed in (1, 2, 1):
        keras.utils.set_random_seed(seed)
        found += [kernel(), kernel()]
    assert found[:2] == found[4:]
    assert len({tuple(values) for values in found[:4]}) == 4


@pytest.mark.parametrize("make", STRATEGIES, ids=["one device", "mirrored", "parameter servers"])
@pytest.mark.sample(2)
def test_no_value_of_a_trace_outlives_it(make: Callable[[], sd.Strategy]) -> None:
    rows = np.ones((12, 4), np.float32)
    with make().scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(1)])
        model.compile("adam", "mse", metrics=["mae"])
    with jax.checking_leaks():
        assert model.fit(rows, rows[:, :1], batch_size=6, verbose=0).history["loss"][0] > 0.0


def test_the_seed_of_keras_counts_for_each_main_by_itself() -> None:
    def main(delay_s: float) -> list[list[float]]:
        sd.sleep(delay_s)
        keras.utils.set_random_seed(5)
        kernels: list[list[float]] = []
        for _ in range(2):
            sd.sleep(0.1)
            kernels.append(kernel(sd.OneDeviceStrategy()))
        return kernels

    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(lambda: main(0.05 * sd.TFConfigClusterResolver().task_id))
        run.join()
    first, second = run.results.values()
    assert first == second
    assert first[0] != first[1]
