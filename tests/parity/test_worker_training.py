"""Conformance case B243: the loop of TensorFlow's guide on several workers, which each main writes itself, and its restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

EPOCHS, STEPS = 3, 4
X = np.random.default_rng(0).random((8 * STEPS, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def main(directory: Path) -> tuple[tuple[int, int], list[float], list[Any], list[str]]:
    """Where a main has begun, its losses, what it has trained, and the checkpoints at its end. All mains name one directory."""
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        w, optimizer = sd.Variable(np.zeros((4, 1), np.float32)), keras.optimizers.Adam(0.05)
        epoch, step_in_epoch = sd.Variable(0, trainable=False), sd.Variable(0, trainable=False)
    checkpoint = sd.Checkpoint(w=w, optimizer=optimizer, epoch=epoch, step_in_epoch=step_in_epoch)
    manager = sd.CheckpointManager(checkpoint, str(directory), max_to_keep=1)
    if latest := sd.latest_checkpoint(str(directory)):
        checkpoint.restore(latest).assert_existing_objects_matched()
    began, losses = (int(epoch), int(step_in_epoch)), list[float]()

    def replica(batch: Any) -> Any:
        x, y = batch
        loss, gradients = sd.value_and_grad(lambda: sd.compute_average_loss(((x @ w.value - y) ** 2)[:, 0]), [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True))
        return loss

    step = sd.function(lambda iterator: strategy.reduce("sum", strategy.run(replica, args=(next(iterator),)), axis=None))
    rows = strategy.distribute_dataset(sd.Dataset.from_tensor_slices((X, Y)).batch(8))
    while int(epoch) < EPOCHS:
        iterator = iter(rows)
        while int(step_in_epoch) < STEPS:
            losses.append(float(step(iterator)))
            step_in_epoch.assign_add(1)
        epoch.assign_add(1), step_in_epoch.assign(0)
        manager.save()
    return began, losses, w.numpy().tolist(), [Path(path).name for path in manager.checkpoints]


def results(directory: Path, crashed: str = "", after_steps: int = 0) -> dict[str, Any]:
    """What the mains of three workers return, of which one may die."""
    cluster = sd.Cluster({"worker": 3})
    if crashed:
        cluster.faults.crash(crashed, after_steps=after_steps, restart_after=1.0)
    run = cluster.launch(main, restart="always", args=(directory,))
    run.join()
    return run.results


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("crashed", ["worker:0", "worker:2"])
@pytest.mark.parametrize(("after_steps", "epoch"), [(2, 0), (STEPS + 2, 1), (2 * STEPS + 3, 2)])
def test_b243_all_mains_go_on_from_the_epoch_that_was_saved(crashed: str, after_steps: int, epoch: int, tmp_path: Path) -> None:
    undisturbed = results(tmp_path / "whole")
    found = results(tmp_path / "broken", crashed, after_steps)
    assert undisturbed.keys() == found.keys() == {"worker:0", "worker:1", "worker:2"}
    for worker, (began, losses, w, checkpoints) in found.items():
        _, all_losses, expected, _ = undisturbed[worker]
        assert (began, w, checkpoints) == ((epoch, 0), expected, ["ckpt-3"])
        assert losses == all_losses[STEPS * epoch :]
    assert sorted(path.name for path in (tmp_path / "broken").glob("ckpt-*")) == ["ckpt-3"]
