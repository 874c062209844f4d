"""One step of replicas: it dies with the task that takes it, and leaves nothing behind."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import UnavailableError
from simdist.runtime.step_versions import StepVersions


def one_second_steps(workers: int = 1, **options: Any) -> tuple[sd.Cluster, Any, sd.Variable]:
    cluster = sd.Cluster({"worker": workers}, hardware=sd.hardware.Device(launch_overhead=1.0))
    strategy = sd.MultiWorkerMirroredStrategy(cluster, **options)
    with strategy.scope():
        variable = sd.Variable(np.zeros(4, np.float32), aggregation=sd.VariableAggregation.MEAN)
    return cluster, sd.function(lambda: strategy.run(lambda: variable.assign_add(variable.value * 0 + 1.0))), variable


def test_a_single_replica_dies_with_its_task() -> None:
    cluster, step, variable = one_second_steps()
    step()
    crash_s = cluster.now + 0.5
    cluster.faults.crash("worker:0", at=crash_s)
    with pytest.raises(UnavailableError, match="worker:0"):
        step()
    assert cluster.now < crash_s + 0.01
    assert max(span.end_s for span in cluster.trace.spans) <= crash_s
    with pytest.raises(UnavailableError):
        variable.numpy()


def test_the_last_survivor_dies_with_its_task() -> None:
    cluster, step, _ = one_second_steps(workers=2, on_failure="continue")
    step()
    cluster.faults.crash("worker:1", at=cluster.now + 0.5)
    step()
    crash_s = cluster.now + 0.5
    cluster.faults.crash("worker:0", at=crash_s)
    with pytest.raises(UnavailableError):
        step()
    assert max(span.end_s for span in cluster.trace.spans) <= crash_s


@pytest.mark.parametrize(("dies_s", "last"), [([], "worker:0"), ([0.5], "worker:1"), ([0.3, 0.5], "worker:2"), ([0.3, 0.3], "worker:2")])
@pytest.mark.parametrize("on_failure", ["raise", "continue"])
def test_the_death_of_the_last_replica_is_not_to_be_survived(dies_s: list[float], last: str, on_failure: str) -> None:
    """Those before die in the same step."""
    cluster, step, _ = one_second_steps(workers=1 + len(dies_s), on_failure=on_failure)
    step()
    for worker, second in enumerate([*dies_s, 0.5]):
        cluster.faults.crash(f"worker:{worker}", at=cluster.now + second)
    with pytest.raises(UnavailableError) as caught:
        step()
    if on_failure == "continue":
        assert str(caught.value).startswith("All replicas have died, and the variables with them.")
    else:
        said = "was the last replica, and died during a step: no copy of the variables is left. Start again from a checkpoint."
        assert str(caught.value) == f"{last} {said}"


def test_a_death_that_leaves_others_can_be_survived() -> None:
    cluster, step, _ = one_second_steps(workers=2)
    step()
    cluster.faults.crash("worker:0", at=cluster.now + 0.5)
    with pytest.raises(UnavailableError, match=r"worker:0 died during a step, which left no mark.* on_failure='continue' to go on"):
        step()


def test_steps_that_cannot_begin_leave_no_listener_and_one_detection() -> None:
    cluster, step, _ = one_second_steps(workers=3)
    step()
    listeners = len(cluster.world.listeners)
    cluster.faults.crash("worker:0", at=cluster.now + 1e-6, restart_after=0.5)
    sd.sleep(1e-3, cluster)
    for _ in range(3):
        with pytest.raises(UnavailableError, match="is down"):
            step()
    assert len(cluster.world.listeners) == listeners
    assert [found.lane for found in cluster.trace.instants.where(category="detect")] == ["worker:0"]
    cluster.faults.crash("worker:2", at=cluster.now + 1e-6, restart_after=0.1)
    sd.sleep(1e-3, cluster)
    assert len(cluster.trace.instants.where(category="detect")) == 1  # nobody has asked for worker:2 yet


def test_a_worker_that_was_started_again_is_not_the_one_that_joined() -> None:
    cluster, step, _ = one_second_steps(workers=2)
    step()
    cluster.faults.crash("worker:1", at=cluster.now + 1e-6, restart_after=1e-6)
    sd.sleep(1e-3, cluster)
    with pytest.raises(UnavailableError, match="worker:1 was started again"):
        step()


def test_a_replica_whose_task_stands_still_begins_its_step_when_it_goes_on() -> None:
    cluster, step, _ = one_second_steps(workers=2)
    step()
    paused_s = cluster.now
    cluster.faults.pause("worker:1", at=paused_s, until=paused_s + 3.0)
    step()
    begun = [span.start_s for span in cluster.trace.spans.where(category="compute") if span.lane == "worker:1"]
    assert min(start_s for start_s in begun if start_s >= paused_s) == paused_s + 3.0


def test_a_death_is_told_once_though_chief_and_replicas_both_learn_of_it_and_a_silence_each_time() -> None:
    cluster, step, _ = one_second_steps(workers=3, on_failure="continue")
    cluster.faults.crash("worker:0", at=0.5)
    cluster.faults.partition("worker:1", "chief:0", at=0.5, until=10.0)
    cluster.faults.partition("worker:1", "chief:0", at=20.0, until=30.0)
    for _ in range(40):
        step()
    assert [mark.lane for mark in cluster.trace.instants.where(category="detect")] == ["worker:0", "worker:1", "worker:1"]


def raised_at(number: int, code: CodeType) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that raises KeyboardInterrupt at the n-th line of this code, as a handler of Ctrl-C would."""
    lines = iter(range(number + 1))

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line" and frame.f_code is code and next(lines, None) == number:
            raise KeyboardInterrupt
        return trace

    return trace


