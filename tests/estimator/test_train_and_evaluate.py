"""Trainings by role: workers that step together, parameter servers, crashes on the way, and data that end."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from estimators import X, Y, descended, input_fn, regressor, sharing_input_fn, weights
from sampling import sampled
from simdist.errors import InvalidArgumentError
from simdist.estimator.saved_steps import saved_values, step_of
from simdist.estimator.train_and_evaluate import _Evaluator

EVAL = sd.estimator.EvalSpec(input_fn(16, endless=False), steps=None, start_delay_secs=0.001, throttle_secs=0)


@pytest.mark.parametrize("crash", sampled([False, True], [True]))
def test_workers_train_together_also_after_a_crash(tmp_path: Path, crash: bool) -> None:
    cluster = sd.Cluster({"worker": 2, "evaluator": 1})
    if crash:
        cluster.faults.crash("worker:1", after_steps=13, restart_after=1.0)

    def main() -> Any:
        estimator = regressor(tmp_path, train_distribute=sd.MultiWorkerMirroredStrategy, save_checkpoints_steps=6)
        # Each start begins its data anew; six steps of eight rows for each of two workers are a pass twice over.
        train_spec = sd.estimator.TrainSpec(sharing_input_fn(16), max_steps=18)
        return sd.estimator.train_and_evaluate(estimator, train_spec, EVAL)

    run = cluster.launch(main, job=["worker", "evaluator"], restart="always")
    run.join()
    assert {name: run.results[name] for name in ("worker:0", "worker:1")} == {"worker:0": None, "worker:1": None}
    assert weights(regressor(tmp_path)) == pytest.approx(descended(18, 16), abs=1e-5)
    sd.sleep(10, cluster)
    metrics, exports = run.results["evaluator:0"]
    assert metrics["global_step"] == 18 and exports == []
    restarts = [instant for instant in cluster.trace.instants.where(category="restart") if instant.lane == "worker:1"]
    assert bool(restarts) is crash


def test_workers_evaluate_together(tmp_path: Path) -> None:
    def main() -> Any:
        both = sd.MultiWorkerMirroredStrategy
        estimator = regressor(tmp_path, train_distribute=both, eval_distribute=both).train(sharing_input_fn(16), max_steps=4)
        estimator.train(sharing_input_fn(16), max_steps=4)  # changes nothing
        return estimator.evaluate(sharing_input_fn(12, endless=False))

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    assert run.results["worker:0"] == run.results["worker:1"]
    errors = (np.column_stack([X, np.ones(48)]) @ descended(4, 16) - Y) ** 2
    assert run.results["worker:0"]["average_loss"] == pytest.approx(np.mean(errors), rel=1e-4)


def test_parameter_servers_of_a_launched_cluster_with_a_strategy_of_ones_own(tmp_path: Path) -> None:
    cluster = sd.Cluster({"chief": 1, "worker": 1, "ps": 2})
    cluster.faults.crash("worker:0", after_steps=3, restart_after=0.5)

    def strategy() -> sd.ParameterServerStrategy:
        return sd.ParameterServerStrategy(sd.TFConfigClusterResolver(), sd.FixedShardsPartitioner(2))

    def main() -> Any:
        estimator = regressor(tmp_path, train_distribute=strategy, experimental_max_worker_delay_secs=0)
        sd.estimator.train_and_evaluate(estimator, sd.estimator.TrainSpec(input_fn(16), max_steps=8), EVAL)
        return estimator.get_variable_value("global_step")

    run = cluster.launch(main, job=["chief", "worker", "ps"])
    run.join()
    assert run.results == {"chief:0": 8}
    assert [instant.lane for instant in cluster.trace.instants.where(category="retry")] == ["worker:0"]


def test_a_worker_that_serves_is_sent_no_program(tmp_path: Path) -> None:
    def main() -> Any:
        if sd.TFConfigClusterResolver().task_type == "worker":
            with pytest.raises(InvalidArgumentError, match="train was called on worker:0, which does not train"):
                regressor(tmp_path).train(input_fn(), steps=1)
        return "over"

    run = sd.Cluster({"chief": 1, "worker": 1, "ps": 1}).launch(main, job=["chief", "worker"])
    run.join()
    assert run.results == {"chief:0": "over", "worker:0": "over"}


def test_with_parameter_servers_the_data_of_a_worker_end_the_training(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    estimator = regressor(tmp_path, train_distribute=sd.ParameterServerStrategy(cluster)).train(sharing_input_fn(8, endless=False))
    steps = int(estimator.get_variable_value("global_step"))
    assert 3 <= steps <= 6  # each worker has three batches; when one has no more, what the other was about to do is dropped
    estimator.train(sharing_input_fn(8), steps=2)  # the coordinator goes on
    assert estimator.get_variable_value("global_step") == steps + 2


def test_a_checkpoint_on_the_way_has_the_steps_in_its_name_also_where_the_data_of_one_worker_end(tmp_path: Path) -> None:
    def input_of_two_lengths(input_context: sd.InputContext) -> sd.Dataset:
        return input_fn(8, endless=False)().take(2 + 2 * input_context.input_pipeline_id)

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    regressor(tmp_path, train_distribute=strategy, save_checkpoints_secs=1e-5).train(input_of_two_lengths)
    paths = sorted(str(path) for path in tmp_path.glob("model.ckpt-*") if path.is_dir())
    assert len(paths) == 2  # of the beginning and of the end, which is where the first step was: all others were under way
    assert all(saved_values(path)["global_step"] == step_of(path) for path in paths)


def test_with_parameter_servers_a_step_that_fails_is_the_error_of_the_training(tmp_path: Path) -> None:
    def input_that_fails() -> sd.Dataset:
        return (
            sd.Dataset.from_tensor_slices(({"x": X}, Y))
            .batch(8)
            .map(lambda features, labels: (features, labels if labels[0] == Y[0] else 1 / 0))
        )

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    with pytest.raises(ZeroDivisionError):
        regressor(tmp_path, train_distribute=strategy).train(input_that_fails, steps=6)


def test_a_listener_that_fails_leaves_nothing_under_way(tmp_path: Path) -> None:
    class Failing(sd.estimator.CheckpointSaverListener):
        def after_save(self, session: None, global_step_value: int) -> None:
            if global_step_value:
                raise KeyError("listener")

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    with pytest.raises(KeyError, match="listener"):
        regressor(tmp_path, train_distribute=strategy, save_checkpoints_steps=2).train(input_fn(), steps=6, saving_listeners=[Failing()])
    assert sd.ClusterCoordinator(strategy).done()


class Interrupts(logging.Handler):
    """Ctrl-C at the fifth report of a step."""

    left = 5

    def emit(self, record: logging.LogRecord) -> None:
        self.left -= record.getMessage().startswith("Step ")
        if self.left == 0:
            self.left = -1
            raise KeyboardInterrupt


def test_an_interrupted_training_leaves_no_step_for_the_next_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def trained(directory: Path) -> tuple[sd.estimator.Estimator, sd.ParameterServerStrategy]:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
        return regressor(directory, train_distribute=strategy, log_step_count_steps=1), strategy

    (estimator, strategy), (calm, _) = trained(tmp_path / "hit"), trained(tmp_path / "calm")
    log, handler = logging.getLogger("simdist"), Interrupts()
    log.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "simdist"), pytest.raises(KeyboardInterrupt):
            estimator.train(input_fn(16), steps=20)
    finally:
        log.removeHandler(handler)
    assert sd.ClusterCoordinator(strategy).done()
    for one in (estimator, calm):
        one.train(input_fn(16), steps=6)
    assert int(estimator.get_variable_value("global_step")) == 6
    np.testing.assert_array_equal(weights(estimator), weights(calm))


@pytest.mark.sample(8)
@pytest.mark.parametrize("every_s", [0.0005, 0.001, 0.003])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_mains_save_by_seconds_at_the_same_steps(every_s: float, factor: float, tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 3})
    if factor > 1:
        cluster.faults.slow("worker:1", factor, at=0.0)

    def main() -> Any:
        estimator = regressor(
            tmp_path, train_distribute=sd.MultiWorkerMirroredStrategy, save_checkpoints_secs=every_s, keep_checkpoint_max=0
        )
        sd.estimator.train_and_evaluate(estimator, sd.estimator.TrainSpec(sharing_input_fn(12), max_steps=40), EVAL)
        return int(estimator.get_variable_value("global_step"))

    run = cluster.launch(main)
    run.join()
    assert set(run.results.values()) == {40}
    assert weights(regressor(tmp_path)) == pytest.approx(descended(40, 12), abs=1e-4)
    assert len(list(tmp_path.glob("model.ckpt-*"))) > 3


def test_a_listener_of_the_chief_ends_the_training_of_all_mains(tmp_path: Path) -> None:
    class Stops(sd.estimator.CheckpointSaverListener):
        def after_save(self, session: object, global_step: int) -> bool:
            return global_step >= 4

    def main() -> Any:
        estimator = regressor(tmp_path, train_distribute=sd.MultiWorkerMirroredStrategy, save_checkpoints_steps=2)
        train_spec = sd.estimator.TrainSpec(sharing_input_fn(16), max_steps=10, saving_listeners=[Stops()])
        sd.estimator.train_and_evaluate(estimator, train_spec, EVAL)
        return int(estimator.get_variable_value("global_step"))

    run = sd.Cluster({"worker": 2}).launch(main)
    run.join()
    assert run.results == {"worker:0": 4, "worker:1": 4}


def test_a_session_can_rewind_a_training_and_repeats_it() -> None:
    def program(cluster: sd.Cluster) -> float:
        strategy = sd.MirroredStrategy(2, cluster=cluster)
        estimator = regressor(cluster.directory("model"), train_distribute=strategy, save_checkpoints_steps=2)
        result = sd.estimator.train_and_evaluate(estimator, sd.estimator.TrainSpec(input_fn(8), 4), EVAL)
        assert result is not None and result[0] is not None
        return result[0]["average_loss"]

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance()
    result, digest = session.result, session.digest()
    errors = (np.column_stack([X, np.ones(48)]) @ descended(4, 16) - Y) ** 2
    assert result == pytest.approx(np.mean(errors), rel=1e-4)
    session.rewind(session.now / 2)
    session.advance()
    assert (session.result, session.digest()) == (result, digest)
    session.close()


def test_an_engine_without_time_trains_the_same(tmp_path: Path) -> None:
    strategy = sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, engine="in_process"))
    estimator = regressor(tmp_path, train_distribute=strategy, log_step_count_steps=1)
    result = sd.estimator.train_and_evaluate(estimator, sd.estimator.TrainSpec(input_fn(8), 4), EVAL)
    assert result is not None and result[0] is not None and result[0]["global_step"] == 4
    assert weights(estimator) == pytest.approx(descended(4, 16), abs=1e-6)


def test_a_role_that_nobody_knows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "judge": ["b:1"]}, "task": {"type": "judge", "index": 0}}')
    with pytest.raises(InvalidArgumentError, match="'judge'"):
        sd.estimator.train_and_evaluate(regressor(tmp_path), sd.estimator.TrainSpec(input_fn(), 1), EVAL)


def test_a_checkpoint_that_is_removed_while_its_evaluation_begins_is_passed_over(tmp_path: Path) -> None:
    estimator = regressor(tmp_path, keep_checkpoint_max=1).train(input_fn(), steps=1)

    def input_that_takes_time() -> sd.Dataset:
        if estimator.latest_checkpoint() == str(tmp_path / "model.ckpt-1"):  # the training goes on meanwhile
            regressor(tmp_path, keep_checkpoint_max=1).train(input_fn(), max_steps=2)
        return input_fn(16, endless=False)()

    evaluator = _Evaluator(estimator, sd.estimator.EvalSpec(input_that_takes_time, steps=None), last_step=2)
    assert evaluator.evaluate() and evaluator.is_last
    assert evaluator.results is not None and evaluator.results["global_step"] == 2
