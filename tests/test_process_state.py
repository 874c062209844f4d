"""What is global to the process stays that of its task, whoever runs in between."""

from __future__ import annotations

import os

import jax
import pytest

import simdist as sd
from simdist.process_state import TaskContext
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


def test_environment_of_a_task_is_an_overlay_that_keeps_its_changes() -> None:
    clock, seen = Clock(), list[str | None]()

    def task() -> None:
        os.environ["SIMDIST_TEST_OWN"] = "changed"
        clock.sleep(2.0)
        seen.append(os.environ.get("SIMDIST_TEST_OWN"))

    fiber = clock.spawn("a", task, TaskContext(environ={"SIMDIST_TEST_OWN": "given"}))
    clock.sleep(1.0)
    assert "SIMDIST_TEST_OWN" not in os.environ
    clock.join(fiber)
    assert seen == ["changed"]
    assert "SIMDIST_TEST_OWN" not in os.environ


def test_lines_of_a_task_carry_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    with sd.Cluster({"worker": 2}) as cluster:

        def main() -> None:
            print("one,", end=" ")
            cluster.runtime.clock.sleep(1.0)
            print("two")

        cluster.launch(main).join()
    assert capsys.readouterr().out.count("[worker:1] ") >= 1
