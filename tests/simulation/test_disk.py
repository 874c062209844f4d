"""A disk: how long it takes, who waits for whom, and what a crash leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError
from simdist.hardware.disks import DiskModel, hdd, nvme, ssd
from simdist.simulation.disk import Disk, Work
from simdist.simulation.files import Content
from simdist.simulation.kernel import Clock

QUICK = DiskModel(read_bandwidth=2e6, write_bandwidth=1e6, latency=0.001, fsync=0.01, capacity=10_000)


def disk_of(seed: int = 0, model: DiskModel = QUICK) -> Disk:
    return Disk(Clock(), model, "worker:0", np.random.default_rng(seed))


def do(disk: Disk, *works: Work) -> None:
    """Wait until the disk has done all of this."""
    for work in works:
        gate = disk.clock.gate()
        disk.run(work, lambda error, gate=gate: gate.open() if error is None else gate.fail(error))
        disk.clock.wait(gate)


def whole(disk: Disk, path: str) -> int | None:
    """The size of a file of which every byte is there; None of another one."""
    content = disk.files.content(path)
    return content.size_bytes if content.is_whole else None


def test_operations_take_latency_and_bytes() -> None:
    disk = disk_of()
    do(disk, disk.write("a", 1000))
    assert disk.clock.now == pytest.approx(0.002)
    do(disk, disk.read("a"))
    assert disk.clock.now == pytest.approx(0.0035)
    do(disk, disk.fsync("a"), disk.fsync_directory())
    assert disk.clock.now == pytest.approx(0.0235)
    do(disk, disk.rename("a", "b"))
    assert disk.clock.now == pytest.approx(0.0245)
    do(disk, disk.write_synced("c", 1000))
    assert disk.clock.now == pytest.approx(0.0365)


def test_work_that_two_ask_for_is_done_one_after_the_other() -> None:
    disk, ends = disk_of(), list[tuple[str, float]]()
    for name in ("a", "b"):
        disk.run(disk.write(name, 1000), lambda error, name=name: ends.append((name, round(disk.clock.now, 9))))
    assert ends == []
    disk.clock.sleep(1.0)
    assert ends == [("a", 0.002), ("b", 0.004)]


def test_several_operations_of_one_piece_of_work_are_not_interrupted_by_other_work() -> None:
    disk, ends = disk_of(), list[tuple[str, float]]()

    def replace(name: str) -> Work:
        yield from disk.write(name, 1000)
        yield from disk.fsync(name)

    for name in ("a", "b"):
        disk.run(replace(name), lambda error, name=name: ends.append((name, round(disk.clock.now, 9))))
    disk.clock.sleep(1.0)
    assert ends == [("a", 0.012), ("b", 0.024)]


def test_an_error_and_the_end_of_work_are_told_later_also_where_they_are_known_at_once() -> None:
    disk, told = disk_of(), list[Any]()
    disk.run(disk.read("a"), told.append)
    disk.run(disk.write("a", 10_001), told.append)
    disk.run((_ for _ in ()), told.append)
    assert told == []
    disk.clock.sleep(0.0)
    disk.clock.sleep(0.0)
    disk.clock.sleep(0.0)
    assert [type(error) for error in told] == [NotFoundError, ResourceExhaustedError, type(None)] and disk.clock.now == 0.0


def test_full_disk_refuses_and_keeps_what_it_has() -> None:
    disk = disk_of()
    do(disk, disk.write("a", 9_000))
    with pytest.raises(ResourceExhaustedError, match=r"worker:0 has 10000 bytes, of which 9000 are in use; 'b' needs 2000 more"):
        do(disk, disk.write("b", 2_000))
    with pytest.raises(ResourceExhaustedError, match="'a' needs 1001 more"):
        do(disk, disk.append("a", 1_001))
    assert disk.files.list() == ["a"] and whole(disk, "a") == 9_000
    do(disk, disk.write("a", 10_000))
    assert disk.files.used_bytes == 10_000


@pytest.mark.parametrize(
    ("begins_s", "takes_s", "fails_s"), [(0.4, 0.5, None), (0.8, 0.5, 1.3), (1.2, 0.5, 1.2), (0.7, 1.6, None), (2.1, 0.5, None)]
)
def test_what_begins_or_ends_while_there_is_no_room_fails(begins_s: float, takes_s: float, fails_s: float | None) -> None:
    disk = disk_of(model=DiskModel(write_bandwidth=1000.0, latency=0.0))
    clock, told, heals = disk.clock, list[Any](), list[Any]()
    clock.after(1.0, lambda _: heals.append(disk.fill()))
    clock.after(2.0, lambda _: heals.pop()())
    clock.after(begins_s, lambda _: disk.run(disk.write("a", int(1000 * takes_s)), lambda error: told.append((clock.now, error))))
    clock.sleep(4.0)
    ((ended_s, error),) = told
    assert ended_s == pytest.approx(begins_s + takes_s if fails_s is None else fails_s)
    assert isinstance(error, ResourceExhaustedError) == (fails_s is not None) == (not disk.files.exists("a"))


def test_a_write_that_ends_while_there_is_no_room_changes_nothing() -> None:
    disk, told = disk_of(), list[Any]()
    do(disk, disk.write("a", 10))
    disk.run(disk.write("a", 1000), told.append)
    disk.run(disk.append("a", 1000), told.append)
    disk.run(disk.write_synced("b", 1000), told.append)
    heal, again = disk.fill(), disk.fill()
    heal()
    disk.clock.sleep(1.0)
    assert all(isinstance(error, ResourceExhaustedError) and "full" in str(error) for error in told) and len(told) == 3
    assert disk.files.list() == ["a"] and whole(disk, "a") == 10
    again()
    do(disk, disk.write("a", 1000))
    assert whole(disk, "a") == 1000


def test_factors_multiply_the_time_of_what_begins_meanwhile() -> None:
    disk = disk_of()
    double, triple = disk.slow_by(2.0), disk.slow_by(3.0)
    do(disk, disk.write("a", 1000))
    assert disk.clock.now == pytest.approx(0.012)
    double()
    double()
    disk.run(disk.fsync("a"), lambda error: None)
    triple()  # what has begun stays slow
    do(disk, disk.write("b", 0))
    assert disk.clock.now == pytest.approx(0.012 + 0.03 + 0.001)


def test_torn_writes_keep_a_prefix_and_say_nothing() -> None:
    kept = set[int]()
    for seed in range(30):
        disk = disk_of(seed)
        disk.torn_writes = 1
        do(disk, disk.write("a", 100), disk.fsync("a"), disk.write("b", 100))
        content = disk.files.content("a")
        assert content.size_bytes == 100 and content.intact_bytes < 100 and not content.is_whole
        assert whole(disk, "b") == 100 and disk.torn_writes == 0
        kept.add(content.intact_bytes)
    assert len(kept) > 10


def test_missing_file_is_named_with_those_that_exist() -> None:
    disk = disk_of()
    do(disk, disk.write("model", 1))
    for operation in (disk.read, disk.fsync, disk.delete):
        with pytest.raises(NotFoundError, match=r"'model.bin'.*there are: model"):
            do(disk, operation("model.bin"))
    with pytest.raises(InvalidArgumentError, match="needs a name"):
        do(disk, disk.write("", 0))


def test_work_that_a_crash_drops_writes_nothing() -> None:
    disk, told = disk_of(), list[Any]()
    disk.run(disk.write("a", 1), told.append)
    disk.run(disk.write("b", 1), told.append)
    disk.clock.sleep(0.0005)
    for ended in disk.crash():
        ended(None)
    assert told == [None, None]
    disk.run(disk.write("c", 1), told.append)
    disk.clock.sleep(1.0)
    assert disk.files.list() == ["c"] and len(told) == 3


def test_work_that_failed_in_the_moment_of_a_crash_ends_once() -> None:
    disk, told = disk_of(), list[Any]()
    disk.run(disk.read("a"), told.append)
    (ended,) = disk.crash()
    ended(None)
    disk.run(disk.write("b", 10), told.append)
    disk.clock.sleep(1.0)
    assert told == [None, None] and whole(disk, "b") == 10


def test_work_of_a_process_that_stands_still_goes_on_with_it() -> None:
    clock, kept, is_still = Clock(), list[Any](), [False]
    disk = Disk(
        clock, QUICK, "worker:0", np.random.default_rng(0), lambda function, argument: is_still[0] and not kept.append((function, argument))
    )
    disk.run(disk.write("a", 1000), lambda error: None)
    is_still[0] = True
    clock.sleep(1.0)
    assert disk.files.list() == [] and len(kept) == 1
    is_still[0] = False
    for function, argument in kept:
        function(argument)
    assert disk.files.list() == ["a"]


def test_a_disk_that_is_lost_has_no_files() -> None:
    disk = disk_of()
    do(disk, disk.write("a", 100), disk.fsync("a"), disk.fsync_directory())
    assert disk.lose() == [] and disk.files.list() == [] and disk.files.used_bytes == 0
    disk.crash()
    assert disk.files.list() == []


def test_a_file_that_was_discarded_does_not_appear_again() -> None:
    for seed in range(10):
        disk = disk_of(seed)
        do(disk, disk.write("a", 100), disk.fsync("a"), disk.fsync_directory(), disk.write("b", 100), disk.rename("a", "c"))
        for name in ("a", "b", "c", "d"):
            disk.files.discard(name)
        assert disk.files.list() == []
        disk.crash()
        assert disk.files.list() == []


def test_file_that_was_never_synced_is_torn_somewhere() -> None:
    lengths: set[int] = set()
    for seed in range(40):
        disk = disk_of(seed)
        do(disk, disk.write("a", 0), disk.fsync_directory(), disk.append("a", 10))
        before = disk.files.content("a")
        disk.crash()
        found = disk.files.content("a")
        assert found == Content(before.version, 10, found.intact_bytes) and 0 <= found.intact_bytes <= 10
        lengths.add(found.intact_bytes)
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
            do(disk, getattr(disk, kind)(name, number))
        elif kind == "fsync_directory":
            do(disk, disk.fsync_directory())
        elif disk.files.exists(name):
            do(disk, disk.rename(name, other) if kind == "rename" else getattr(disk, kind)(name))
    do(disk, disk.write("kept", 8), disk.fsync("kept"), disk.fsync_directory(), disk.write("later", 6))
    precious = disk.files.content("kept")
    disk.crash()
    assert disk.files.content("kept") == precious and precious.is_whole


@pytest.mark.parametrize("stop", range(6))
@given(seed=st.integers(0, 1_000))
def test_replacing_safely_leaves_the_old_or_the_new_content(stop: int, seed: int) -> None:
    disk = disk_of(seed)
    do(disk, disk.write("model", 150), disk.fsync("model"), disk.fsync_directory())
    steps = [
        lambda: disk.write("model.tmp", 210),
        lambda: disk.fsync("model.tmp"),
        lambda: disk.rename("model.tmp", "model"),
        disk.fsync_directory,
    ]
    do(disk, *(step() for step in steps[:stop]))
    disk.crash()
    assert whole(disk, "model") in (150, 210)
    assert stop < 4 or whole(disk, "model") == 210


def test_replacing_in_place_can_lose_both() -> None:
    """The invariant above is not free: without a temporary file, some crash leaves neither the old nor the new content."""

    def after_crash(seed: int) -> int | None:
        disk = disk_of(seed)
        do(disk, disk.write("model", 150), disk.fsync("model"), disk.fsync_directory(), disk.write("model", 210))
        disk.crash()
        return whole(disk, "model")

    assert any(after_crash(seed) not in (150, 210) for seed in range(20))


def test_presets_are_ordered_by_speed() -> None:
    assert nvme.write_bandwidth > ssd.write_bandwidth > hdd.write_bandwidth
