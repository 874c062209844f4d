"""Determinism: equal seeds give equal digests, in any process; every plan of the ledger gives the same bits (class E1)."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import simdist as sd
from simdist import keras

PROGRAM = """
import numpy as np, sys, simdist as sd
from simdist import keras
cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=int(sys.argv[1]))
strategy = sd.ParameterServerStrategy(cluster)
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=3)
cluster.faults.crash("worker:1", after_steps=7, restart_after=0.001)
x = np.arange(160, dtype="float32").reshape(40, 4) / 160
model.fit(sd.Dataset.from_tensor_slices((x, x.sum(1))).shuffle(40).batch(4), epochs=2, steps_per_epoch=12, verbose=0)
print(cluster.trace.digest(), model.get_weights()[0].tobytes().hex())
"""


def run_program(seed: int, hash_seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(seed)], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_digest_and_weights_are_equal_in_processes_with_other_hash_seeds() -> None:
    assert run_program(0, "1") == run_program(0, "2")


def test_another_seed_gives_other_weights() -> None:
    assert run_program(0, "1").split()[1] != run_program(1, "1").split()[1]


def mlp() -> list[object]:
    return [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)]


def noisy() -> list[object]:
    return [keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3), keras.layers.Dense(1)]


def train(numerics: str, layers: object, optimizer: str, look: bool = False) -> tuple[str, list[float], bytes]:
    """Train through a crash; return digest, losses and weights."""
    with sd.Cluster({"worker": 3, "ps": 2}, seed=5, numerics=numerics) as cluster:
        strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
        with strategy.scope():
            model = keras.Sequential(layers())  # pyright: ignore[reportCallIssue]
            model.compile(optimizer, "mse", steps_per_execution=4)
        cluster.faults.crash("worker:2", after_steps=6, restart_after=0.001)
        x = np.random.default_rng(0).random((64, 4), np.float32)
        dataset = sd.Dataset.from_tensor_slices((x, x.sum(axis=1, keepdims=True))).shuffle(64, seed=1).batch(8)
        peek = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: model.get_weights()) if look else None
        history = model.fit(dataset, epochs=3, steps_per_epoch=16, verbose=0, callbacks=[peek] if peek else [])
        weights = b"".join(np.asarray(w).tobytes() for w in model.get_weights())
        return cluster.trace.digest(), history.history["loss"], weights


@pytest.mark.parametrize(("layers", "optimizer"), [(mlp, "adam"), (noisy, "rmsprop")])
@pytest.mark.parametrize("plan", ["deferred", "loop", "replay"])
def test_plan_gives_the_bits_of_eager_through_a_crash(plan: str, layers: object, optimizer: str) -> None:
    assert train(plan, layers, optimizer) == train("eager", layers, optimizer)


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
            compilations.append(cluster.runtime.ledger.compilations)
        assert compilations[1:] == [compilations[1]] * 3
