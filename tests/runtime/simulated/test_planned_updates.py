"""Plans of updates: what has not begun when a server becomes slower or faster takes as long as if it came then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simdist.runtime.simulated.task import Task
from tests.runtime.simulated.test_server_loop import SECONDS, Push, Scene

Heal = Callable[[], None]


def slow(scene: Scene, factor: float) -> Heal:
    """As the fault does; the result ends it."""
    task: Task = scene.task
    heal = scene.server.planned.at_another_pace(lambda: task.slow_by(factor))
    return lambda: scene.server.planned.at_another_pace(heal)


def test_updates_that_wait_take_the_pace_at_which_they_begin() -> None:
    scene = Scene()
    pushes = [Push(scene, 1).arrive() for _ in range(3)]
    scene.go(SECONDS / 2)
    heal = slow(scene, 3.0)
    scene.go(2.5 * SECONDS)  # the second began at SECONDS, and takes three times as long
    heal()
    pushes.append(Push(scene, 1).arrive())
    scene.go()
    assert [push.confirmed for push in pushes] == [[SECONDS], [4 * SECONDS], [5 * SECONDS], [6 * SECONDS]]
    spans = list(scene.world.trace.spans.where(category="apply"))
    assert [span.start_s for span in spans] == [0.0, SECONDS, 4 * SECONDS, 5 * SECONDS]
    assert scene.value == scene.task.updates == 4


def test_a_task_that_becomes_slow_while_it_is_paused_goes_on_at_its_pace_with_what_it_had_begun() -> None:
    scene = Scene()
    pushes = [Push(scene, 1).arrive() for _ in range(2)]
    scene.go(SECONDS / 2)
    go_on = scene.world.silence.pause(scene.task)
    scene.go(SECONDS)  # as if the second had begun: it has not
    slow(scene, 2.0)
    scene.go(SECONDS)
    go_on()
    scene.go()
    assert [push.confirmed for push in pushes] == [[3 * SECONDS], [5 * SECONDS]]


@pytest.mark.parametrize("factor", [1e308, 1e-300])
def test_a_pace_at_which_nothing_ends_or_all_at_once_breaks_no_plan(factor: float) -> None:
    scene = Scene()
    pushes = [Push(scene, 1).arrive() for _ in range(3)]
    heals = [slow(scene, factor), slow(scene, factor)]
    for heal in heals:
        heal()
    scene.go()
    assert scene.value == 3 and all(push.confirmed for push in pushes)


def test_updates_between_which_the_device_does_something_else_keep_their_plans() -> None:
    scene = Scene()
    first = Push(scene, 1).arrive()
    second = Push(scene, 1).arrive()
    scene.task.processor.occupy_for(0.0, SECONDS)
    third = Push(scene, 1).arrive()
    slow(scene, 2.0)
    scene.go()
    assert [push.confirmed for push in (first, second, third)] == [[SECONDS], [2 * SECONDS], [4 * SECONDS]]
