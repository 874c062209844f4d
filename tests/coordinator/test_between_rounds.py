"""What is saved or restored while servers apply a round has it for all variables or for none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist import keras

MODES: dict[str, dict[str, Any]] = {"synchronous": {"mode": "sync"}, "bounded": {"mode": "bounded", "staleness": 1}}


def counting(mode: str) -> tuple[Any, Any, Any, Any]:
    """Two counters on two servers, the second of which is slow, in the middle of the first round; and their checkpoint."""
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    cluster.faults.slow("ps:1", factor=1000.0, at=0.0)
    strategy = sd.ParameterServerStrategy(cluster, **MODES[mode])
    with strategy.scope():
        first, second = sd.Variable(0.0), sd.Variable(0.0)

    @sd.function
    def step() -> None:
        first.assign_add(1.0)
        second.assign_add(1.0)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(8):
        coordinator.schedule(step)
    while not float(first):
        sd.sleep(1e-5, cluster)
    assert float(second) == 0.0
    return coordinator, first, second, sd.Checkpoint(first=first, second=second)


@pytest.mark.parametrize("mode", MODES)
def test_a_checkpoint_has_whole_rounds(mode: str, tmp_path: Path) -> None:
    coordinator, first, second, checkpoint = counting(mode)
    path = checkpoint.save(tmp_path / "c", sd.CheckpointOptions(enable_async=True))
    coordinator.join()
    assert float(first) == float(second) == 8.0
    checkpoint.restore(path)
    assert float(first) == float(second) < 8.0


@pytest.mark.parametrize("mode", MODES)
def test_a_restore_leaves_the_servers_with_the_same_rounds(mode: str, tmp_path: Path) -> None:
    coordinator, first, second, checkpoint = counting(mode)
    start = sd.Checkpoint(first=sd.Variable(100.0), second=sd.Variable(100.0)).save(tmp_path / "start")
    checkpoint.restore(start)
    assert float(first) == float(second) == 100.0
    coordinator.join()
    assert float(first) == float(second) > 100.0


def test_a_model_that_is_saved_has_whole_rounds(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    cluster.faults.slow("ps:0", factor=20.0, at=0.0)
    with sd.ParameterServerStrategy(cluster, **MODES["bounded"]).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(1.0), lambda targets, outputs: outputs - 0 * targets)  # kernel and bias have the same gradient
    ones = [[1.0]] * 16
    saves = keras.callbacks.ModelCheckpoint(tmp_path / "{batch}.weights.h5", save_freq=1, save_weights_only=True)
    model.fit(keras.ops.array(ones), keras.ops.array(ones), batch_size=2, verbose=0, callbacks=[saves])
    for path in tmp_path.iterdir():
        model.load_weights(path)
        kernel, bias = model.get_weights()
        assert float(kernel[0, 0]) == float(bias[0])
