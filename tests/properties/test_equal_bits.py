"""Determinism: equal seeds give equal digests, in any process; every plan of the ledger gives the same bits (class E1)."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

PROGRAM = """
import numpy as np, sys, simdist as sd
from simdist import keras
for seed in sys.argv[1:]:
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=int(seed))
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=3)
    cluster.faults.crash("worker:1", after_steps=7, restart_after=0.001)
    x = np.arange(160, dtype="float32").reshape(40, 4) / 160
    model.fit(sd.Dataset.from_tensor_slices((x, x.sum(1))).shuffle(40).batch(4).repeat(), epochs=2, steps_per_epoch=12, verbose=0)
    print(cluster.trace.digest(), model.get_weights()[0].tobytes().hex())
"""


@functools.cache  # the tests share their runs
def run_program(hash_seed: str, *seeds: int) -> list[str]:
    """What the program prints for each seed, in one new process."""
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, seeds)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_digest_and_weights_are_equal_in_processes_with_other_hash_seeds() -> None:
    (found,) = run_program("2", 0)
    assert found == run_program("1", 0, 1)[0]


def test_another_seed_gives_other_weights() -> None:
    one, another = run_program("1", 0, 1)
    assert one.split()[1] != another.split()[1]


def mlp() -> list[object]:
    return [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]


def noisy() -> list[object]:
    return [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3), keras.layers.Dense(1)]


@functools.cache  # the run that others are compared with is the same for many tests
def train(numerics: str, layers: Any, optimizer: str, look: bool = False) -> tuple[str, list[float], bytes]:
    """Train through a crash; return digest, losses and weights."""
    with sd.Cluster({"worker": 3, "ps": 2}, seed=5, numerics=numerics) as cluster:
        strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
        with strategy.scope():
            model = keras.Sequential(layers())
            model.compile(OPTIMIZERS[optimizer](), "mse", steps_per_execution=4)
        cluster.faults.crash("worker:2", after_steps=6, restart_after=0.001)
        x = np.random.default_rng(0).random((64, 4), np.float32)
        dataset = sd.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64, seed=1).batch(8).repeat()
        peek = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: model.get_weights()) if look else None
        history = model.fit(dataset, epochs=3, steps_per_epoch=16, verbose=0, callbacks=[peek] if peek else [])
        weights = b"".join(np.asarray(w).tobytes() for w in model.get_weights())
        return cluster.trace.digest(), history.history["loss"], weights


@pytest.mark.parametrize(("layers", "optimizer"), [(mlp, "adam"), (noisy, "rmsprop")])
@pytest.mark.parametrize("plan", ["deferred", "loop", "replay"])
@pytest.mark.sample
def test_plan_gives_the_bits_of_eager_through_a_crash(plan: str, layers: Any, optimizer: str) -> None:
    assert train(plan, layers, optimizer) == train("eager", layers, optimizer)


def linear() -> list[object]:
    return [keras.Input((4,)), keras.layers.Dense(1)]


def convolution() -> list[object]:
    layers = keras.layers
    return [keras.Input((4,)), layers.Reshape((2, 2, 1)), layers.Conv2D(4, 2, padding="same"), layers.Flatten(), layers.Dense(1)]


def embedding() -> list[object]:
    layers = keras.layers
    return [keras.Input((4,)), layers.Rescaling(9.99), layers.Embedding(10, 6), layers.Flatten(), layers.Dense(1)]


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05),
    "momentum": lambda: keras.optimizers.SGD(0.005, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "clipped adam": lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.5),
}


def train_mirrored(numerics: str, layers: Any, optimizer: Any) -> tuple[list[float], bytes]:
    with sd.Cluster({"worker": 1}, seed=2, numerics=numerics) as cluster:
        results: dict[str, Any] = {}

        def main() -> None:
            with sd.MirroredStrategy(devices=3).scope():
                model = keras.Sequential(layers())
                model.compile(optimizer(), "mse")
            x = np.random.default_rng(0).random((50, 4), np.float32)
            history = model.fit(x, x.sum(axis=1, keepdims=True), batch_size=12, epochs=2, verbose=0)
            results["all"] = history.history["loss"], b"".join(np.asarray(w).tobytes() for w in model.get_weights())

        cluster.launch(main).join()
        return results["all"]


MODELS = [linear, mlp, convolution, embedding, noisy]


def check_replay(layers: Any, optimizer: str) -> None:
    assert train("replay", layers, optimizer) == train("eager", layers, optimizer)
    make = OPTIMIZERS[optimizer]
    assert train_mirrored("replay", layers, make) == train_mirrored("eager", layers, make)


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "optimizer"), [(mlp, "adam")])  # of which other tests have runs, too
def test_model_and_optimizer_have_the_same_bits_by_replay(layers: Any, optimizer: str) -> None:
    check_replay(layers, optimizer)


@pytest.mark.exhaustive
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("layers", MODELS)
def test_every_model_and_optimizer_have_the_same_bits_by_replay(layers: Any, optimizer: str) -> None:
    check_replay(layers, optimizer)


@pytest.mark.parametrize(
    ("layers", "optimizer"), sampled([(mlp, "adam"), (convolution, "momentum"), (embedding, "rmsprop")], [(mlp, "adam")])
)
def test_vmap_gives_nearly_the_numbers_of_eager(layers: Any, optimizer: str) -> None:
    digest, losses, weights = train("vmap", layers, optimizer)
    expected_digest, expected_losses, expected_weights = train("eager", layers, optimizer)
    assert digest == expected_digest
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
    np.testing.assert_allclose(np.frombuffer(weights, np.float32), np.frombuffer(expected_weights, np.float32), rtol=1e-4, atol=1e-6)


@functools.cache
def train_optax(numerics: str) -> bytes:
    with sd.Cluster({"worker": 3, "ps": 2}, seed=5, numerics=numerics) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.full((4, 1), 0.1, np.float32), name="w")
            optimizer = sd.Optimizer(optax.chain(optax.clip_by_global_norm(0.1), optax.adam(0.05)))

        @sd.function
        def step(iterator: Any) -> Any:
            x, y = next(iterator)
            loss, gradients = sd.value_and_grad(lambda: ((x @ w.value - y) ** 2).mean(), [w])()
            optimizer.apply_gradients(zip(gradients, [w], strict=True))
            return loss

        x = np.random.default_rng(0).random((64, 4), np.float32)
        data = sd.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64, seed=1).batch(8).repeat()
        coordinator = sd.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(lambda: data))
        cluster.faults.crash("worker:2", after_steps=5, restart_after=0.001)
        values = [coordinator.schedule(step, args=(iterator,)) for _ in range(40)]
        middle = np.asarray(values[20].fetch()).tobytes()
        coordinator.join()
        return middle + np.asarray(w.numpy()).tobytes()


@pytest.mark.parametrize("plan", ["deferred", "loop", "replay"])
def test_optax_chain_with_a_global_norm_has_the_bits_of_eager(plan: str) -> None:
    assert train_optax(plan) == train_optax("eager")


def test_looking_at_weights_changes_no_bit_and_no_time() -> None:
    assert train("deferred", mlp, "adam", look=True) == train("deferred", mlp, "adam")


def linear_schedule(numerics: str) -> str:
    with sd.Cluster({"worker": 4, "ps": 2}, numerics=numerics) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.zeros((3, 1)), name="w")

        @sd.function
        def step() -> None:
            w.assign_add(w.value * 0.5 + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        for _ in range(30):
            coordinator.schedule(step)
        coordinator.join()
        return cluster.trace.digest()


def test_timing_only_gives_the_schedule_of_the_run_with_numbers() -> None:
    assert linear_schedule("off") == linear_schedule("deferred") == linear_schedule("eager")


def test_replay_compiles_once_for_many_stretches() -> None:
    with sd.Cluster({"worker": 2, "ps": 1}, numerics="replay") as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(np.zeros(2), name="v")

        @sd.function
        def step() -> None:
            v.assign_add(v.value + 1.0)

        coordinator = sd.ClusterCoordinator(strategy)
        compilations = []
        for _ in range(4):
            for _ in range(10):
                coordinator.schedule(step)
            coordinator.join()
            v.numpy()
            compilations.append(cluster.world.ledger.compilations)
        assert compilations[1:] == [compilations[1]] * 3
