"""A disk: how long it takes, who waits for whom, and what a crash leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from simdist.hardware.disks import DiskModel, hdd, nvme, ssd
from simdist.simulation.disk import Disk
from simdist.simulation.kernel import Clock, TaskKilled

QUICK = DiskModel(read_bandwidth=2e6, write_bandwidth=1e6, latency=0.001, fsync=0.01, capacity=10_000)


def disk_of(seed: int = 0, model: DiskModel = QUICK) -> Disk:
    return Disk(Clock(), model, "worker:0", np.random.default_rng(seed))


def test_operations_take_latency_and_bytes() -> None:
    disk = disk_of()
    disk.write("a", b"x" * 1000)
    assert disk.clock.now == pytest.approx(0.002)
    disk.read("a")
    assert disk.clock.now == pytest.approx(0.0035)
    disk.fsync("a")
    disk.fsync_directory()
    assert disk.clock.now == pytest.approx(0.0235)
    disk.rename("a", "b")
    assert disk.clock.now == pytest.approx(0.0245)


def test_operations_of_two_fibers_are_done_one_after_the_other() -> None:
    disk, ends = disk_of(), list[tuple[str, float]]()

    def writer(name: str) -> None:
        disk.write(name, b"x" * 1000)
        ends.append((name, round(disk.clock.now, 9)))

    fibers = [disk.clock.spawn(name, lambda name=name: writer(name)) for name in ("a", "b")]
    for fiber in fibers:
        disk.clock.join(fiber)
    assert ends == [("a", 0.002), ("b", 0.004)]


def test_full_disk_refuses_and_keeps_what_it_has() -> None:
    disk = disk_of()
    disk.write("a", b"x" * 9_000)
    with pytest.raises(ResourceExhaustedError, match=r"worker:0 has 10000 bytes, of which 9000 are in use; 'b' needs 2000 more"):
        disk.write("b", b"y" * 2_000)
    assert disk.list() == ["a"]
    disk.write("a", b"z" * 10_000)
    assert disk.used_bytes == 10_000


def test_missing_file_is_named_with_those_that_exist() -> None:
    disk = disk_of()
    disk.write("model", b"1")
    for operation in (disk.read, disk.fsync, disk.delete):
        with pytest.raises(NotFoundError, match=r"'model.bin'.*there are: model"):
            operation("model.bin")
    with pytest.raises(InvalidArgumentError, match="needs a name"):
        disk.write("", b"")


def test_dead_process_writes_nothing() -> None:
    clock, alive = Clock(), [True]
    disk = Disk(clock, QUICK, "worker:0", np.random.default_rng(0), alive=lambda: alive[0])
    fiber = clock.spawn("worker:0", lambda: disk.write("a", b"x"))
    clock.after(0.0005, lambda _: alive.clear() or alive.append(False))
    with pytest.raises(TaskKilled):
        clock.join(fiber)
    assert disk.list() == []


def test_file_that_was_never_synced_is_torn_somewhere() -> None:
    lengths: set[int] = set()
    for seed in range(40):
        disk = disk_of(seed)
        disk.write("a", b"")
        disk.fsync_directory()
        disk.append("a", b"0123456789")
        disk.crash()
        assert b"0123456789".startswith(disk.read("a"))
        lengths.add(len(disk.read("a")))
    assert 0 in lengths and 10 in lengths and len(lengths) > 5


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "append", "fsync", "fsync_directory", "rename", "delete"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=25,
)


@given(steps=STEPS, seed=st.integers(0, 1_000))
def test_synced_file_with_a_synced_name_is_whole_after_any_crash(steps: list[tuple[str, int, int]], seed: int) -> None:
    disk = disk_of(seed)
    for number, (kind, first, second) in enumerate(steps):
        name, other = "abc"[first], "abc"[second]
        if kind in ("write", "append"):
            getattr(disk, kind)(name, f"<{number}>".encode())
        elif kind == "fsync_directory":
            disk.fsync_directory()
        elif disk.exists(name):
            disk.rename(name, other) if kind == "rename" else getattr(disk, kind)(name)
    disk.write("kept", b"precious")
    disk.fsync("kept")
    disk.fsync_directory()
    disk.write("later", b"unsure")
    disk.crash()
    assert disk.read("kept") == b"precious"


@pytest.mark.parametrize("stop", range(6))
@given(seed=st.integers(0, 1_000))
def test_replacing_safely_leaves_the_old_or_the_new_content(stop: int, seed: int) -> None:
    disk = disk_of(seed)
    disk.write("model", b"old" * 50)
    disk.fsync("model")
    disk.fsync_directory()
    steps = [
        lambda: disk.write("model.tmp", b"new" * 70),
        lambda: disk.fsync("model.tmp"),
        lambda: disk.rename("model.tmp", "model"),
        disk.fsync_directory,
    ]
    for step in steps[:stop]:
        step()
    disk.crash()
    found = disk.read("model")
    assert found in (b"old" * 50, b"new" * 70)
    assert stop < 4 or found == b"new" * 70


def test_replacing_in_place_can_lose_both() -> None:
    """The invariant above is not free: without a temporary file, some crash leaves neither the old nor the new content."""

    def after_crash(seed: int) -> bytes:
        disk = disk_of(seed)
        disk.write("model", b"old" * 50)
        disk.fsync("model")
        disk.fsync_directory()
        disk.write("model", b"new" * 70)
        disk.crash()
        return disk.read("model")

    assert any(after_crash(seed) not in (b"old" * 50, b"new" * 70) for seed in range(20))


def test_presets_are_ordered_by_speed() -> None:
    assert nvme.write_bandwidth > ssd.write_bandwidth > hdd.write_bandwidth
