"""What each fault of a disk does to an engine, alone and over another one; and what becomes of it on a cluster."""

from __future__ import annotations

import math
from typing import Any

import pytest

import simdist as sd
from faults.fake_effects import FakeEffects
from simdist.errors import AbortedError, InvalidArgumentError, ResourceExhaustedError
from simdist.faults.schedule import Faults

DISK = sd.hardware.DiskModel(read_bandwidth=1000.0, write_bandwidth=1000.0, latency=0.0, fsync=0.0)


def test_a_full_disk_is_noted_when_it_begins_and_when_it_heals() -> None:
    effects = FakeEffects()
    Faults(effects).disk_full("ps:0", at=1.0, until=2.0)
    assert effects.move_to(1.5).laid == [("fill_disk", "ps:0")]
    assert effects.move_to(2.5).laid == []
    assert effects.notes == [(1.0, "disk_full", "ps:0", {"until": 2.0}), (2.0, "heal", "ps:0", {"kind": "disk_full"})]


def test_of_two_slow_disks_the_end_of_one_leaves_the_other() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    first, second = faults.disk_slow("ps:0", 2, at=1.0, until=3.0), faults.disk_slow("ps:0", 5.0, at=2.0)
    assert effects.move_to(2.5).laid == [("slow_disk", "ps:0", 2.0), ("slow_disk", "ps:0", 5.0)]
    assert effects.move_to(3.0).laid == [("slow_disk", "ps:0", 5.0)]
    assert first.healed and not second.healed
    assert effects.notes[1] == (2.0, "disk_slow", "ps:0", {"factor": 5.0})


def test_torn_writes_add_up_and_have_no_end() -> None:
    effects = FakeEffects()
    faults = Faults(effects)
    fault = faults.torn_write("ps:0", at=1.0)
    faults.torn_write("ps:0", at=2.0, writes=3)
    effects.move_to(5.0)
    assert effects.torn == {"ps:0": 4} and fault.fired and not fault.healed
    assert effects.notes == [(1.0, "torn_write", "ps:0", {"writes": 1}), (2.0, "torn_write", "ps:0", {"writes": 3})]
    assert "until" not in fault.figures


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan, True, "2"])
def test_a_factor_that_is_none_is_refused(factor: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="factor="):
        Faults(FakeEffects()).disk_slow("ps:0", factor, at=0.0)


@pytest.mark.parametrize("writes", [0, 1.5, True, None])
def test_torn_writes_are_counted_by_whole_numbers(writes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="writes="):
        Faults(FakeEffects()).torn_write("ps:0", at=0.0, writes=writes)


@pytest.mark.parametrize("kind", ["disk_full", "disk_slow"])
def test_an_end_before_the_beginning_is_refused(kind: str) -> None:
    figures = {"factor": 2.0} if kind == "disk_slow" else {}
    with pytest.raises(InvalidArgumentError, match="until="):
        getattr(Faults(FakeEffects()), kind)("ps:0", at=2.0, until=1.0, **figures)


# -- on a cluster ---------------------------------------------------------------------------------------------------------


class Saving:
    """Writes of a thousand bytes, which take a second and another one to verify, on the disk of worker:0."""

    def __init__(self) -> None:
        self.cluster = sd.Cluster({"worker": 2}, disks=DISK)
        self.disk = self.cluster.engine.disk("worker:0")
        self.ended: list[tuple[float, type[BaseException] | None]] = []

    def write_at(self, *moments_s: float) -> Saving:
        for number, at_s in enumerate(moments_s):
            self.cluster.engine.after(at_s, lambda path=f"/data/ckpt-{number}": self.disk.write(path, 1000, self._note))
        sd.sleep(100.0, self.cluster)
        return self

    def _note(self, error: BaseException | None) -> None:
        self.ended.append((round(self.cluster.now, 9), None if error is None else type(error)))

    def marks(self, category: str) -> list[tuple[float, str]]:
        return [(round(mark.time_s, 9), mark.name) for mark in self.cluster.trace.instants.where(category=category)]


def test_writes_that_begin_or_end_while_a_disk_is_full_fail_and_others_do_not() -> None:
    saving = Saving()
    saving.cluster.faults.disk_full("worker:0", at=10.0, until=20.0)
    saving.write_at(0.0, 9.5, 15.0, 25.0)
    assert saving.ended == [(2.0, None), (10.5, ResourceExhaustedError), (15.0, ResourceExhaustedError), (27.0, None)]
    assert saving.marks("checkpoint") == [
        (10.5, "ckpt-1 was not written: the disk is full"),
        (15.0, "ckpt-2 was not written: the disk is full"),
    ]
    assert [saving.disk.exists(f"/data/ckpt-{number}") for number in range(4)] == [True, False, False, True]
    assert saving.disk.used_bytes == 2000


def test_a_slow_disk_multiplies_the_time_of_what_begins_meanwhile() -> None:
    saving = Saving()
    saving.cluster.faults.disk_slow("worker:0", 3.0, at=0.5, until=2.0)
    # The write began before; to read it back begins at 1 s and takes three seconds.
    assert saving.write_at(0.0, 10.0).ended == [(4.0, None), (12.0, None)]


def test_a_torn_write_is_found_and_written_once_more() -> None:
    saving = Saving()
    saving.cluster.faults.torn_write("worker:0", at=5.0)
    saving.write_at(0.0, 5.0, 20.0)
    ended_s, error = saving.ended[1]
    assert error is None and 8.0 <= ended_s < 9.0  # what is left of the first attempt takes less time to read
    ((torn_s, name),) = saving.marks("checkpoint")
    assert name == "write 1 of ckpt-1 was torn" and 6.0 <= torn_s < 7.0 and ended_s == pytest.approx(torn_s + 2.0)
    assert saving.ended[0] == (2.0, None) and saving.ended[2] == (22.0, None)


def test_three_torn_attempts_are_given_up_and_leave_the_file_as_it_was() -> None:
    saving = Saving()
    saving.cluster.faults.torn_write("worker:0", at=5.0, writes=4)
    saving.write_at(0.0, 5.0, 20.0)
    assert saving.ended[1][1] is AbortedError
    assert [name for _, name in saving.marks("checkpoint")] == [
        "write 1 of ckpt-1 was torn",
        "write 2 of ckpt-1 was torn",
        "write 3 of ckpt-1 was torn",
        "ckpt-1 was not written: its writes were torn",
        "write 1 of ckpt-2 was torn",
    ]
    assert not saving.disk.exists("/data/ckpt-1") and saving.disk.used_bytes == 2000 and saving.ended[2][1] is None