def test_ctrl_c_while_a_step_is_made_to_count_leaves_all_of_it_or_nothing() -> None:
    number = -1
    for number in itertools.count():
        states = SimpleNamespace(bundles=["old"] * 3, versions=[0] * 3)
        versions = StepVersions(cast(Any, states))
        for group in range(3):
            versions.add(group, cast(Any, "new"))
        before = sys.gettrace()
        sys.settrace(raised_at(number, StepVersions.commit.__code__))
        try:
            versions.commit()
            break
        except KeyboardInterrupt:
            assert len(set(zip(states.bundles, states.versions, strict=True))) == 1
        finally:
            sys.settrace(before)
    assert number > 5


@pytest.mark.parametrize("restart_after", [None, 0.1])
def test_a_program_whose_chief_has_crashed_takes_no_step_any_more(restart_after: float | None) -> None:
    cluster, step, _ = one_second_steps(workers=2)
    step()
    cluster.faults.crash("chief", at=cluster.now + 0.5, restart_after=restart_after)
    with pytest.raises(UnavailableError, match="this program with it"):
        step()
    sd.sleep(5.0, cluster)
    with pytest.raises(UnavailableError, match="whose process this program is"):
        step()
    if restart_after is not None:
        strategy = sd.MultiWorkerMirroredStrategy(cluster)
        with strategy.scope():
            again = sd.Variable([0.0], aggregation=sd.VariableAggregation.MEAN)
        sd.function(lambda: strategy.run(lambda: again.assign_add(again.value * 0 + 1.0)))()
        assert float(again.numpy()[0]) == 1.0


def test_a_step_that_is_taken_again_draws_what_it_drew() -> None:
    """Some replicas have ended the step before another one loses a message of it: it counts for none of them."""

    def drawn(lost_after_s: float | None) -> tuple[list[float], list[tuple[int, int]]]:
        cluster = sd.Cluster({"worker": 4})
        options = sd.CommunicationOptions(algorithm="ring")
        strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue", communication_options=options)
        with strategy.scope():
            total = sd.Variable(np.zeros(4, np.float32), aggregation=sd.VariableAggregation.MEAN)
            dropout = keras.layers.Dropout(0.5)
        step = sd.function(lambda: strategy.run(lambda: total.assign_add(dropout(total.value * 0 + 1.0, training=True))))
        for number in range(3):
            if number == 1 and lost_after_s is not None:
                at = cluster.now + lost_after_s
                cluster.faults.drop("worker:0", "worker:1", kind="collective", at=at, until=cluster.now + 1.0)
            step()
        tasks = [cluster.world.tasks[f"worker:{index}"] for index in range(4)]
        return total.numpy().tolist(), [(task.steps, task.draws) for task in tasks]

    expected = drawn(None)
    assert expected[1] == [(3, 3)] * 4
    assert all(drawn(part * 5e-5) == expected for part in range(8))


