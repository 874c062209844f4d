"""A program goes on when a disk has done its work, and gets its error."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.checkpoint.disk_waits import wait_for_disk


def test_a_program_goes_on_when_the_disk_has_done_its_work() -> None:
    engine = sd.Cluster({"worker": 1}).engine
    disk = engine.disk("worker:0")
    wait_for_disk(engine, "the file", lambda ended: disk.write("file", 4_000_000, ended))
    written_s = engine.now
    wait_for_disk(engine, "the file", lambda ended: disk.read("file", 4_000_000, ended))
    assert 0.0 < written_s < engine.now


def test_the_error_of_the_disk_is_that_of_the_wait() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.disk_full("worker:0", at=0.0)
    sd.sleep(0.1, cluster)
    disk = cluster.engine.disk("worker:0")
    with pytest.raises(sd.errors.ResourceExhaustedError, match="worker:0"):
        wait_for_disk(cluster.engine, "the file", lambda ended: disk.write("file", 4_000_000, ended))
