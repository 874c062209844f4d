"""The coordinator's own main crashes, or a server with all that it holds: the training goes on from the last backup."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras

X = np.random.default_rng(0).random((64, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
EPOCHS, STEPS = 4, 8


def main(directory: str, save_freq: Any) -> tuple[dict[str, list[float]], int, list[Any]]:
    resolver = sd.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
    strategy = sd.ParameterServerStrategy(resolver, sd.FixedShardsPartitioner(2))
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    data = sd.Dataset.from_tensor_slices((X, Y)).batch(8).repeat()
    backup = keras.callbacks.BackupAndRestore(directory, save_freq=save_freq)
    history = model.fit(data, epochs=EPOCHS, steps_per_epoch=STEPS, verbose=0, callbacks=[backup])
    return history.history, int(model.optimizer.iterations.value), model.get_weights()


def run(save_freq: Any, *crashes: tuple[str, float], workers: int = 1) -> tuple[Any, dict[str, int], float]:
    with sd.Cluster({"chief": 1, "worker": workers, "ps": 2}) as cluster:
        for task, at in crashes:
            cluster.faults.crash(task, at=at, restart_after=1.0)
        mains = cluster.launch(main, job=["chief", "worker", "ps"], restart="always", args=(cluster.directory("backup"), save_freq))
        mains.join()
        return mains.results["chief:0"], mains.restarts, cluster.now


GRID = [(tasks, save_freq) for tasks in (("chief:0",), ("ps:1",), ("ps:1", "chief:0")) for save_freq in ("epoch", 3)]


@pytest.mark.parametrize(("tasks", "save_freq"), sampled(GRID, [(("chief:0",), "epoch"), (("ps:1", "chief:0"), 3)]))
def test_one_worker_ends_with_the_same_bits(tasks: tuple[str, ...], save_freq: Any) -> None:
    # One worker takes the batches in their order, so that its numbers are those of a synchronous training.
    (history, iterations, weights), _, end_s = run(save_freq)
    assert iterations == EPOCHS * STEPS
    found, restarts, _ = run(save_freq, *((task, end_s * (0.5 + 0.1 * place)) for place, task in enumerate(tasks)))
    assert found[:2] == (history, iterations)
    assert all(map(np.array_equal, found[2], weights))
    assert restarts["chief:0"] == 1


def test_several_workers_count_every_batch_once() -> None:
    (_, iterations, _), _, end_s = run(3, workers=2)
    (history, again, _), restarts, _ = run(3, ("chief:0", end_s * 0.6), workers=2)
    assert (again, len(history["loss"]), restarts["chief:0"]) == (iterations, EPOCHS, 1)