def test_steps_that_a_strategy_takes_for_itself_do_not_count() -> None:
    """Launched mains bring their variables together before the first step, and read what each has for itself: neither is a step."""
    steps: list[tuple[int, float]] = []

    def main() -> None:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            variable = sd.Variable(1.0, aggregation=sd.VariableAggregation.MEAN)
            counted = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        step = sd.function(lambda: strategy.run(lambda: (variable.assign_add(variable.value), counted.assign_add(1.0))))
        for _ in range(3):
            step()
            steps.append((cluster.world.tasks["worker:0"].steps, float(counted.numpy())))

    cluster = sd.Cluster({"worker": 2})
    cluster.launch(main).join()
    assert sorted(set(steps)) == [(1, 2.0), (2, 4.0), (3, 6.0)]


def test_an_average_of_local_steps_does_not_count() -> None:
    cluster = sd.Cluster({"worker": 2})
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=2)
    with strategy.scope():
        variable = sd.Variable(np.ones(2, np.float32), aggregation=sd.VariableAggregation.MEAN)
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(variable.value, variable)])))
    for _ in range(4):
        step()
    assert cluster.world.tasks["worker:1"].steps == 4


@pytest.mark.parametrize("compute_devices", [2, 3, ["cpu:0", "gpu:0"]])
def test_a_central_variable_is_changed_once_for_all_replicas_which_wait_for_it(compute_devices: Any) -> None:
    cluster = sd.Cluster({"worker": 1}, hardware=sd.hardware.Device(launch_overhead=0.1), numerics="off")
    strategy = sd.CentralStorageStrategy(compute_devices, cluster=cluster)
    with strategy.scope():
        weights = sd.Variable(np.ones(2, np.float32))
        optimizer = sd.Optimizer(sd.keras.optimizers.SGD(0.1))

    def replica() -> None:
        _, gradients = sd.value_and_grad(lambda: weights.value.sum(), [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))

    step = sd.function(lambda: strategy.run(replica))
    for _ in range(2):
        step()
    applied = [span for span in cluster.trace.spans if span.category == "apply"]
    assert [(span.lane, span.facts["version"]) for span in applied] == [("worker:0/cpu:0", 1), ("worker:0/cpu:0", 2)]
    assert cluster.now == pytest.approx(0.4, abs=1e-3)
    seconds = cluster.trace.critical_path().seconds
    assert (seconds["apply"], seconds["compute"]) == (pytest.approx(0.2, abs=1e-6), pytest.approx(0.2, abs=1e-6))


def test_central_variables_are_read_side_by_side() -> None:
    network = sd.hardware.Network(intra_host_bandwidth=1e4, intra_host_latency=0.5)
    strategy = sd.CentralStorageStrategy(["gpu:0"], cluster=sd.Cluster({"worker": 1}, network=network, numerics="off"))
    with strategy.scope():
        variables = [sd.Variable(np.ones(500, np.float32)), sd.Variable(np.ones(250, np.int32)), sd.Variable(np.ones(250, np.float32))]
    strategy.run(sd.function(lambda: [variable.value * 2 for variable in variables]))
    reads = strategy.engine.trace.spans.where(category="read")
    assert [(span.duration_s, span.facts["bytes"]) for span in reads] == [(pytest.approx(0.5 + 4000 / 1e4), 4000)]


@pytest.mark.parametrize("until_s", [0.05 + 0.08, 0.05 + 0.18])
def test_all_replicas_wait_for_the_change_of_a_central_variable_that_a_pause_puts_off(until_s: float) -> None:
    def main() -> None:
        strategy = sd.CentralStorageStrategy(2)
        with strategy.scope():
            total = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.SUM)
        for _ in range(2):
            strategy.run(sd.function(lambda: total.assign_add(np.float32(1.0))))
        assert float(total) == 4.0

    cluster = sd.Cluster({"worker": 1}, hardware=sd.hardware.Device(launch_overhead=0.1))
    cluster.faults.pause("worker:0", at=0.05, until=until_s)
    cluster.launch(main).join()
    first, second = cluster.trace.spans.where(category="apply")
    assert (first.start_s, first.end_s) == (pytest.approx(0.0, abs=1e-5), until_s)
    assert (second.start_s, second.end_s) == pytest.approx((until_s, until_s + 0.1), abs=1e-4)
