"""An evaluator of checkpoints, beside the training and through a crash of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

X = np.linspace(0.0, 1.0, 32, dtype="float32")[:, None]
DATA = sd.Dataset.from_tensor_slices((X, X)).batch(8)


def build() -> keras.Model:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def evaluate(directory: str, most: int = 2) -> list[tuple[str, Any]]:
    with sd.OneDeviceStrategy().scope():
        model = build()
    evaluator = sd.SidecarEvaluator(model, DATA, directory, max_evaluations=most, poll_s=0.5, timeout_s=60.0)
    return [(one.path.name, one.logs["loss"]) for one in evaluator.start()]


@pytest.mark.parametrize("crash", [False, True], ids=["undisturbed", "the evaluator crashes"])
def test_each_new_checkpoint_is_evaluated(crash: bool) -> None:
    with sd.Cluster({"worker": 2, "ps": 1, "evaluator": 1}) as cluster:
        directory = cluster.directory("saved")
        if crash:
            cluster.faults.crash("evaluator:0", at=0.7, restart_after=0.1)
        beside = cluster.launch(evaluate, job="evaluator", restart="always", args=(directory,))
        with sd.ParameterServerStrategy(cluster).scope():
            model = build()
        manager = sd.CheckpointManager(sd.Checkpoint(model=model), directory, max_to_keep=2)
        expected = []
        for _ in range(2):
            model.fit(X, X, batch_size=8, verbose=0)
            path = manager.save()
            assert path is not None
            expected.append((path.rpartition("/")[2], model.evaluate(DATA, verbose=0)))
            sd.sleep(3.0)
        beside.join()
        found = beside.results["evaluator:0"]
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in expected], rel=1e-6)


@pytest.mark.parametrize(("kind", "at"), [("crash", 4.2), ("crash", 7.5), ("pause", 5.0)])
@pytest.mark.sample(2)
def test_the_last_checkpoint_ends_the_evaluations_whatever_was_missed(kind: str, at: float) -> None:
    with sd.Cluster({"worker": 2, "evaluator": 1}) as cluster:
        directory = cluster.directory("saved")
        if kind == "crash":
            cluster.faults.crash("evaluator:0", at=at, restart_after=0.1)
        else:
            cluster.faults.pause("evaluator:0", at=at, until=at + 5.0)
        beside = cluster.launch(evaluate, job="evaluator", restart="always", args=(directory, 4))
        with sd.OneDeviceStrategy().scope():
            model = build()
        checkpoint, expected = sd.Checkpoint(model=model), {}
        for weight in range(1, 5):
            model.set_weights([np.float32([[weight]]), np.float32([0.0])])
            expected[checkpoint.save(f"{directory}/ckpt").rpartition("/")[2]] = float(np.mean((weight * X - X) ** 2))
            sd.sleep(3.0)
        beside.join()
        found = beside.results["evaluator:0"]
        assert cluster.now < 13.0
    assert found[-1][0] == "ckpt-4"
    assert 2 <= len(found) < 4
    assert [loss for _, loss in found] == pytest.approx([expected[name] for name, _ in found], rel=1e-5)


def test_a_training_that_counts_anew_is_evaluated() -> None:
    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster, sd.OneDeviceStrategy().scope():
        directory = cluster.directory("saved")
        first, second = sd.Checkpoint(model=build()), sd.Checkpoint(model=build())
        for _ in range(3):
            first.save(f"{directory}/ckpt")
        evaluator = sd.SidecarEvaluator(build(), DATA, directory, timeout_s=5.0)
        evaluator.start()
        second.save(f"{directory}/ckpt")
        assert [one.path.name for one in evaluator.start()] == ["ckpt-3", "ckpt-1"]


def test_where_the_newest_is_damaged_the_one_before_it_is_evaluated() -> None:
    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster, sd.OneDeviceStrategy().scope():
        checkpoint, directory = sd.Checkpoint(model=build()), cluster.directory("saved")
        paths = [Path(checkpoint.save(f"{directory}/ckpt")) for _ in range(2)]
        max((file for file in paths[1].rglob("*") if file.is_file()), key=lambda file: file.stat().st_size).write_bytes(b"torn")
        with pytest.warns(UserWarning, match=r"passes over .*ckpt-2"):
            evaluations = sd.SidecarEvaluator(build(), DATA, directory, timeout_s=5.0).start()
    assert [one.path.name for one in evaluations] == ["ckpt-1"]


def test_a_checkpoint_without_a_model_is_no_match() -> None:
    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster:
        directory = cluster.directory("saved")
        sd.Checkpoint(other=sd.Variable(1.0)).save(directory + "/ckpt")
        with sd.OneDeviceStrategy().scope():
            model = build()
        with pytest.raises(AssertionError, match="nothing that this program has"):
            sd.SidecarEvaluator(model, DATA, directory, max_evaluations=1).start()


def test_a_checkpoint_without_some_of_the_layers_is_of_another_model() -> None:
    with sd.Cluster({"worker": 1, "evaluator": 1}) as cluster, sd.OneDeviceStrategy().scope():
        directory = cluster.directory("saved")
        sd.Checkpoint(model=build()).save(directory + "/ckpt")
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        with pytest.raises(InvalidArgumentError, match=r"of another model .* nothing for model/layers/dense_1"):
            sd.SidecarEvaluator(model, DATA, directory, max_evaluations=1).start()
