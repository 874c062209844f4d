"""How the tasks of a world die, with what they hold, and start again."""

from __future__ import annotations

import pytest

from simdist.errors import UnavailableError
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from tests.runtime.simulated.machines import LATENCY_S, world


@pytest.fixture
def there() -> World:
    return world()


def starts(there: World, name: str) -> list[float]:
    """When a task starts again, from now on."""
    seconds: list[float] = []
    there.mains[name].append(lambda task: seconds.append(there.now))
    return seconds


def test_a_crash_ends_what_runs_on_the_task_and_drops_what_it_holds(there: World) -> None:
    task, ended = there.tasks["worker:0"], list[float]()

    def work() -> None:
        try:
            there.clock.sleep(10.0)
        finally:
            ended.append(there.now)

    there.start(task, work)
    there.hold("worker:0", "weights", 100)
    task.local["dataset"] = "rows"
    there.clock.after(2.0, lambda _: there.crash(task))
    there.clock.sleep(5.0)
    assert (ended, task.alive, task.local, task.fibers) == ([2.0], False, {}, [])
    assert there.processor("worker:0").memory.in_use_bytes == 0


def test_a_restart_is_the_next_incarnation_after_the_given_seconds(there: World) -> None:
    task, began = there.tasks["worker:0"], starts(there, "worker:0")
    first = task.process
    there.crash(task, 1.5)
    assert (task.alive, first.alive) == (False, False)
    there.clock.sleep(5.0)
    assert (began, task.incarnation, task.process is first) == ([1.5], 1, False)


def test_of_two_restarts_that_were_said_the_second_counts(there: World) -> None:
    task, began = there.tasks["worker:0"], starts(there, "worker:0")
    there.crash(task, 1.0)
    there.crash(task, 3.0)
    there.clock.sleep(5.0)
    assert began == [3.0]


def test_a_second_crash_without_a_restart_takes_the_first_one_back(there: World) -> None:
    began = starts(there, "worker:0")
    there.crash(there.tasks["worker:0"], 1.0)
    there.crash(there.tasks["worker:0"])
    there.clock.sleep(5.0)
    assert began == []


@pytest.mark.parametrize(("lost", "resets"), [(False, [LATENCY_S]), (True, [])])
def test_a_crash_resets_connections_and_a_lost_host_does_not(
    there: World, lost: bool, resets: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []
    monkeypatch.setattr(there.detection, "connection_reset", lambda *what: found.append(there.now))
    task = there.tasks["worker:0"]
    (there.lose_host if lost else there.crash)(task)
    there.clock.sleep(2.0)
    assert (found, task.process.lost) == (resets, lost)


@pytest.mark.parametrize(("keep_disk", "machine"), [(True, 0), (False, 1)])
def test_without_its_disk_a_task_starts_on_another_machine(there: World, keep_disk: bool, machine: int) -> None:
    task = there.tasks["worker:0"]
    there.crash(task, 0.0, keep_disk=keep_disk)
    there.clock.sleep(1.0)
    assert (task.alive, task.machine) == (True, machine)


def test_the_crash_of_the_chief_is_an_error_of_the_driver(there: World) -> None:
    with pytest.raises(UnavailableError, match=r"chief:0 crashed at 0\.000000 s, and this program with it"):
        there.crash(there.chief)


def test_the_crash_of_a_launched_chief_is_none(there: World) -> None:
    there.chief_is_launched = True
    there.crash(there.chief, 1.0)
    there.clock.sleep(2.0)
    assert there.chief.incarnation == 1


def test_all_that_a_crash_does_happens_while_the_task_is_down(there: World) -> None:
    seen: list[bool] = []

    class Group:
        def lost(self, task: Task) -> None:
            seen.append(task.alive)

    there.listeners.append(Group())  # type: ignore[arg-type]
    there.crash(there.tasks["worker:1"])
    assert seen == [False]
