"""A worker: its closures run one after the other, die with their incarnation, and reply once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from simdist.errors import AbortedError, TimedOutError
from simdist.hardware import Device, Network
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.engine import SimulatedEngine
from simdist.runtime.work import Handle, Worker
from tests.runtime.conformance.driver import POOLS, Driver, WorkerStep

LATENCY_S, SECONDS = 0.5, 1.0
MOMENTS = 15


class Scene:
    """One worker, a parameter server and a chief, each with a number; every kernel takes a second, and a message half of one."""

    def __init__(self) -> None:
        tasks = ("chief:0", "worker:0", "ps:0")
        network = Network(bandwidth=1e9, latency=LATENCY_S)
        self.engine = SimulatedEngine({task: Device(launch_overhead=SECONDS) for task in tasks}, network, 0, "deferred")
        self.pool = POOLS[self.engine] = self.engine.start_workers(["worker:0"], object())
        self.world = self.engine.world
        self.worker = self.world.tasks["worker:0"]
        self.driver = Driver(self.engine)
        self.numbers = {task: self.driver.variable(np.float32(0), task, name=task) for task in tasks}
        self.others = {task: self.driver.variable(np.float32(100), task, name=f"other of {task}") for task in tasks}
        self.told: list[float] = []

    def step(self, *tasks: str) -> Callable[[], Any]:
        """Reads the numbers of these tasks, and adds one to each."""

        def step() -> Any:
            values = [self.numbers[task].value for task in tasks]
            for task in tasks:
                self.numbers[task].assign_add(np.float32(1) + 0 * sum(values))
            return values

        return step

    def call(self, *tasks: str, repeat: int = 1) -> Handle:
        step = WorkerStep(self.driver, self.step(*tasks), (), repeat)
        step.fitting = True
        handle = self.pool.call("worker:0", step, 1)
        handle.then(lambda: self.told.append(self.engine.now))
        return handle

    def at(self, second: float, function: Callable[[], Any]) -> None:
        self.world.clock.after(second, lambda _: function())

    def value(self, task: str) -> float:
        return float(self.numbers[task].numpy())

    def closures(self) -> list[tuple[str, float, float]]:
        """Closures that have ended or were dropped: which, start and end in virtual seconds."""
        spans = self.world.trace.spans
        return [(span.category, span.start_s, span.end_s) for span in spans if span.category in ("closure", "dropped")]

    @property
    def is_clean(self) -> bool:
        return not any(task.calls for task in self.world.tasks.values()) and all(not link.flows for link in self.world.fabric.links())


@pytest.fixture
def scene() -> Scene:
    return Scene()


def duration_s(*tasks: str, repeat: int = 1) -> float:
    """How long a closure takes that nobody disturbs."""
    scene = Scene()
    scene.call(*tasks, repeat=repeat).wait()
    return scene.engine.now


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_worker_that_dies_calls_nobody_and_changes_nothing_any_more(moment: int) -> None:
    scene, whole_s = Scene(), duration_s("ps:0", repeat=2)
    crash_s = whole_s * (moment + 0.5) / MOMENTS
    handle = scene.call("ps:0", repeat=2)
    scene.at(crash_s, lambda: scene.world.crash(scene.worker, 0.1))
    scene.engine.sleep(crash_s + 1e-6)
    spans, value = len(scene.world.trace.spans), scene.value("ps:0")
    scene.engine.sleep(10 * whole_s)
    assert (scene.told, handle.error) == ([], None)
    assert scene.value("ps:0") == value
    assert [span.category for span in list(scene.world.trace.spans)[spans:]] in ([], ["down"])
    assert scene.is_clean and scene.worker.incarnation == 1


def test_a_closure_that_waited_at_an_incarnation_that_died_is_not_run_by_the_next(scene: Scene) -> None:
    first, second = scene.call("ps:0"), scene.call("ps:0")
    scene.at(LATENCY_S + 0.1, lambda: scene.world.crash(scene.worker, 0.1))
    scene.engine.sleep(50.0)
    assert (scene.value("ps:0"), scene.told, first.error, second.error) == (0, [], None, None)
    scene.call("ps:0").wait()
    assert scene.value("ps:0") == 1


@pytest.mark.parametrize("task", ["ps:0", "worker:0", "chief:0"])
def test_an_update_is_kept_whose_group_is_joined_while_its_step_is_on_its_way(task: str) -> None:
    whole_s = duration_s(task, repeat=2)
    for moment in range(MOMENTS):
        scene = Scene()
        cells = [scene.others[task].placement.cells[0], scene.numbers[task].placement.cells[0]]
        handle = scene.call(task, repeat=2)
        scene.at(whole_s * (moment + 0.5) / MOMENTS, lambda cells=cells, scene=scene: scene.driver.layout.join(cells))
        values = scene.driver.result(handle)
        handle.accept()
        assert scene.value(task) == 2, moment
        assert float(scene.others[task].numpy()) == 100
        assert float(values[0]) == 1, moment  # the second step has read what the first one has made


def test_an_answer_that_comes_after_a_step_was_dropped_has_no_effect(scene: Scene) -> None:
    """The chief has given the worker's closures to others: the worker stops, and what was asked before is nobody's."""
    scene.call("ps:0", repeat=3)
    loop = scene.pool.loops["worker:0"]
    scene.engine.sleep(LATENCY_S * 1.5)
    assert scene.worker.calls
    loop.replaced(loop.sent)
    scene.engine.sleep(20.0)
    assert (scene.value("ps:0"), scene.told, scene.worker.steps) == (0, [], 0)
    assert scene.is_clean
    scene.call("ps:0").wait()
    assert scene.value("ps:0") == 1
    dropped, ended = scene.closures()
    assert dropped == ("dropped", LATENCY_S, pytest.approx(LATENCY_S * 1.5))
    assert ended[0] == "closure" and ended[1] > 20.0


@pytest.mark.parametrize("is_step", [True, False])
def test_a_closure_that_was_given_away_while_code_of_users_ran_is_shown_as_dropped(is_step: bool, scene: Scene) -> None:
    def sleeps(*_: Worker) -> None:
        scene.engine.sleep(3.0)

    def call() -> Handle:
        return scene.driver.call("worker:0", sleeps) if is_step else scene.driver.call_function("worker:0", sleeps)

    call()
    scene.at(1.0, lambda: scene.pool.loops["worker:0"].replaced(1))
    call().wait()
    assert [(category, end_s - start_s) for category, start_s, end_s in scene.closures()] == [("dropped", 3.0), ("closure", 3.0)]


@pytest.mark.parametrize(("has_waited", "chief", "worker", "cause"), [(True, 7, 3, 7), (True, 3, 7, 7), (False, 3, 7, 3)])
def test_the_cause_of_a_closure_is_the_last_that_it_waited_for(has_waited: bool, chief: int, worker: int, cause: int, scene: Scene) -> None:
    scene.engine.sleep(1.0)
    scene.world.chief.processor.last, scene.worker.processor.last = chief, worker
    if has_waited:
        scene.pool.loops["worker:0"].up_s = scene.engine.now
    assert scene.call("ps:0").cause == cause


@pytest.mark.parametrize("believed_down", [True, False])
def test_a_worker_that_was_only_silent_drops_its_closures_if_it_was_believed_to_be_down(believed_down: bool, scene: Scene) -> None:
    changes: list[str] = []
    scene.engine.subscribe(["worker:0"], lambda decision: changes.append(decision.kind))
    scene.call("ps:0", repeat=3)
    scene.engine.sleep(LATENCY_S * 1.5)
    go_on = scene.world.silence.pause(scene.worker)
    scene.engine.sleep(20.0 if believed_down else 1.0)
    go_on()
    scene.engine.sleep(20.0)
    assert changes == (["up", "down", "up"] if believed_down else ["up"])
    assert (scene.value("ps:0"), len(scene.told)) == ((0, 0) if believed_down else (3, 1))
    scene.call("ps:0").wait()  # what the chief sends after it has heard of the worker is wanted
    assert scene.worker.incarnation == 0


@pytest.mark.parametrize("lost", [("chief:0", "worker:0"), ("worker:0", "chief:0")])
def test_a_closure_or_reply_that_is_lost_ends_by_its_time_out_once(lost: tuple[str, str], scene: Scene) -> None:
    scene.world.transport.blocked.add(lost)
    handle = scene.call("ps:0")
    scene.at(20.0, scene.world.transport.blocked.clear)
    with pytest.raises(TimedOutError, match="worker:0 did not reply to closure 1"):
        handle.wait()
    assert scene.told == [CALL_TIMEOUT_S]
    scene.engine.sleep(100.0)
    assert scene.told == [CALL_TIMEOUT_S]
    assert scene.value("ps:0") == (1 if lost[0] == "worker:0" else 0)


def test_a_reply_of_a_worker_that_dies_before_it_has_come_does_not_come(scene: Scene) -> None:
    whole_s = duration_s("ps:0")
    scene.call("ps:0")
    scene.at(whole_s - LATENCY_S / 2, lambda: scene.world.crash(scene.worker))
    scene.engine.sleep(20.0)
    assert (scene.told, scene.value("ps:0")) == ([], 1)


@pytest.mark.parametrize("ending", [SystemExit(3), KeyboardInterrupt()])
def test_code_that_wants_to_end_the_process_is_an_error_of_its_closure(ending: BaseException, scene: Scene) -> None:
    def ends(worker: Worker) -> None:
        raise ending

    with pytest.raises(AbortedError, match="worker:0") as caught:
        scene.driver.call_function("worker:0", ends).wait()
    assert caught.value.__cause__ is ending
    assert scene.driver.call_function("worker:0", lambda worker: "still there").wait() == "still there"


def test_a_new_incarnation_remembers_nothing(scene: Scene) -> None:
    scene.driver.call_function("worker:0", lambda worker: worker.local.update(kept=1)).wait()
    scene.at(0.1, lambda: scene.world.crash(scene.worker, 0.1))
    scene.engine.sleep(1.0)
    assert scene.driver.call_function("worker:0", lambda worker: dict(worker.local)).wait() == {}


def test_functions_and_steps_wait_for_each_other(scene: Scene) -> None:
    def sleeps(worker: Worker) -> float:
        scene.engine.sleep(3.0)
        return scene.engine.now

    handles = [scene.call("ps:0"), scene.driver.call_function("worker:0", sleeps), scene.call("ps:0")]
    handles[-1].wait()
    spans = [(span.start_s, span.end_s) for span in scene.world.trace.spans.where(category="closure")]
    assert len(spans) == 3 and all(first[1] <= second[0] for first, second in pairwise(spans))
    assert scene.value("ps:0") == 2


def test_a_closure_that_is_ready_runs_no_code_of_users_and_one_that_fits_is_linked_once(scene: Scene) -> None:
    step = WorkerStep(scene.driver, scene.step("ps:0"), (), repeat=3)
    step.fitting = True
    scene.pool.call("worker:0", step, 1).wait()
    assert step.done == ["bind", "link"]
    call = step.function.bind((), {})
    step.known = call, step.link(scene.worker, call)
    step.done.clear()
    scene.pool.call("worker:0", step, 2).wait()
    assert (step.done, scene.value("ps:0")) == ([], 6)
