"""Checkpoints of launched mains: each has values of its own, the chief writes, and all go on from what the chief chooses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError, ResourceExhaustedError
from simdist.hardware import DiskModel
from tests.checkpoint.kept import Kept
from tests.checkpoint.test_files import listed

variable: Any = sd.Variable


def launched(main: Callable[..., Any], workers: int = 2, **options: Any) -> list[Any]:
    """What the mains return, in the order of the workers."""
    with sd.Cluster({"worker": workers}, **options) as cluster:
        run = cluster.launch(main)
        run.join()
        return [run.results[f"worker:{number}"] for number in range(workers)]


def variables(strategy: Any) -> dict[str, Any]:
    """A mirrored variable, and counters with a value on each replica."""
    kinds = ("SUM", "MEAN", "ONLY_FIRST_REPLICA")
    with strategy.scope():
        counters = {
            kind: variable(
                0.0,
                trainable=False,
                synchronization=sd.VariableSynchronization.ON_READ,
                aggregation=getattr(sd.VariableAggregation, kind),
            )
            for kind in kinds
        }
        return {"mirrored": variable([0.0, 0.0]), **counters}


def local_values(strategy: Any, found: dict[str, Any]) -> list[float]:
    return [float(here(strategy, strategy.run(lambda v=v: v.value + 0.0))) for name, v in found.items() if name != "mirrored"]


def here(strategy: Any, value: Any) -> Any:
    """What the replica of this main has."""
    return np.asarray(strategy.local_results(value)[0])


def saving(directory: Path) -> Any:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        found = variables(strategy)
        index = strategy.cluster_resolver.task_id
        rows = iter(strategy.distribute_dataset(sd.Dataset.range(24).shuffle(24, seed=1).repeat().batch(4)))
        for _ in range(8):
            next(rows)

        def in_replica() -> None:
            context: Any = sd.get_replica_context()
            for name, v in found.items():
                if name != "mirrored":
                    v.assign(context.replica_id_in_sync_group + 1.0)

        strategy.run(in_replica)
        found["mirrored"].assign([1.0, 2.0])
        kept = Kept({"of": index})
        path = sd.Checkpoint(**found, kept=kept, rows=rows).save(directory / "ckpt")
        return path, here(strategy, next(rows)).tolist(), local_values(strategy, found)

    return main


def restoring(directory: Path) -> Any:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        found = variables(strategy)
        kept = Kept(None)
        rows = iter(strategy.distribute_dataset(sd.Dataset.range(24).shuffle(24, seed=1).repeat().batch(4)))
        sd.Checkpoint(**found, kept=kept, rows=rows).restore(directory / "ckpt-1").assert_consumed()
        totals = [float(v.numpy()) for name, v in found.items() if name != "mirrored"]
        return found["mirrored"].numpy().tolist(), local_values(strategy, found), totals, kept.state, here(strategy, next(rows)).tolist()

    return main


def test_each_main_gets_its_own_values_and_the_next_part_of_its_rows(tmp_path: Path) -> None:
    saved = launched(saving(tmp_path))
    assert [path for path, _, _ in saved] == [str(tmp_path / "ckpt-1")] * 2 and listed(tmp_path) == ["ckpt-1"]
    assert [own for _, _, own in saved] == [[1.0] * 3, [2.0] * 3]
    for number, (mirrored, own, totals, kept, rows) in enumerate(launched(restoring(tmp_path))):
        assert mirrored == [1.0, 2.0] and own == [number + 1.0] * 3 and totals == [3.0, 1.5, 1.0]
        assert kept == {"of": number} and rows == saved[number][1]


@pytest.mark.parametrize("workers", [1, 3])
def test_another_number_of_mains_gets_the_combined_values_and_the_same_rows(workers: int, tmp_path: Path) -> None:
    saved = launched(saving(tmp_path))
    found = launched(restoring(tmp_path), workers)
    assert [mirrored for mirrored, *_ in found] == [[1.0, 2.0]] * workers
    assert {tuple(totals) for _, _, totals, _, _ in found} == {(3.0, 1.5, 1.0)}
    rows = sorted(row for *_, part in found for row in np.asarray(part).ravel().tolist())
    assert rows == sorted(row for _, part, _ in saved for row in part), "the next global batch"


def test_one_notebook_that_drives_all_workers_restores_what_mains_have_saved(tmp_path: Path) -> None:
    launched(saving(tmp_path))
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    found = variables(strategy)
    sd.Checkpoint(**found).restore(tmp_path / "ckpt-1").expect_partial()
    assert found["mirrored"].numpy().tolist() == [1.0, 2.0]
    assert [float(v.numpy()) for name, v in found.items() if name != "mirrored"] == [3.0, 1.5, 1.0]
    values = strategy.local_results(strategy.run(lambda: found["SUM"].value + 0.0))
    assert [float(value) for value in values] == [1.0, 2.0]


def test_a_model_without_variables_is_restored_by_all_from_what_the_chief_chooses(tmp_path: Path) -> None:
    """Twice an epoch, with a new model and new mains between them, are two epochs."""

    def train(directory: Path, epochs: range) -> Any:
        def main() -> Any:
            strategy = sd.MultiWorkerMirroredStrategy()
            with strategy.scope():
                model = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Dense(1)])
                model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
            manager = sd.CheckpointManager(sd.Checkpoint(model=model), directory, 1)
            if strategy.cluster_resolver.task_id:
                manager._rotation.entries.clear()  # this one has seen nothing of the directory
            restored = manager.restore_or_initialize()
            x = np.linspace(0, 1, 8, dtype=np.float32)[:, None]
            options: Any = {"initial_epoch": epochs.start, "epochs": epochs.stop, "batch_size": 4, "shuffle": False, "verbose": 0}
            history = model.fit(x, 2 * x**2, **options).history["loss"]
            manager.save()
            moving = here(strategy, strategy.run(lambda: model.layers[0].moving_mean.value + 0.0)).tolist()
            return restored, history, moving

        return main

    whole, first = launched(train(tmp_path / "whole", range(2))), launched(train(tmp_path, range(1)))
    second = launched(train(tmp_path, range(1, 2)))
    for number in range(2):
        assert first[number][0] is None and second[number][0] == str(tmp_path / "ckpt-1")
        assert first[number][1] + second[number][1] == whole[number][1] and second[number][2] == whole[number][2]


def test_random_numbers_of_steps_go_on(tmp_path: Path) -> None:
    def draw(restores: bool) -> Any:
        def main() -> Any:
            strategy = sd.MultiWorkerMirroredStrategy()
            with strategy.scope():
                layer = keras.layers.Dropout(0.5)
                v = variable(0.0)
            checkpoint = sd.Checkpoint(layer=layer, v=v)

            @sd.function
            def step() -> Any:
                return strategy.run(lambda: layer(np.ones(16, np.float32), training=True))

            if restores:
                checkpoint.restore(tmp_path / "ckpt-1").assert_consumed()
            else:
                step()
                step()
                checkpoint.save(tmp_path / "ckpt")
            return [here(strategy, step()).tolist() for _ in range(3)]

        return main

    first = launched(draw(False))
    assert launched(draw(True)) == first and len({str(mask) for masks in first for mask in masks}) == 6


def test_a_chief_whose_disk_is_full_ends_the_save_with_an_error_and_the_others_go_on(tmp_path: Path) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = variable(np.zeros(100, np.float32))
        manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1)
        try:
            manager.save()
        except ResourceExhaustedError:
            return "full"
        return "saved"

    assert launched(main, disks=DiskModel(capacity=10.0)) == ["full", "saved"]
    assert listed(tmp_path) == []


def test_a_main_that_is_not_the_chief_removes_its_directory_as_in_tensorflow(tmp_path: Path) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            checkpoint = sd.Checkpoint(v=variable(1.0))
        directory = tmp_path if strategy.is_chief else tmp_path / "temporary" / "ckpt"
        manager = sd.CheckpointManager(checkpoint, directory, max_to_keep=1)
        for _ in range(2):
            manager.save()
            if not strategy.is_chief:
                shutil.rmtree(directory)
        return manager.latest_checkpoint == str(directory / "ckpt-2")

    assert launched(main) == [True, True]
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"ckpt-2", "temporary"}


def test_mains_that_save_different_objects_are_refused(tmp_path: Path) -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        found = variables(strategy)
        own = "SUM" if strategy.cluster_resolver.task_id else "MEAN"
        try:
            sd.Checkpoint(**{own: found[own]}).save(tmp_path / "ckpt")
        except InvalidArgumentError as error:
            return str(error)
        return None

    found = launched(main)
    assert found == [next(iter(found))] * 2 and "only one of them has MEAN, SUM" in found[0]
