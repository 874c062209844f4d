"""Promises, time, who is up, and what an engine refuses."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simdist.errors import FailedPreconditionError, InvalidArgumentError, SimdistError
from simdist.program.scope import open_scopes
from simdist.runtime.base import Engine
from simdist.runtime.delivery import Delivery
from simdist.runtime.membership import MemberDecision
from tests.runtime.conformance.conftest import TASKS, WORKERS
from tests.runtime.conformance.driver import POOLS, Driver, WorkerStep


def test_an_engine_knows_its_tasks_the_chief_first(engine: Engine) -> None:
    assert list(engine.task_names) == list(TASKS)
    assert engine.chief == "chief:0"
    assert [engine.process(task).alive for task in TASKS] == [True] * len(TASKS)
    assert [engine.process(task).incarnation for task in TASKS] == [0] * len(TASKS)
    assert [engine.steps_of(task) for task in TASKS] == [0] * len(TASKS)


def test_an_engine_keeps_its_seed(make_engine: Callable[..., Engine]) -> None:
    assert [make_engine(seed=seed).seed for seed in (0, 7)] == [0, 7]


def test_a_promise_is_kept_once(engine: Engine) -> None:
    promise = engine.promise()
    assert not promise.is_open
    promise.open("first")
    promise.open("second")
    assert promise.is_open
    assert (promise.wait("it"), promise.wait("it")) == ("first", "first")


def test_a_promise_is_kept_by_what_happens_while_somebody_waits(engine: Engine) -> None:
    driver, promise = Driver(engine), engine.promise()
    handle = driver.call("worker:0", lambda: np.float32(5))
    handle.then(lambda: promise.open(handle.value))
    assert promise.wait("the reply") is handle.wait()
    assert float(driver.result(handle)) == 5


def test_a_wait_that_cannot_end_says_for_what(engine: Engine) -> None:
    with pytest.raises(SimdistError, match="the second coming"):
        engine.promise().wait("the second coming")


def test_promises_without_a_value_open_with_none(engine: Engine) -> None:
    promise = engine.promise()
    promise.open()
    assert promise.wait("it") is None


def test_sleep_takes_as_long_as_it_says_or_is_refused(engine: Engine) -> None:
    began = engine.now
    try:
        engine.sleep(0.002)
    except FailedPreconditionError:
        assert engine.now == began == 0  # no time passes here
    else:
        assert engine.now >= began + 0.002


def test_subscribers_are_told_that_tasks_are_up(engine: Engine) -> None:
    told: list[MemberDecision] = []
    engine.subscribe(["worker:0", "ps:1"], told.append)
    Driver(engine).pass_time(0.01)
    assert {(decision.kind, decision.task, decision.incarnation) for decision in told} == {("up", "worker:0", 0), ("up", "ps:1", 0)}
    assert len(told) == 2


def test_subscribers_are_told_of_their_own_tasks(engine: Engine) -> None:
    mine: list[str] = []
    theirs: list[str] = []
    engine.subscribe(["worker:0"], lambda decision: mine.append(decision.task))
    engine.subscribe(["ps:0", "ps:1"], lambda decision: theirs.append(decision.task))
    Driver(engine).pass_time(0.01)
    assert (mine, sorted(theirs)) == (["worker:0"], ["ps:0", "ps:1"])


def test_who_subscribes_later_finds_what_is_believed(engine: Engine) -> None:
    engine.subscribe(["worker:0"], lambda decision: None)
    engine.subscribe(["worker:0"], lambda decision: None)
    assert engine.is_believed_up("worker:0")


def test_a_device_is_added_once_with_a_memory_of_its_own(engine: Engine) -> None:
    engine.add_device("worker:0/gpu:0")
    engine.memory("worker:0/gpu:0").allocate("something", 10)
    engine.add_device("worker:0/gpu:0")
    assert engine.memory("worker:0/gpu:0").in_use_bytes == 10
    assert engine.memory("worker:0/gpu:0").owner == "worker:0/gpu:0"
    assert engine.memory("worker:0").in_use_bytes == 0


def test_paths_have_a_latency_and_a_bandwidth(engine: Engine) -> None:
    engine.add_device("worker:0/gpu:0")
    for target in ("worker:1", "worker:0/gpu:0"):
        latency_s, bandwidth = engine.path_figures("worker:0", target)
        assert latency_s >= 0 and bandwidth > 0


def test_deliveries_are_over_when_all_have_come(engine: Engine) -> None:
    engine.deliver([Delivery("worker:0", "ps:0", 1000, "some"), Delivery("worker:0", "worker:0", 0, "none")], "some bytes", "read")
    spans = engine.trace.spans.where(category="read")
    assert sorted((span.lane, span.name, span.facts["bytes"]) for span in spans) == [("ps:0", "some", 1000), ("worker:0", "none", 0)]


def test_a_task_that_is_not_there_is_refused_with_those_that_are(engine: Engine) -> None:
    for ask in (engine.process, engine.steps_of, lambda task: engine.add_device(f"{task}/gpu:0")):
        with pytest.raises(InvalidArgumentError, match="worker:0"):
            ask("wroker:0")


def test_another_thread_is_refused(engine: Engine) -> None:
    found: list[BaseException] = []

    def other() -> None:
        try:
            engine.require_usable("something was tried")
        except FailedPreconditionError as error:
            found.append(error)

    engine.require_usable("something was tried")
    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_a_closed_engine_refuses_work_but_shows_its_variables(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    variable = Driver(engine).variable(np.float32(3), "ps:0")
    engine.close()
    with pytest.raises(FailedPreconditionError, match="something was tried"):
        engine.require_usable("something was tried")
    assert float(variable.numpy()) == 3
    engine.close()


def test_two_engines_know_nothing_of_each_other(make_engine: Callable[..., Engine]) -> None:
    one, other = make_engine(), make_engine()
    variable = Driver(one).variable(np.float32(1), "ps:0")
    Driver(other).variable(np.float32(2), "ps:0").assign(np.float32(9))
    Driver(other).pass_time(0.5)
    other.close()
    assert float(variable.numpy()) == 1
    driver = Driver(one)
    assert float(driver.result(driver.call(WORKERS[0], lambda: np.float32(5)))) == 5


def test_workers_may_be_started_for_a_second_strategy(make_engine: Callable[..., Engine]) -> None:
    engine, second, seen = make_engine(), SimpleNamespace(), list[Any]()

    def step() -> None:  # its Python runs once, where it is traced
        seen.append(list(open_scopes.get()))

    driver = Driver(engine)
    engine.start_workers(["worker:1"], second).call("worker:1", WorkerStep(driver, step, ()), 1).wait()
    driver.call("worker:1", step).wait()
    assert seen[0] == [second] and all(strategy is not second for strategy in seen[1])


def test_what_is_to_happen_later_happens_then_or_is_refused(engine: Engine) -> None:
    called_s: list[float] = []
    try:
        engine.after(0.002, lambda: called_s.append(engine.now))
    except FailedPreconditionError as error:
        assert "No time passes" in str(error)
        return
    Driver(engine).pass_time(0.01)
    assert called_s == [0.002]


def test_what_is_not_awaited_keeps_no_wait_alive(engine: Engine) -> None:
    promise = engine.promise()
    for seconds, is_awaited in ((1.0, False), (0.5, True)):
        try:
            engine.after(seconds, promise.open if not is_awaited else lambda: None, is_awaited)
        except FailedPreconditionError:
            return
    with pytest.raises(SimdistError, match="the second coming"):
        promise.wait("the second coming")
    assert engine.now < 1.0 and not promise.is_open


def test_an_engine_says_who_waits_for_what(engine: Engine) -> None:
    Driver(engine).pass_time(0.01)
    assert all(isinstance(words, str) and " for " in words for words in engine.waiting())


def test_a_task_joins_and_a_worker_leaves_or_both_are_refused(engine: Engine) -> None:
    pool, driver = POOLS[engine], Driver(engine)
    try:
        name = engine.add_task("worker")
    except FailedPreconditionError:
        with pytest.raises(FailedPreconditionError, match="worker:1"):
            pool.remove("worker:1")
        assert list(engine.task_names) == list(TASKS)
        return
    assert (name, list(engine.task_names)) == ("worker:2", [*TASKS, "worker:2"])
    heard: list[MemberDecision] = []
    engine.subscribe([name], heard.append)
    assert heard == [] and not engine.is_believed_up(name)  # its registration is on its way
    pool.add(name)
    driver.pass_time(0.01)
    assert [decision.kind for decision in heard] == ["up"]
    assert float(driver.result(driver.call(name, lambda: np.float32(5)))) == 5
    pool.remove(name)
    driver.pass_time(0.01)
    assert list(engine.task_names) == list(TASKS) and len(heard) == 1
    assert engine.add_task("worker") == "worker:3"


def test_a_job_without_tasks_gets_none(engine: Engine) -> None:
    with pytest.raises(SimdistError):
        engine.add_task("evaluator")
