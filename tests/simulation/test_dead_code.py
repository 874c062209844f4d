"""Code that goes on after the death of its task ends, and has no effect meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd
from simdist.jax_settings import is_jax_tracing
from simdist.simulation import dead_code
from simdist.simulation.kernel import Clock, Fiber, TaskKilled


def killed(body: Callable[[Clock], object]) -> tuple[Clock, Fiber]:
    """A fiber that is killed at 1 s."""
    clock = Clock()
    fiber = clock.spawn("worker:0", lambda: body(clock))
    clock.after(1.0, lambda _: clock.kill(fiber))
    return clock, fiber


def test_code_that_swallows_its_death_is_left_where_it_stands() -> None:
    def body(clock: Clock) -> None:
        while True:
            try:
                clock.sleep(2.0)
            except BaseException:
                continue

    clock, fiber = killed(body)
    with pytest.warns(RuntimeWarning, match=r"worker:0 went on after its task had died.*test_dead_code.py:\d+, in body"):
        clock.wait(fiber.finished)
    assert fiber.killed and not clock.fibers and clock.now == 1.0
    clock.sleep(3.0)
    assert clock.now == 4.0


def test_code_that_ends_by_itself_is_left_alone() -> None:
    ended: list[float] = []

    def body(clock: Clock) -> None:
        try:
            clock.sleep(2.0)
        finally:
            ended.append(clock.now)

    clock, fiber = killed(body)
    clock.wait(fiber.finished)
    assert ended == [1.0] and isinstance(fiber.error, TaskKilled)


def test_no_fiber_is_left_inside_of_a_trace_of_jax() -> None:
    calls: list[int] = []

    def body(clock: Clock) -> None:
        def traced(value: Any) -> Any:
            while len(calls) < 2 * dead_code.KILLS_BEFORE_LEFT:
                calls.append(1)
                try:
                    clock.sleep(2.0)
                except BaseException:
                    continue
            return value

        try:
            clock.sleep(2.0)
        finally:
            jax.make_jaxpr(traced)(1.0)

    clock, fiber = killed(body)
    clock.wait(fiber.finished)
    assert len(calls) == 2 * dead_code.KILLS_BEFORE_LEFT
    assert not is_jax_tracing()


def test_a_launched_main_that_swallows_its_death_starts_again_and_trains() -> None:
    starts: list[int] = []

    def main() -> float:
        index = sd.TFConfigClusterResolver().task_id
        assert index is not None
        starts.append(index)
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            weight = sd.Variable(np.zeros((), np.float32), aggregation=sd.VariableAggregation.SUM)

        @sd.function
        def step() -> None:
            strategy.run(lambda: weight.assign_add(np.ones((), np.float32)))

        while index == 1 and starts.count(1) == 1:
            try:
                step()
            except BaseException:
                continue
        for _ in range(10):
            step()
        return float(weight.numpy())

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.crash("worker:1", after_steps=4, restart_after=1.0)
        run = cluster.launch(main, restart="always")
        with pytest.warns(RuntimeWarning, match="worker:1 went on after its task had died"):
            run.join()
    assert run.results == {"worker:0": 20.0, "worker:1": 20.0}


def test_dead_code_changes_nothing() -> None:
    found: list[Any] = []
    refused: list[str] = []

    def main() -> None:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type != "chief":
            sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        strategy = sd.ParameterServerStrategy(resolver)
        with strategy.scope():
            variable = sd.Variable(np.ones(3, np.float32))
        found.append(variable)
        attempts: dict[str, Callable[[], object]] = {
            "assign": lambda: variable.assign(np.full(3, 7, np.float32)),
            "strategy": sd.MultiWorkerMirroredStrategy,
            "fault": lambda: cluster.faults.crash("ps:0", at=1.5),
            "coordinator": lambda: sd.ClusterCoordinator(strategy),
            "launch": lambda: cluster.launch(lambda: None),
            "disk": lambda: sd.Checkpoint(v=variable).save(cluster.directory("saved")),
        }
        try:
            sd.sleep(1.0)
        finally:
            for name, attempt in attempts.items():
                try:
                    attempt()
                except BaseException as error:
                    refused.append(f"{name} {type(error).__name__}")

    with sd.Cluster({"chief": 1, "worker": 1, "ps": 1}) as cluster:
        cluster.faults.crash("chief", at=0.5)
        with pytest.raises(sd.errors.UnavailableError, match="chief:0 crashed"):
            cluster.launch(main, job=["chief", "worker", "ps"]).join()
        assert np.asarray(found[0].value).tolist() == [1.0, 1.0, 1.0]
    assert refused == [f"{name} TaskKilled" for name in ("assign", "strategy", "fault", "coordinator", "launch", "disk")]
