"""Local steps of variables that are made after other ones were trained, and outer optimizers that belong to one strategy."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from tests.strategies.conftest import bytes_sent


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(seed).normal(size=(32, 3)).astype(np.float32)
    return x, x.sum(1, keepdims=True)


def trained(strategy: sd.MultiWorkerMirroredStrategy, seed: int) -> Any:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.layers[0].set_weights([np.full((3, 1), 0.1 * seed, np.float32), np.zeros(1, np.float32)])
        model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(*data(seed), epochs=2, batch_size=8, shuffle=False, verbose=0)
    return model


def plain_average(seed: int, every: int = 2, workers: int = 2) -> np.ndarray:
    """Local SGD in numpy: each worker takes its half of a batch."""
    kernels: list[Any] = [np.full((3, 1), 0.1 * seed)] * workers
    biases: list[Any] = [np.zeros(1)] * workers
    steps = 0
    for _ in range(2):
        for x, y in zip(np.split(data(seed)[0], 4), np.split(data(seed)[1], 4), strict=True):
            for rank, (part, wanted) in enumerate(zip(np.split(x, workers), np.split(y, workers), strict=True)):
                error = part @ kernels[rank] + biases[rank] - wanted
                kernels[rank] = kernels[rank] - 0.05 * 2 * part.T @ error / len(part)
                biases[rank] = biases[rank] - 0.05 * 2 * error.mean(0)
            steps += 1
            if steps % every == 0:
                kernels, biases = [sum(kernels) / workers] * workers, [sum(biases) / workers] * workers
    return np.concatenate([kernels[0].ravel(), biases[0]])


def flat(model: Any) -> np.ndarray:
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@pytest.mark.parametrize("keeps_first", [True, False])
def test_a_model_that_is_built_after_another_was_trained_is_averaged(keeps_first: bool) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2)
    first = trained(strategy, 1)
    np.testing.assert_allclose(flat(first), plain_average(1), rtol=1e-5, atol=1e-6)
    if not keeps_first:
        first = None
        gc.collect()
    second = trained(strategy, 2)
    np.testing.assert_allclose(flat(second), plain_average(2), rtol=1e-5, atol=1e-6)
    kernel = second.trainable_variables[0]
    values = [np.asarray(value) for value in strategy.local_results(strategy.run(lambda: kernel.value * 1.0))]
    assert values[0].tobytes() == values[1].tobytes()
    if keeps_first:
        np.testing.assert_allclose(flat(first), plain_average(1), rtol=1e-5, atol=1e-6)


def test_a_model_that_nobody_can_reach_is_averaged_no_more_and_goes() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=2)
    first = trained(strategy, 1)
    kernel, sent = weakref.ref(first.trainable_variables[0].simdist_variable), bytes_sent(cluster)
    del first
    second = trained(strategy, 2)
    np.testing.assert_allclose(flat(second), plain_average(2), rtol=1e-5, atol=1e-6)
    assert kernel() is None
    assert bytes_sent(cluster) == 2 * sent


def test_launched_mains_average_what_they_build_later() -> None:
    def main() -> list[np.ndarray]:
        strategy = sd.MultiWorkerMirroredStrategy(sync_every=2)
        return [flat(trained(strategy, seed)) for seed in (1, 2)]

    with sd.Cluster({"worker": 2}) as cluster:
        run = cluster.launch(main)
        run.join()
    for found in run.results.values():
        for seed, weights in zip((1, 2), found, strict=True):
            np.testing.assert_allclose(weights, plain_average(seed), rtol=1e-5, atol=1e-6)


def outer() -> Any:
    return keras.optimizers.SGD(0.7, momentum=0.9, nesterov=True)


def test_an_outer_optimizer_refuses_a_model_that_is_built_after_the_first_step() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, outer_optimizer=outer())
    trained(strategy, 1)
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"made after the first training step.*Build all models before that step"):
        trained(strategy, 2)


def test_an_outer_optimizer_lets_counts_be_made_later() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, outer_optimizer=outer())
    model = trained(strategy, 1)
    with strategy.scope():
        count = sd.Variable(np.zeros((), np.float32))
    model.fit(*data(1), epochs=1, batch_size=8, verbose=0)
    assert float(count.numpy()) == 0.0


def driven(shared: Any) -> None:
    for _ in range(2):
        trained(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=2, outer_optimizer=shared), 1)


def launched(shared: Any) -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        cluster.launch(lambda: trained(sd.MultiWorkerMirroredStrategy(sync_every=2, outer_optimizer=shared), 1)).join()


@pytest.mark.parametrize("use", [driven, launched])
def test_an_outer_optimizer_of_two_strategies_is_refused(use: Callable[[Any], None]) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"is that of another strategy .* Make one for each strategy"):
        use(outer())
