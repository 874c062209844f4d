"""Which notices of pre-emption a program knows: those of its own machine, and of the machines whose replicas it drives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((64, 4)).astype("float32")
Y = X.sum(1, keepdims=True)
STRATEGIES: dict[str, Callable[[], Any]] = {
    "several workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "a slice": sd.TPUStrategy,
    "devices": lambda: sd.MirroredStrategy(devices=2),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "one device": sd.OneDeviceStrategy,
}


def train(strategy: Any, directory: Path | str, losses: list[float]) -> None:
    """Eight steps with drop-out."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.01)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).shuffle(64, seed=1).batch(8).repeat()))

    @sd.function
    def step(batches: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            def loss() -> Any:
                return sd.compute_average_loss(((model(x, training=True) - y) ** 2).sum(axis=-1))

            value, gradients = sd.value_and_grad(loss, model.trainable_variables)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return value

        return strategy.reduce("sum", strategy.run(replica, args=next(batches)), axis=None)

    checkpoint = sd.Checkpoint(model=model, optimizer=optimizer, iterator=iterator)
    handler = sd.PreemptionCheckpointHandler(getattr(strategy, "cluster_resolver", None), checkpoint, directory)
    while handler.total_run_calls < 8:
        losses.append(float(handler.run(step, iterator)))
        sd.sleep(1.0)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", STRATEGIES)
def test_a_program_that_drives_all_replicas_saves_at_the_notice_of_any_of_their_machines(kind: str, tmp_path: Path) -> None:
    expected, losses = list[float](), list[float]()
    undisturbed, strategy, after = STRATEGIES[kind](), STRATEGIES[kind](), STRATEGIES[kind]()
    with undisturbed.cluster:
        train(undisturbed, tmp_path / "undisturbed", expected)
    task = "worker:1" if strategy.num_workers > 1 else "worker:0"
    with strategy.cluster, pytest.raises(SystemExit, match="42"):
        strategy.cluster.faults.preempt(task, at=2.5, notice=5.0, restart_after=1.0)
        train(strategy, tmp_path / "disturbed", losses)
    assert losses == expected[:3]
    with after.cluster:
        train(after, tmp_path / "disturbed", losses)
    assert losses == expected


def test_a_fit_from_one_program_saves_at_the_notice_of_a_worker(tmp_path: Path) -> None:
    def fitted(directory: Path, at: float | None) -> tuple[list[float], float]:
        keras.utils.set_random_seed(1)
        with sd.Cluster({"worker": 2}) as cluster:
            if at is not None:
                cluster.faults.preempt("worker:1", at=at, notice=1.0)
            with sd.MultiWorkerMirroredStrategy(cluster).scope():
                model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
                model.compile(keras.optimizers.Adam(0.01), "mse")
            backup = keras.callbacks.BackupAndRestore(directory, save_freq=None, save_before_preemption=True)
            return model.fit(X, Y, batch_size=8, epochs=3, verbose=0, callbacks=[backup]).history["loss"], cluster.now

    expected, end_s = fitted(tmp_path / "undisturbed", None)
    with pytest.raises(SystemExit, match="42"):
        fitted(tmp_path / "disturbed", end_s * 0.9)
    assert fitted(tmp_path / "disturbed", None)[0] == expected


@pytest.mark.parametrize("is_plain", [False, True], ids=["its variables are on a slice of their own", "plain data"])
@pytest.mark.sample(2)
def test_a_main_knows_the_notice_of_its_own_machine_wherever_its_variables_are(is_plain: bool) -> None:
    def results(at: float | None) -> list[float]:
        losses: list[float] = []

        def main(directory: str) -> None:
            if not is_plain:
                return train(sd.TPUStrategy(), directory, losses)
            handler = sd.PreemptionCheckpointHandler(None, sd.Checkpoint(), directory)
            while handler.total_run_calls < 8:
                handler.run(sd.sleep, 1.0)
                losses.append(handler.total_run_calls)

        with sd.Cluster({"worker": 1}) as cluster:
            if at is not None:
                cluster.faults.preempt("worker:0", at=at, notice=5.0, restart_after=1.0)
            run = cluster.launch(main, restart="always", args=(cluster.directory("saved"),))
            run.join()
            assert run.restarts == {"worker:0": 0 if at is None else 1}
        return losses

    assert results(2.5) == results(None)
