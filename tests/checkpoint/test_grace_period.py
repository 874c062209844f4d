"""The grace period of a preemption handler: all mains save for the last time after the same step, in time, whatever a step is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware import DiskModel

STEPS = 30
variable: Any = sd.Variable
Style = Callable[[Any, Callable[[], object]], None]


def in_run(handler: Any, step: Callable[[], object]) -> None:
    handler.run(lambda: (step(), sd.sleep(1.0)))


def beside_run(handler: Any, step: Callable[[], object]) -> None:
    handler.run(step)
    sd.sleep(1.0)


def in_a_loop(handler: Any, step: Callable[[], object]) -> None:
    with handler.watch_preemption_scope():
        step()
        sd.sleep(1.0)
        handler.save_checkpoint_if_preempted()


def begun(style: Style, disk: DiskModel, plan: Callable[[Any], object], grace_s: float) -> tuple[list[tuple[int, int]], list[float]]:
    """With which step each main began, over all restarts; and when machines were taken away."""
    begins: list[tuple[int, int]] = []

    def main(directory: str) -> int:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = variable(np.zeros(50, np.float32))
        resolver = strategy.cluster_resolver
        assert resolver is not None
        config = sd.TerminationConfig(grace_period=grace_s)
        handler = sd.PreemptionCheckpointHandler(resolver, sd.Checkpoint(v=v), directory, config)

        def steps() -> int:
            return int(v.numpy()[0]) // 2

        def in_replica() -> None:
            context: Any = sd.get_replica_context()
            v.assign_add(context.all_reduce("SUM", np.ones(50, np.float32)))

        begins.append((resolver.task_id or 0, steps()))
        while steps() < STEPS:
            style(handler, lambda: strategy.run(in_replica))
        return steps()

    with sd.Cluster({"worker": 2}, disks=disk) as cluster:
        plan(cluster.faults)
        run = cluster.launch(main, restart="always", args=(cluster.directory("saved"),))
        run.join()
        assert run.results == {"worker:0": STEPS, "worker:1": STEPS}
        return begins, [one.time_s for one in cluster.trace.instants if one.category == "crash"]


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("style", [in_run, beside_run, in_a_loop])
@pytest.mark.parametrize("disk", [DiskModel(), DiskModel(write_bandwidth=100.0)], ids=["fast", "slow"])
def test_all_mains_save_once_more_after_the_same_step_and_in_time(style: Style, disk: DiskModel) -> None:
    begins, taken_s = begun(style, disk, lambda faults: faults.preempt("worker:1", at=4.5, notice=12.5, restart_after=1.0), 10.0)
    assert begins[:2] == [(0, 0), (1, 0)]
    (again,) = {step for _, step in begins[2:]}
    assert again >= 6 and len(begins) == 4, "the training has gone on after the first save, and nothing was repeated"
    assert taken_s and taken_s[0] < 5.0 + 10.0


@pytest.mark.parametrize("style", [in_run, beside_run, in_a_loop])
@pytest.mark.sample(2)
def test_a_second_notice_with_less_time_ends_the_training_in_time(style: Style) -> None:
    def plan(faults: Any) -> None:
        faults.preempt("worker:1", at=1.5, notice=60.0, restart_after=1.0)
        faults.preempt("worker:0", at=6.5, notice=6.0, restart_after=1.0)

    begins, taken_s = begun(style, DiskModel(), plan, 20.0)
    (again,) = {step for _, step in begins[2:]}
    assert 8 <= again <= 12 and len(begins) == 4
    assert max(taken_s) < 12.5
