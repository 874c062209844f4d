"""Work for workers: steps and functions, what they give, and when it counts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError, OutOfRangeError
from simdist.program.function import StepFunction
from simdist.program.scope import open_scopes
from simdist.runtime.base import Engine
from simdist.runtime.linking import link
from simdist.runtime.work import Worker
from tests.runtime.conformance.driver import POOLS, Driver, WorkerStep, exchanged, random_key


def test_a_step_returns_its_structure_and_changes_variables_wherever_they_lie(engine: Engine, driver: Driver) -> None:
    devices = ("ps:0", "ps:1", "worker:0", "worker:1")
    placed = [driver.variable(np.float32(number), device, name=f"v{number}") for number, device in enumerate(devices)]

    def step(x: Any) -> Any:
        total = sum(variable.value for variable in placed)
        for variable in placed:
            variable.assign_add(x)
        return {"total": total, "word": "done", "twice": (x * 2,)}

    found = driver.result(driver.call("worker:0", step, np.float32(10)))
    assert (float(found["total"]), found["word"], float(found["twice"][0])) == (6, "done", 20)
    assert [float(variable.numpy()) for variable in placed] == [10, 11, 12, 13]


def test_a_step_reads_what_it_has_assigned_before(engine: Engine, driver: Driver) -> None:
    variable = driver.variable(np.float32(1), "ps:0")

    def step() -> Any:
        variable.assign_add(np.float32(1))
        first = variable.value
        variable.assign(first * 10)
        return first, variable.value

    assert [float(value) for value in driver.result(driver.call("worker:1", step))] == [2, 20]


def test_updates_of_the_chiefs_variables_count_only_when_the_reply_is_accepted(engine: Engine, driver: Driver) -> None:
    own, theirs = driver.variable(np.float32(0), "chief:0", name="own"), driver.variable(np.float32(0), "ps:0", name="theirs")

    def step() -> None:
        own.assign_add(np.float32(1))
        theirs.assign_add(np.float32(1))

    dropped = driver.call("worker:0", step, repeat=2)
    dropped.wait()
    assert (float(own.numpy()), float(theirs.numpy())) == (0, 2)
    kept = driver.call("worker:1", step, repeat=3)
    kept.wait()
    assert float(own.numpy()) == 0
    kept.accept()
    assert (float(own.numpy()), float(theirs.numpy())) == (3, 5)


def test_a_closure_repeats_its_step_and_gives_the_result_of_the_last(engine: Engine, driver: Driver) -> None:
    variable = driver.variable(np.float32(0), "ps:0")

    def step() -> Any:
        variable.assign_add(np.float32(1))
        return variable.value

    before = engine.steps_of("worker:0")
    assert float(driver.result(driver.call("worker:0", step, repeat=4))) == 4
    assert engine.steps_of("worker:0") == before + 4
    assert engine.steps_of("worker:1") == 0


@pytest.mark.parametrize("keeps_each", [True, False])
def test_a_closure_keeps_the_results_of_the_steps_before_the_last_where_it_is_asked_to(
    keeps_each: bool, engine: Engine, driver: Driver
) -> None:
    variable = driver.variable(np.float32(0), "ps:0")

    def step() -> Any:
        variable.assign_add(np.float32(1))
        return variable.value

    last = driver.call("worker:0", step, repeat=3, keeps_each=keeps_each).wait()
    assert [float(before.value(engine)) for before in last.before] == ([1, 2] if keeps_each else [])
    assert float(last.value(engine)) == 3


@pytest.mark.parametrize("fitting", [True, False])
def test_a_program_is_linked_again_for_each_step_that_it_does_not_fit(fitting: bool, engine: Engine, driver: Driver) -> None:
    variable = driver.variable(np.float32(0), "ps:0")
    step = WorkerStep(driver, lambda: variable.assign_add(np.float32(1)), (), repeat=3)
    step.fitting = fitting
    POOLS[engine].call("worker:0", step, 1).wait()
    links = len(step.done) - 1
    assert step.done == ["bind", *["link"] * links] and (1 <= links <= 3 if fitting else links == 3)
    assert float(variable.numpy()) == 3


def test_what_is_ready_gives_what_binding_and_linking_would(engine: Engine, driver: Driver) -> None:
    step = WorkerStep(driver, lambda x: x + 1, (np.float32(41),))
    call = step.function.bind(step.args, {})
    step.known = call, link(step.function.program(call), driver.layout)
    assert float(driver.result(POOLS[engine].call("worker:0", step, 1))) == 42


def test_a_reply_is_told_once_to_each_who_asked(engine: Engine, driver: Driver) -> None:
    told = list[str]()
    handle = driver.call_function("worker:0", lambda worker: 7)
    handle.then(lambda: told.append("first"))
    handle.then(lambda: told.append("second"))
    assert handle.wait() == 7
    assert told == ["first", "second"]
    handle.then(lambda: told.append("late"))
    assert told == ["first", "second", "late"]
    assert (handle.wait(), handle.value, handle.error) == (7, 7, None)
    assert len(told) == 3


def test_an_error_of_a_function_is_the_error_of_its_handle(engine: Engine, driver: Driver) -> None:
    error = ValueError("on purpose")

    def fails(worker: Worker) -> None:
        raise error

    told = list[bool]()
    handle = driver.call_function("worker:0", fails)
    handle.then(lambda: told.append(True))
    with pytest.raises(ValueError, match="on purpose"):
        handle.wait()
    assert handle.error is error and handle.value is None and told == [True]
    assert driver.call_function("worker:0", lambda worker: "goes on").wait() == "goes on"


def test_a_step_that_fails_stops_there_and_the_worker_goes_on(engine: Engine, driver: Driver) -> None:
    before, after = driver.variable(np.float32(0), "ps:0", name="before"), driver.variable(np.float32(0), "ps:0", name="after")
    mine = driver.variable(np.float32(0), "chief:0", name="mine")

    def step(x: Any) -> None:
        before.assign_add(np.float32(1))
        mine.assign_add(np.float32(1))
        sd.check_numerics(x, "the argument")
        after.assign_add(np.float32(1))

    handle = driver.call("worker:0", step, np.float32("nan"), repeat=3)
    with pytest.raises(InvalidArgumentError, match="the argument"):
        handle.wait()
    assert isinstance(handle.error, InvalidArgumentError)
    assert (float(before.numpy()), float(after.numpy()), float(mine.numpy())) == (1, 0, 0)
    assert engine.steps_of("worker:0") == 0
    driver.call("worker:0", step, np.float32(1)).wait()
    assert (float(before.numpy()), float(after.numpy())) == (2, 1)


def test_each_check_of_a_value_is_an_observation_on_the_lane_of_its_task(engine: Engine, driver: Driver) -> None:
    def step(x: Any) -> None:
        sd.check_numerics(x, "the argument")

    driver.call("worker:0", step, np.float32(1), repeat=2).wait()
    failed = driver.call("worker:1", step, np.float32("nan"))
    with pytest.raises(InvalidArgumentError, match="the argument"):
        failed.wait()
    observed = [(one.lane, one.name) for one in engine.trace.instants if one.category == "observe"]
    assert observed == [("worker:0", "the argument")] * 2 + [("worker:1", "the argument")]


@pytest.mark.parametrize("where", ["bind", "link"])
def test_an_error_of_code_of_users_is_the_error_of_its_handle(where: str, engine: Engine, driver: Driver, monkeypatch: Any) -> None:
    def fails(*args: Any) -> Any:
        raise KeyError("on purpose")

    step = WorkerStep(driver, lambda: None, ())
    monkeypatch.setattr(step, where, fails)
    with pytest.raises(KeyError, match="on purpose"):
        POOLS[engine].call("worker:0", step, 1).wait()


def test_closures_of_one_worker_run_in_order(engine: Engine, driver: Driver) -> None:
    done = list[int]()
    handles = [driver.call_function("worker:0", lambda worker, number=number: done.append(number)) for number in range(5)]
    handles[-1].wait()
    assert done == [0, 1, 2, 3, 4]


def test_a_function_knows_its_worker_and_keeps_things_in_its_memory(engine: Engine, driver: Driver) -> None:
    def count(worker: Worker) -> tuple[str, int, int]:
        worker.local["count"] = worker.local.get("count", 0) + 1
        return worker.name, worker.steps, worker.local["count"]

    driver.call("worker:1", lambda: np.float32(1)).wait()
    found = [driver.call_function(task, count).wait() for task in ("worker:0", "worker:1", "worker:0")]
    assert found == [("worker:0", 0, 1), ("worker:1", 1, 1), ("worker:0", 0, 2)]


def test_code_of_users_runs_in_the_scope_of_the_strategy_and_leaves_none_behind(make_engine: Callable[..., Engine]) -> None:
    strategy = object()
    engine = make_engine(strategy=strategy)
    before = list(open_scopes.get())
    found = list[Any]()
    Driver(engine).call("worker:0", lambda: found.append(open_scopes.get()[-1])).wait()
    assert found == [strategy]
    assert open_scopes.get() == before


def test_a_step_takes_the_next_batches_until_there_are_none(engine: Engine, driver: Driver) -> None:
    iterator = iter(sd.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32)).batch(2))
    sums = [float(driver.result(driver.call("worker:0", lambda batches: next(batches).sum(), iterator))) for _ in range(3)]
    assert sums == [1, 5, 9]

    class Ended(WorkerStep):
        """Takes a program that was made for another batch."""

        def link(self, worker: Worker, call: Any) -> Any:
            return linked

    function = StepFunction(lambda batches: next(batches).sum())
    whole = iter(sd.Dataset.from_tensor_slices(np.arange(2, dtype=np.float32)).batch(2))
    linked = link(function.program(function.bind((whole,), {})), driver.layout)
    with pytest.raises(OutOfRangeError):
        POOLS[engine].call("worker:0", Ended(driver, function.fn, (iterator,)), 1).wait()


def keys_of(engine: Engine) -> dict[tuple[str, int, int], tuple[int, ...]]:
    driver = Driver(engine)
    found: dict[tuple[str, int, int], tuple[int, ...]] = {}
    for task in ("worker:0", "worker:1"):
        for number in range(2):
            keys = driver.result(driver.call(task, lambda: [random_key(0), random_key(1)]))
            for salt, key in enumerate(keys):
                assert (np.asarray(key).shape, np.asarray(key).dtype) == ((2,), np.uint32)
                found[task, number, salt] = tuple(np.asarray(key).tolist())
    return found


def test_random_keys_go_on_where_the_draws_of_a_task_are_set(make_engine: Callable[..., Engine]) -> None:
    def keys(driver: Driver, steps: int) -> list[Any]:
        return [np.asarray(driver.result(driver.call("worker:0", lambda: random_key(0)))).tolist() for _ in range(steps)]

    first, second = Driver(make_engine()), Driver(make_engine())
    first.result(first.call("worker:0", lambda: np.float32(1)))  # a step that draws nothing
    expected = keys(first, 4)
    assert first.engine.draws_of("worker:0") == 4 and first.engine.draws_of("worker:1") == 0
    second.engine.set_draws("worker:0", 2)
    assert keys(second, 2) == expected[2:] and second.engine.draws_of("worker:0") == 4


def test_random_keys_follow_from_the_seed_and_differ_by_task_step_and_salt(make_engine: Callable[..., Engine]) -> None:
    first, again, other = keys_of(make_engine(seed=3)), keys_of(make_engine(seed=3)), keys_of(make_engine(seed=4))
    assert first == again
    assert len({*first.values(), *other.values()}) == len(first) + len(other)


def test_a_workers_step_meets_nobody(engine: Engine, driver: Driver) -> None:
    class Together(WorkerStep):
        """Is traced as one of two replicas."""

        def link(self, worker: Worker, call: Any) -> Any:
            return link(self.function.trace(call, 0, 2), self.driver.layout)

    with pytest.raises(FailedPreconditionError):
        POOLS[engine].call("worker:0", Together(driver, lambda x: exchanged("all_reduce", x)[0], (np.float32(1),)), 1).wait()


def test_a_forecast_of_a_closure_says_how_long_its_step_and_its_messages_take(driver: Driver) -> None:
    variable = driver.variable(np.ones(1000, np.float32), "ps:0")
    worker: Any = SimpleNamespace(name="worker:0")
    step = WorkerStep(driver, lambda: variable.assign_add(variable.value * 2.0), ())
    linked = step.link(worker, step.bind(worker))
    step_s, messages_s = driver.engine.closure_figures(linked, "worker:0")
    began_s = driver.engine.now
    driver.result(driver.call("worker:0", lambda: variable.assign_add(variable.value * 2.0)))
    assert driver.engine.now - began_s == pytest.approx(step_s + messages_s, rel=0.01)
