"""Pre-emption with notice: all mains save after the same step, end, and go on where they were (cases B189 to B194)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

CALLS = 12


def loop(directory: str, config: Callable[[], sd.TerminationConfig], noted: list[Any]) -> tuple[float, int]:
    """A loop whose calls take a virtual second each."""
    strategy = sd.MultiWorkerMirroredStrategy()
    resolver = strategy.cluster_resolver
    assert resolver is not None
    with strategy.scope():
        v = sd.Variable(0.0)
    handler = sd.PreemptionCheckpointHandler(resolver, sd.Checkpoint(v=v), directory, config())
    noted.append((resolver.task_id, "begins", handler.total_run_calls, strategy.cluster.now))

    def step() -> None:
        strategy.run(lambda: v.assign_add(sd.get_replica_context().all_reduce("SUM", 1.0)))
        sd.sleep(1.0)

    while handler.total_run_calls < CALLS:
        handler.run(step)
    return float(v.numpy()), handler.total_run_calls


def run(plan: Callable[[Any], None], config: Callable[[], sd.TerminationConfig] = sd.TerminationConfig) -> tuple[Any, list[Any], Any]:
    noted: list[Any] = []
    with sd.Cluster({"worker": 2}) as cluster:
        directory = cluster.directory("saved")
        plan(cluster.faults)
        mains = cluster.launch(loop, restart="always", args=(directory, config, noted))
        mains.join()
        assert len([path for path in Path(directory).iterdir() if path.is_dir()]) <= 1
        return mains, noted, cluster.trace


def test_b189_both_save_after_the_same_call_and_the_one_that_was_told_starts_elsewhere() -> None:
    mains, noted, trace = run(lambda faults: faults.preempt("worker:1", at=4.5, notice=60.0, restart_after=5.0))
    assert mains.results == {"worker:0": (2.0 * CALLS, CALLS), "worker:1": (2.0 * CALLS, CALLS)}
    assert mains.restarts == {"worker:0": 1, "worker:1": 1}
    # Nothing was repeated: both begin again with the call after the last one, in which the notice came.
    assert {(worker, calls) for worker, _, calls, _ in noted} == {(0, 0), (1, 0), (0, 5), (1, 5)}
    crash = next(instant for instant in trace.instants if instant.category == "crash")
    assert crash.lane == "worker:1"
    assert crash.time_s < 6.0  # its machine is given back when its program has ended, and not after the whole notice


def test_b190_without_time_to_save_the_steps_are_lost() -> None:
    mains, noted, _ = run(lambda faults: faults.crash("worker:1", at=4.5, restart_after=5.0))
    assert mains.results["worker:0"] == (2.0 * CALLS, CALLS)
    assert {(worker, calls) for worker, _, calls, _ in noted} == {(0, 0), (1, 0)}


def test_b191_with_a_grace_period_the_training_goes_on_and_saves_once_more() -> None:
    plan = lambda faults: faults.preempt("worker:1", at=2.5, notice=60.0, restart_after=5.0)  # noqa: E731
    mains, noted, trace = run(plan, lambda: sd.TerminationConfig(grace_period=6.0))
    assert mains.results["worker:0"] == (2.0 * CALLS, CALLS)
    writes = [span.start_s for span in trace.spans if span.category == "checkpoint" and span.name.startswith("write")]
    assert len(writes) == 2  # at once, and before the time is over
    assert 2.5 < writes[0] < 4.0
    assert 5.0 < writes[1] < 2.5 + 6.0 + 1.0
    resumed = {calls for _, _, calls, _ in noted[2:]}
    assert len(resumed) == 1
    assert resumed.pop() in range(5, 9)


def test_b191_a_training_that_ends_first_simply_ends() -> None:
    plan = lambda faults: faults.preempt("worker:1", at=CALLS - 1.5, notice=60.0)  # noqa: E731
    mains, _, _ = run(plan, lambda: sd.TerminationConfig(grace_period=50.0))
    assert mains.results["worker:0"] == (2.0 * CALLS, CALLS)
    assert mains.restarts == {"worker:0": 0, "worker:1": 0}


def test_a_function_of_the_user_can_give_notice_save_and_exit() -> None:
    calls: list[str] = []

    def config() -> sd.TerminationConfig:
        watcher = lambda: bool(calls.append("asked")) or len(calls) > 8  # noqa: E731
        return sd.TerminationConfig(watcher, lambda: calls.append("exit"), None, lambda: calls.append("save"))

    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v = sd.Variable(0.0)
    handler = sd.PreemptionCheckpointHandler(None, sd.Checkpoint(v=v), strategy.cluster.directory("saved"), config())
    for _ in range(20):
        handler.run(lambda: sd.sleep(0.5, strategy.cluster))
        if "exit" in calls:
            break
    assert calls == ["asked"] * 9 + ["save", "exit"]  # it is asked once a virtual second, and so every second call
    assert handler.total_run_calls == 17
    strategy.cluster.close()


def test_b193_bad_arguments(tmp_path: Path) -> None:
    with sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})).scope():
        checkpoint = sd.Checkpoint(v=sd.Variable(1.0))
    with pytest.raises(sd.errors.InvalidArgumentError, match="checkpoint_dir"):
        sd.PreemptionCheckpointHandler(None, checkpoint)
    manager = sd.CheckpointManager(checkpoint, tmp_path, max_to_keep=3)
    with pytest.raises(sd.errors.InvalidArgumentError, match="of its own"):
        sd.PreemptionCheckpointHandler(None, manager, str(tmp_path))
    assert sd.PreemptionCheckpointHandler(None, manager).manager is manager
    with pytest.raises(NotImplementedError, match="recovery="):
        sd.PreemptionCheckpointHandler(sd.SimpleClusterResolver(sd.ClusterSpec({"worker": 1, "ps": 1})), checkpoint, str(tmp_path))
    with pytest.raises(TypeError, match="CheckpointManager; got str"):
        sd.PreemptionCheckpointHandler(None, "checkpoint", str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="exit_fn"):
        sd.TerminationConfig(exit_fn=3)  # type: ignore[arg-type]
    with pytest.raises(sd.errors.InvalidArgumentError, match="grace_period"):
        sd.TerminationConfig(grace_period=-1.0)


X = np.random.default_rng(0).random((64, 4)).astype("float32")
Y = X.sum(1, keepdims=True)


def fit(directory: str, save_freq: Any) -> list[float]:
    strategy = sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    backup = keras.callbacks.BackupAndRestore(directory, save_freq=save_freq, save_before_preemption=True)
    data = sd.Dataset.from_tensor_slices((X, Y)).shuffle(64, seed=1).batch(8).repeat()
    return model.fit(data, epochs=3, steps_per_epoch=8, verbose=0, callbacks=[backup]).history["loss"]


def test_fit_saves_before_it_is_preempted_and_repeats_nothing() -> None:
    def run_fit(at: float | None) -> tuple[list[float], int, float]:
        with sd.Cluster({"worker": 2}) as cluster:
            if at is not None:
                cluster.faults.preempt("worker:0", at=at, notice=1.0, restart_after=0.5)
            mains = cluster.launch(fit, restart="always", args=(cluster.directory("backup"), None))
            mains.join()
            steps = len([span for span in cluster.trace.spans if span.name.startswith("apply") and span.lane == "worker:1"])
            return mains.results["worker:1"], steps, cluster.now

    losses, steps, end_s = run_fit(None)
    again, steps_again, _ = run_fit(end_s * 0.6)
    assert again == losses
    assert steps_again == steps


def test_save_before_preemption_needs_a_step_for_all(tmp_path: Path) -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1})).scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    backup = keras.callbacks.BackupAndRestore(tmp_path, save_before_preemption=True)
    with pytest.raises(sd.errors.InvalidArgumentError, match="synchronous strategy"):
        model.fit(X, Y, verbose=0, callbacks=[backup])
