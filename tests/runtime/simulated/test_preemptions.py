"""Preemptions: the notice, the kill, and whose machine it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.errors import UnavailableError


class Scene:
    """A cluster whose worker:0 may be preempted, and what was noticed of it."""

    def __init__(self, *, task: str = "worker:0") -> None:
        self.cluster = sd.Cluster({"worker": 2, "ps": 1})
        self.task = task
        self.noticed: list[tuple[float, float]] = []
        self.cluster.engine.watch_preemption(task, lambda killed_at_s: self.noticed.append((self.cluster.now, killed_at_s)))

    def sleep_until(self, second: float) -> Scene:
        sd.sleep(second - self.cluster.now, self.cluster)
        return self

    @property
    def killed_at_s(self) -> float | None:
        return self.cluster.engine.preempted_at(self.task)

    def told(self) -> list[tuple[float, str]]:
        return [
            (mark.time_s, mark.category) for mark in self.cluster.trace.instants if mark.lane == self.task and mark.category != "detect"
        ]

    def writes(self, path: str = "ckpt") -> None:
        self.cluster.engine.disk(self.task).write(path, 10, lambda error: None)

    @property
    def incarnation(self) -> int:
        return self.cluster.engine.process(self.task).incarnation

    @property
    def is_up(self) -> bool:
        return self.cluster.engine.process(self.task).alive


def test_a_task_has_notice_from_the_trigger_to_the_kill_and_starts_again_elsewhere() -> None:
    scene = Scene()
    scene.writes()
    scene.cluster.faults.preempt("worker:0", notice=2.0, at=1.0, restart_after=3.0)
    assert scene.sleep_until(0.5).killed_at_s is None and scene.cluster.engine.disk("worker:0").exists("ckpt")
    assert scene.sleep_until(1.5).killed_at_s == 3.0 and scene.noticed == [(1.0, 3.0)] and scene.is_up
    assert scene.sleep_until(2.999).is_up
    assert not scene.sleep_until(3.5).is_up and scene.killed_at_s is None
    assert scene.sleep_until(10.0).is_up and scene.incarnation == 1 and scene.killed_at_s is None
    assert not scene.cluster.engine.disk("worker:0").exists("ckpt")
    assert scene.told() == [(1.0, "preempt"), (3.0, "crash"), (6.0, "restart")]
    assert scene.cluster.engine.preempted_at("worker:1") is None and len(scene.noticed) == 1


def test_without_a_restart_the_task_is_gone() -> None:
    scene = Scene()
    scene.cluster.faults.preempt("worker:0", 2.0, at=1.0)
    assert not scene.sleep_until(100.0).is_up and scene.told() == [(1.0, "preempt"), (3.0, "crash")]


def test_a_process_that_crashes_and_comes_back_on_the_same_machine_has_the_same_notice() -> None:
    scene = Scene()
    scene.cluster.faults.preempt("worker:0", 5.0, at=1.0, restart_after=1.0)
    scene.cluster.faults.crash("worker:0", at=2.0, restart_after=1.0)
    assert scene.sleep_until(4.0).is_up and scene.incarnation == 1 and scene.killed_at_s == 6.0
    assert scene.sleep_until(10.0).incarnation == 2
    assert scene.told() == [(1.0, "preempt"), (2.0, "crash"), (3.0, "restart"), (6.0, "crash"), (7.0, "restart")]


Moved = Callable[[Any], object]
MOVES: dict[str, Moved] = {
    "lost host": lambda faults: faults.lose_host("worker:0", at=2.0, restart_after=1.0),
    "crash that loses the disk": lambda faults: faults.crash("worker:0", at=2.0, restart_after=1.0, keep_disk=False),
    "another preemption": lambda faults: faults.preempt("worker:0", 0.5, at=1.5, restart_after=1.0),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_task_that_has_another_machine_meanwhile_is_not_killed(move: str) -> None:
    scene = Scene()
    scene.cluster.faults.preempt("worker:0", 5.0, at=1.0, restart_after=1.0)
    MOVES[move](scene.cluster.faults)
    assert scene.sleep_until(4.0).is_up and scene.killed_at_s is None
    assert scene.sleep_until(20.0).is_up and scene.incarnation == 1


def test_of_two_notices_the_earlier_kill_counts() -> None:
    scene = Scene()
    scene.cluster.faults.preempt("worker:0", 5.0, at=1.0, restart_after=1.0)
    scene.cluster.faults.preempt("worker:0", 1.0, at=2.0, restart_after=1.0)
    assert scene.sleep_until(1.5).killed_at_s == 6.0
    assert scene.sleep_until(2.5).killed_at_s == 3.0 and scene.noticed == [(1.0, 6.0), (2.0, 3.0)]
    assert scene.sleep_until(20.0).incarnation == 1


def test_a_machine_is_taken_away_also_while_the_process_is_down() -> None:
    scene = Scene()
    scene.writes()
    scene.cluster.faults.crash("worker:0", at=1.0, restart_after=10.0)
    scene.cluster.faults.preempt("worker:0", 1.0, at=2.0, restart_after=1.0)
    assert scene.sleep_until(2.5).cluster.engine.disk("worker:0").exists("ckpt") and scene.killed_at_s == 3.0
    assert scene.sleep_until(20.0).is_up and scene.incarnation == 1
    assert [second for second, category in scene.told() if category == "restart"] == [4.0]
    assert not scene.cluster.engine.disk("worker:0").exists("ckpt")


def test_the_chief_has_notice_and_the_program_ends_at_the_kill() -> None:
    scene = Scene(task="chief:0")
    scene.cluster.faults.preempt("chief", 2.0, at=1.0)
    scene.sleep_until(2.0)
    assert scene.noticed == [(1.0, 3.0)] and scene.killed_at_s == 3.0
    with pytest.raises(UnavailableError, match=r"chief:0 crashed at 3\.000000 s"):
        scene.sleep_until(4.0)


def test_work_of_a_preempted_worker_is_done_by_others() -> None:
    scene = Scene()
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(scene.cluster))
    scene.cluster.faults.preempt("worker:0", notice=1.0, at=0.5)
    values = [coordinator.schedule(lambda: sd.sleep(1.0)) for _ in range(4)]
    coordinator.join()
    assert all(value.state == "ready" for value in values)
    assert len(scene.cluster.trace.instants.where(category="retry")) == 1


def test_a_wait_that_only_a_preemption_can_end_goes_on_to_it() -> None:
    scene = Scene()
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(scene.cluster))
    for worker in ("worker:0", "worker:1"):
        scene.cluster.faults.pause(worker, at=0.5)
    scene.cluster.faults.preempt("worker:0", notice=500.0, at=0.6, restart_after=1.0)
    coordinator.schedule(lambda: sd.sleep(1.0))
    coordinator.join()
    assert scene.cluster.now > 501.0
