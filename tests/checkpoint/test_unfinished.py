"""What is written beside a program is not lost without a word when the program ends."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import ResourceExhaustedError
from simdist.hardware import DiskModel
from tests.checkpoint.test_files import listed

SLOW, FULL = DiskModel(write_bandwidth=1000.0), DiskModel(capacity=100)
ASYNC = sd.CheckpointOptions(enable_async=True)
BYTES = 4000


def saved(directory: Path, cluster: sd.Cluster | None = None) -> sd.Checkpoint:
    """A checkpoint that is being written."""
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        checkpoint = sd.Checkpoint(v=sd.Variable(np.ones(BYTES // 4, np.float32)))
    checkpoint.save(directory / "ckpt", ASYNC)
    return checkpoint


def test_a_main_ends_when_its_checkpoint_is_written(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2}, disks=SLOW)
    run = cluster.launch(lambda: saved(tmp_path).save_counter)
    run.join()
    assert run.results == {"worker:0": 1, "worker:1": 1}
    assert listed(tmp_path) == ["ckpt-1"] and cluster.now > BYTES / 1000.0
    cluster.close()


def test_a_full_disk_is_the_error_of_the_main(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}, disks=FULL) as cluster, pytest.raises(ResourceExhaustedError, match="full"):
        cluster.launch(lambda: saved(tmp_path).save_counter).join()


@pytest.mark.parametrize(("disk", "why"), [(SLOW, "closed before"), (FULL, "ResourceExhaustedError")])
def test_a_cluster_that_is_closed_says_what_is_lost(disk: DiskModel, why: str, tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}, disks=disk) as cluster:
        saved(tmp_path, cluster)
        sd.sleep(1.0, cluster)
        with pytest.warns(UserWarning, match=rf"ckpt-1' was to be written beside the program, and is lost: .*{why}"):
            cluster.close()
    assert sd.latest_checkpoint(tmp_path) is None


@pytest.mark.parametrize("how", ["sync", "sleep", "save", "told"])
def test_what_is_written_or_known_is_not_warned_of(how: str, tmp_path: Path) -> None:
    with warnings.catch_warnings(), sd.Cluster({"worker": 1}, disks=FULL if how == "told" else SLOW) as cluster:
        warnings.simplefilter("error")
        checkpoint: Any = saved(tmp_path, cluster)
        if how == "sync":
            checkpoint.sync()
        elif how == "save":
            checkpoint.save(tmp_path / "ckpt")
        elif how == "sleep":
            sd.sleep(100.0, cluster)
        else:
            with pytest.raises(ResourceExhaustedError):
                checkpoint.sync()


def test_a_program_that_is_rewound_has_not_lost_what_it_writes_again(tmp_path: Path) -> None:
    def program(cluster: sd.Cluster) -> None:
        checkpoint = saved(tmp_path, cluster)
        sd.sleep(1.0, cluster)
        checkpoint.sync()

    session = sd.Session(program, sd.Cluster({"worker": 1}, disks=SLOW))
    session.advance(until=0.5)
    session.rewind(0.2)
    session.advance()
    assert sd.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1") and session.state == "finished"
