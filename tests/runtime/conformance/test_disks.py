"""Disks of tasks: what is written is there, what was refused changes nothing, and everything ends once."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.errors import InvalidArgumentError
from simdist.runtime.base import Engine
from simdist.runtime.storage import TaskDisk
from tests.runtime.conformance.driver import Driver

LONG_S = 3600.0


class Ended:
    """Notes how often something has ended, and how."""

    def __init__(self) -> None:
        self.errors: list[BaseException | None] = []

    def __call__(self, error: BaseException | None) -> None:
        self.errors.append(error)


@pytest.fixture
def disk(engine: Engine) -> TaskDisk:
    return engine.disk("worker:0")


def test_a_task_has_one_disk_and_each_its_own(engine: Engine) -> None:
    disks = [engine.disk(task) for task in engine.task_names]
    assert all(engine.disk(task) is disk for task, disk in zip(engine.task_names, disks, strict=True))
    disks[0].write("ckpt", 10, Ended())
    assert len(set(map(id, disks))) == len(disks) and not disks[1].exists("ckpt")
    with pytest.raises(InvalidArgumentError, match="worker:9"):
        engine.disk("worker:9")


def test_a_file_is_there_when_its_write_has_ended(disk: TaskDisk, driver: Driver) -> None:
    ended = Ended()
    disk.write("/data/ckpt-1", 1000, ended)
    driver.pass_time(LONG_S)
    assert ended.errors == [None] and disk.exists("/data/ckpt-1") and disk.used_bytes == 1000
    assert (disk.size_bytes("/data/ckpt-1"), disk.size_bytes("/data/no file")) == (1000, 0)
    disk.write("/data/ckpt-1", 400, ended)
    disk.write("/data/ckpt-2", 0, ended)
    driver.pass_time(LONG_S)
    assert ended.errors == [None] * 3 and disk.exists("/data/ckpt-2") and disk.used_bytes == 400


def test_parts_of_other_tasks_count_as_the_file_of_the_one_that_writes(engine: Engine, driver: Driver) -> None:
    ended = Ended()
    engine.disk("ps:0").write("ckpt", 1000, ended, {"ps:0": 500, "ps:1": 300, "worker:1": 200})
    driver.pass_time(LONG_S)
    assert ended.errors == [None]
    assert [engine.disk(task).used_bytes for task in ("ps:0", "ps:1", "worker:1")] == [1000, 0, 0]


def test_a_read_needs_no_file_and_leaves_none(disk: TaskDisk, driver: Driver) -> None:
    ended = Ended()
    disk.read("of another run", 1000, ended)
    driver.pass_time(LONG_S)
    assert ended.errors == [None] and not disk.exists("of another run") and disk.used_bytes == 0


def test_a_file_that_was_deleted_is_gone_and_one_that_is_not_there_is_no_error(disk: TaskDisk, driver: Driver) -> None:
    disk.write("ckpt", 10, Ended())
    driver.pass_time(LONG_S)
    disk.delete("ckpt")
    disk.delete("ckpt")
    assert not disk.exists("ckpt") and disk.used_bytes == 0


BAD: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    (("", 1), InvalidArgumentError, "needs a name"),
    ((3, 1), TypeError, "name of a file is 3"),
    (("a", -1), InvalidArgumentError, "size_bytes is -1"),
    (("a", 1.5), TypeError, r"size_bytes is 1\.5"),
    (("a", True), TypeError, "size_bytes is True"),
]


@pytest.mark.parametrize(("given", "error", "message"), BAD)
def test_what_is_no_file_is_refused_at_once(given: tuple[Any, ...], error: type[Exception], message: str, disk: TaskDisk) -> None:
    ended = Ended()
    for method in (disk.write, disk.read):
        with pytest.raises(error, match=message):
            method(*given, ended)
    assert not ended.errors and disk.used_bytes == 0


def test_parts_of_tasks_that_are_not_there_are_refused(disk: TaskDisk) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'worker:9'.*Did you mean"):
        disk.write("ckpt", 10, Ended(), {"worker:9": 10})
    with pytest.raises(InvalidArgumentError, match="the part on ps:0 is -1"):
        disk.write("ckpt", 10, Ended(), {"ps:0": -1})


def test_the_figures_of_a_disk_are_its_model(disk: TaskDisk) -> None:
    assert disk.model.capacity > 0 and disk.model.write_seconds(1000) >= 0.0


def test_a_task_without_notice_is_not_preempted(engine: Engine, driver: Driver) -> None:
    noticed: list[float] = []
    engine.watch_preemption("worker:0", noticed.append)
    driver.pass_time(LONG_S)
    assert engine.preempted_at("worker:0") is None and noticed == []
    for ask in (engine.preempted_at, lambda task: engine.watch_preemption(task, noticed.append)):
        with pytest.raises(InvalidArgumentError, match="worker:9"):
            ask("worker:9")
