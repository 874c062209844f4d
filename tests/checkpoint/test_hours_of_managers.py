"""Checkpoints that stay for ever: one in so many virtual hours, whatever becomes of the others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError
from simdist.runtime.cluster import for_others
from tests.checkpoint.kept import Kept
from tests.checkpoint.test_files import listed
from tests.checkpoint.test_manager import INDEX, managed, names

variable: Any = sd.Variable


def test_old_ones_stay_one_in_so_many_virtual_hours(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1})
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        v = variable(0.0)
    manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1, keep_checkpoint_every_n_hours=2.0)
    for _ in range(9):
        manager.save()
        cluster.world.clock.sleep(3600.0)
    assert listed(tmp_path) == ["ckpt-3", "ckpt-5", "ckpt-7", "ckpt-9", INDEX] and names(manager.checkpoints) == ["ckpt-9"]
    again = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1, keep_checkpoint_every_n_hours=2.0)
    assert names(again.checkpoints) == ["ckpt-9"]
    again.save()
    cluster.world.clock.sleep(3600.0)
    again.save()
    assert listed(tmp_path) == ["ckpt-11", "ckpt-3", "ckpt-5", "ckpt-7", "ckpt-9", INDEX]


def test_the_hours_count_from_when_the_manager_was_new(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1})
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        v = variable(0.0)
    cluster.world.clock.sleep(5 * 3600.0)
    manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1, keep_checkpoint_every_n_hours=2.0)
    for _ in range(6):  # of hours 0, 1, ... 5 of the manager
        manager.save()
        cluster.world.clock.sleep(3600.0)
    assert listed(tmp_path) == ["ckpt-3", "ckpt-5", "ckpt-6", INDEX]


@pytest.mark.parametrize("where", ["in no scope", "plain data", "Keras"])
def test_the_hours_of_what_belongs_to_no_strategy_are_those_of_sleep(where: str, tmp_path: Path) -> None:
    """A new manager in the middle knows from the files when they were saved."""
    with sd.Cluster({"worker": 1}):
        saved = {"in no scope": lambda: variable(1.0), "plain data": lambda: Kept("one"), "Keras": lambda: keras.Variable(1.0)}[where]()

        def made() -> sd.CheckpointManager:
            return sd.CheckpointManager(sd.Checkpoint(saved=saved), tmp_path, 1, keep_checkpoint_every_n_hours=1.0)

        manager = made()
        for number in range(6):
            manager.save()
            sd.sleep(1800.0)
            manager = made() if number == 3 else manager
        manager.save()
    assert listed(tmp_path) == ["ckpt-3", "ckpt-5", "ckpt-7", INDEX]


def test_those_that_stay_for_ever_stay_also_where_the_newest_is_gone_and_none_does_with_0_hours(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}):
        for hours, expected in ((1.0, ["ckpt-2", "ckpt-3", "ckpt-4", INDEX]), (0, ["ckpt-4", INDEX])):
            directory = tmp_path / str(hours)
            manager = managed(directory, 1, keep_checkpoint_every_n_hours=hours)
            for _ in range(4):
                manager.save()
                sd.sleep(3600.0)
            assert listed(directory) == expected
        shutil.rmtree(tmp_path / "1.0" / "ckpt-4")
        for _ in range(2):  # each finds the newest of those that have stayed, and goes on with it
            again = managed(tmp_path / "1.0", 1, keep_checkpoint_every_n_hours=1.0)
            assert names(again.checkpoints)[-1] == again.restore_or_initialize().rpartition("/")[2]  # type: ignore[union-attr]
            again.save()
    assert listed(tmp_path / "1.0") == ["ckpt-2", "ckpt-3", "ckpt-4", "ckpt-5", INDEX]


def test_hours_are_refused_where_no_time_passes(tmp_path: Path) -> None:
    with for_others(), pytest.raises(FailedPreconditionError, match=r"keep_checkpoint_every_n_hours=1\.0 .* no cluster"):
        managed(tmp_path, keep_checkpoint_every_n_hours=1.0)
    with sd.Cluster({"worker": 1}):
        managed(tmp_path, keep_checkpoint_every_n_hours=1.0)


# -- failures -------------------------------------------------------------------------------------------------------------
