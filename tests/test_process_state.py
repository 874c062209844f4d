"""What is global to the process stays that of its task, whoever runs in between."""

from __future__ import annotations

import os
import random
import sys
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist.process_state import TaskContext, TaskLocal, active_context
from simdist.simulated_process import SimulatedProcess
from simdist.simulation.kernel import Clock


def test_scope_that_is_open_in_the_notebook_stays_open_over_a_blocking_call() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        coordinator = sd.ClusterCoordinator(strategy)
        with strategy.scope():
            assert coordinator.schedule(lambda: 1).fetch() == 1
            assert sd.get_strategy() is strategy
        assert not sd.has_strategy()


def test_jax_configuration_of_one_task_is_not_seen_by_another() -> None:
    clock, seen = Clock(), dict[str, str]()

    def precise() -> None:
        with jax.default_matmul_precision("float32"):
            clock.sleep(2.0)
            seen["inside"] = str(jax.config.jax_default_matmul_precision)  # pyright: ignore[reportAttributeAccessIssue]

    def plain() -> None:
        clock.sleep(1.0)
        seen["other"] = str(jax.config.jax_default_matmul_precision)  # pyright: ignore[reportAttributeAccessIssue]

    fibers = [clock.spawn("a", precise), clock.spawn("b", plain)]
    for fiber in fibers:
        clock.join(fiber)
    assert seen == {"other": "None", "inside": "float32"}


def test_setting_that_changes_no_compiled_code_is_not_seen_by_another_task() -> None:
    clock, seen = Clock(), list[str]()
    divided = jax.jit(lambda x: x / x)

    def divide(name: str, *seconds: float) -> None:
        for pause in seconds:
            clock.sleep(pause)
            try:
                divided(jax.numpy.zeros(3))
            except FloatingPointError:
                seen.append(f"{name} was told")
            else:
                seen.append(f"{name} was not told")

    def careful() -> None:
        with jax.debug_nans(True):
            divide("one", 2.0, 2.0)

    def careful_for_a_while() -> None:
        with jax.debug_nans(True):
            divide("other", 1.0)
        divide("other", 2.0)

    for fiber in [clock.spawn("a", careful), clock.spawn("b", careful_for_a_while)]:
        clock.join(fiber)
    assert seen == ["other was told", "one was told", "other was not told", "one was told"]


def test_environment_of_a_task_is_an_overlay_that_keeps_its_changes() -> None:
    clock, seen = Clock(), list[str | None]()

    def task() -> None:
        os.environ["SIMDIST_TEST_OWN"] = "changed"
        clock.sleep(2.0)
        seen.append(os.environ.get("SIMDIST_TEST_OWN"))

    fiber = clock.spawn("a", task, TaskContext(SimulatedProcess({"SIMDIST_TEST_OWN": "given"}, 0)))
    clock.sleep(1.0)
    assert "SIMDIST_TEST_OWN" not in os.environ
    clock.join(fiber)
    assert seen == ["changed"]
    assert "SIMDIST_TEST_OWN" not in os.environ


def test_variable_that_a_task_changes_or_deletes_stays_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIMDIST_TEST_FIRST", "one")
    monkeypatch.setenv("SIMDIST_TEST_SECOND", "two")
    clock, seen = Clock(), list[str | None]()

    def task() -> None:
        os.environ["SIMDIST_TEST_FIRST"] = "mine"
        del os.environ["SIMDIST_TEST_SECOND"]
        clock.sleep(1.0)
        seen.append(os.environ["SIMDIST_TEST_FIRST"])

    clock.join(clock.spawn("a", task, TaskContext(SimulatedProcess({"TF_CONFIG": "{}"}, 0))))
    assert seen == ["mine"]
    assert (os.environ["SIMDIST_TEST_FIRST"], os.environ["SIMDIST_TEST_SECOND"]) == ("one", "two")


def test_lines_of_a_task_carry_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with sd.Cluster({"worker": 2}) as cluster:

        def main() -> None:
            print("one,", end=" ")
            cluster.world.clock.sleep(1.0)
            print("two")

        cluster.launch(main).join()
    assert capsys.readouterr().out.count("[worker:1] ") >= 1


def test_tasks_that_became_programs_have_a_main_module_and_arguments_of_their_own() -> None:
    clock, seen, before = Clock(), list[tuple[str, list[str]]](), (sys.modules["__main__"], sys.argv)

    def program(name: str, seconds: float) -> None:
        process = active_context().process
        assert process is not None
        process.become_program(ModuleType("__main__", name), [name])
        for _ in range(2):
            clock.sleep(seconds)
            sys.argv.append("more")
            seen.append((str(sys.modules["__main__"].__doc__), list(sys.argv)))

    for name, seconds in (("a", 1.0), ("b", 1.5)):
        clock.spawn(name, lambda name=name, seconds=seconds: program(name, seconds), TaskContext(SimulatedProcess({}, 0)))
    clock.sleep(2.5)
    assert (sys.modules["__main__"], sys.argv) == before
    clock.sleep(2.5)
    assert seen == [("a", ["a", "more"]), ("b", ["b", "more"]), ("a", ["a", "more", "more"]), ("b", ["b", "more", "more"])]
    assert (sys.modules["__main__"], sys.argv) == before


def test_value_of_a_task_is_its_own_while_tasks_take_turns() -> None:
    clock, names = Clock(), TaskLocal(list[str])

    def task(name: str, pause_s: float) -> list[str]:
        for number in range(3):
            names.get().append(f"{name}{number}")
            clock.sleep(pause_s)
        return names.get()

    fibers = [clock.spawn("a", lambda: task("a", 1.0)), clock.spawn("b", lambda: task("b", 0.4))]
    assert [clock.join(fiber) for fiber in fibers] == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    assert names.get() == []


def test_value_of_a_task_can_be_set_before_the_task_runs() -> None:
    clock, depth, context = Clock(), TaskLocal(lambda: 0), TaskContext()
    depth.set(3, context)
    assert clock.join(clock.spawn("a", depth.get, context)) == 3
    assert (depth.get(), depth.get(context), depth.get(TaskContext())) == (0, 3, 0)


def test_values_of_two_task_locals_are_apart() -> None:
    one, other = TaskLocal(lambda: 1), TaskLocal(lambda: 2)
    one.set(5)
    assert (one.get(), other.get()) == (5, 2)


def test_generators_of_a_task_are_its_own() -> None:
    legacy: Any = np.random
    tasks = [TaskContext(SimulatedProcess({}, seed)) for seed in (1, 1, 2)]
    random.seed(7)
    legacy.seed(7)
    found: list[list[Any]] = [[] for _ in tasks]
    before = active_context()
    for turn in range(3):
        for task, drawn in zip(tasks, found, strict=True):
            task.replace(active_context())
            if turn == 1:
                random.seed(3)
                legacy.seed(3)
            drawn += [random.randint(0, 10**9), float(legacy.normal()), int(legacy.permutation(100)[0])]
            before.replace(task)
    assert found[0] == found[1]
    assert found[0][:3] != found[2][:3] and found[0][3:] == found[2][3:]
    after = random.random(), float(legacy.rand())
    random.seed(7)
    legacy.seed(7)
    assert after == (random.random(), float(legacy.rand())), "the process has drawn nothing meanwhile"
