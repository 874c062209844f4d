"""Conformance cases B245 to B255 (the Estimator: its options, its calls, its roles, its input), and C48."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from estimators import X, config, descended, input_fn, regressor, sharing_input_fn, weights
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError

CLUSTER = {"chief": ["host0:0"], "ps": ["host1:1", "host2:2"], "worker": ["host3:3", "host4:4", "host5:5"]}


@pytest.fixture
def tf_config(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets TF_CONFIG."""

    def put(cluster: Any = None, task_type: str | None = None, index: int | None = None, **others: Any) -> None:
        task = {"type": task_type, "index": index}
        content = {"cluster": cluster, "task": {key: value for key, value in task.items() if value is not None} or None, **others}
        monkeypatch.setenv("TF_CONFIG", json.dumps({key: value for key, value in content.items() if value is not None}))

    monkeypatch.delenv("TF_CONFIG", raising=False)
    return put


# -- B245, B247: what a RunConfig says ----------------------------------------------------------------------------------


def test_b245_defaults_without_tf_config(tf_config: Any) -> None:
    found = sd.estimator.RunConfig()
    assert (found.model_dir, found.tf_random_seed, found.save_summary_steps) == (None, None, 100)
    assert (found.save_checkpoints_secs, found.save_checkpoints_steps) == (600, None)
    assert (found.keep_checkpoint_max, found.keep_checkpoint_every_n_hours) == (5, 10_000)
    assert (found.log_step_count_steps, found.session_creation_timeout_secs) == (100, 7200)
    assert (found.task_type, found.task_id, found.is_chief, found.master, found.evaluation_master) == ("worker", 0, True, "", "")
    assert (found.num_worker_replicas, found.num_ps_replicas, found.global_id_in_cluster) == (1, 0, 0)
    assert found.cluster_spec.as_dict() == {} and found.service is None


@pytest.mark.parametrize(
    ("task_type", "index", "expected"),
    [
        ("chief", 0, ("grpc://host0:0", True, 0)),
        ("worker", 1, ("grpc://host4:4", False, 2)),
        ("ps", 1, ("grpc://host2:2", False, 5)),
    ],
)
def test_b247_tasks_of_a_cluster(tf_config: Any, task_type: str, index: int, expected: tuple[str, bool, int]) -> None:
    tf_config(CLUSTER, task_type, index)
    found = sd.estimator.RunConfig()
    assert (found.master, found.is_chief, found.global_id_in_cluster) == expected
    assert (found.num_worker_replicas, found.num_ps_replicas) == (4, 2)
    assert found.cluster_spec.as_dict() == CLUSTER


def test_b247_an_evaluator_sees_no_cluster(tf_config: Any) -> None:
    tf_config(CLUSTER, "evaluator", 12)
    found = sd.estimator.RunConfig()
    assert found.cluster_spec.as_dict() == {}
    assert (found.task_type, found.task_id, found.master, found.is_chief) == ("evaluator", 12, "", False)
    assert (found.num_worker_replicas, found.num_ps_replicas, found.global_id_in_cluster) == (0, 0, None)


# -- B248 to B250: what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "task_type", "index", "message"),
    [
        ({"worker": ["a:1", "b:1"]}, "worker", 0, 'must have one "chief"'),
        ({"chief": ["a:1", "b:1"]}, "chief", 0, 'only one "chief"'),
        (CLUSTER, None, 0, "task's type must be set"),
        (CLUSTER, "worker", None, "task's index must be set"),
        (CLUSTER, "worker", -1, "whole number from 0 on"),
        (CLUSTER, "worker", 3, "index 3 is not in job 'worker'"),
        (CLUSTER, "gpu", 0, "'gpu' is not a job"),
        (None, "chief", 0, "local training"),
    ],
)
def test_b248_a_cluster_or_task_that_cannot_be(tf_config: Any, cluster: Any, task_type: Any, index: Any, message: str) -> None:
    tf_config(cluster, task_type, index)
    with pytest.raises(ValueError, match=message):
        sd.estimator.RunConfig()


def test_b248_a_service_that_is_no_object(tf_config: Any) -> None:
    tf_config(service="a")
    with pytest.raises(TypeError, match="must be an object"):
        sd.estimator.RunConfig()
    tf_config(service={"a": 1})
    assert sd.estimator.RunConfig().service == {"a": 1}


def test_b249_checkpoints_by_steps_or_by_seconds(tf_config: Any) -> None:
    with pytest.raises(ValueError, match="cannot both be set"):
        sd.estimator.RunConfig(save_checkpoints_steps=100, save_checkpoints_secs=60)
    by_steps = sd.estimator.RunConfig().replace(save_checkpoints_steps=100)
    assert (by_steps.save_checkpoints_steps, by_steps.save_checkpoints_secs) == (100, None)
    by_seconds = by_steps.replace(save_checkpoints_secs=60)
    assert (by_seconds.save_checkpoints_steps, by_seconds.save_checkpoints_secs) == (None, 60)
    for never in (
        sd.estimator.RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None),
        sd.estimator.RunConfig().replace(save_checkpoints_steps=None, save_checkpoints_secs=None),
    ):
        assert never.save_checkpoints_steps is never.save_checkpoints_secs is None
    for fixed in ("master", "task_type", "session", "_task"):
        with pytest.raises(ValueError, match=r"Replacing .* is not supported"):
            sd.estimator.RunConfig().replace(**{fixed: "a"})


def test_b249_without_saving_nothing_is_saved(tmp_path: Path) -> None:
    estimator = regressor(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None)
    assert estimator.train(input_fn(), steps=1).latest_checkpoint() is None


def test_b250_the_directory_is_said_once(tf_config: Any) -> None:
    with pytest.raises(ValueError, match="model_dir is empty"):
        sd.estimator.RunConfig(model_dir="")
    tf_config(model_dir="")
    with pytest.raises(ValueError, match="model_dir in TF_CONFIG is empty"):
        sd.estimator.RunConfig()
    tf_config(model_dir="a")
    assert sd.estimator.RunConfig().model_dir == sd.estimator.RunConfig("a").model_dir == "a"
    with pytest.raises(ValueError, match="TF_CONFIG has model_dir 'a'"):
        sd.estimator.RunConfig("b")


# -- B251, B252: train and evaluate -------------------------------------------------------------------------------------


def test_b251_steps_add_up_and_max_steps_do_not(tmp_path: Path) -> None:
    estimator = regressor(tmp_path)
    for expected in (10, 20):
        estimator.train(input_fn(16), steps=10)
        assert estimator.get_variable_value("global_step") == expected
    # Each call begins with the checkpoint of the one before, and with the first batch of its data.
    estimator.train(input_fn(16), max_steps=20)
    assert estimator.get_variable_value("global_step") == 20
    estimator.train(input_fn(16), max_steps=22)
    assert estimator.get_variable_value("global_step") == 22


@pytest.mark.parametrize(
    ("numbers", "message"),
    [({"steps": 1, "max_steps": 1}, "cannot both be given"), ({"steps": 0}, "steps is 0"), ({"max_steps": -1}, "max_steps is -1")],
)
def test_b251_numbers_of_steps_that_make_no_sense(tmp_path: Path, numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor(tmp_path).train(input_fn(), **numbers)


@pytest.mark.parametrize("task_type", ["evaluator", "ps"])
def test_b251_a_task_that_does_not_train(tmp_path: Path, tf_config: Any, task_type: str) -> None:
    tf_config(CLUSTER, task_type, 0)
    with pytest.raises(ValueError, match="train_and_evaluate"):
        regressor(tmp_path).train(input_fn(), steps=1)


def test_b252_an_evaluation_without_a_checkpoint_is_of_initial_values(tmp_path: Path) -> None:
    estimator = regressor(tmp_path)
    result = estimator.evaluate(input_fn(16, endless=False))
    assert result["global_step"] == 0
    assert result["average_loss"] == pytest.approx(np.mean((X @ [1, 2, 3]) ** 2), rel=1e-5)
    assert estimator.latest_checkpoint() is None
    assert [path.name for path in tmp_path.iterdir()] == ["eval"]
    estimator.evaluate(input_fn(16), steps=1, name="other")
    assert list((tmp_path / "eval_other").glob("events.out.tfevents*"))
    assert estimator.eval_dir("other") == str(tmp_path / "eval_other")


def test_b252_a_metric_must_not_be_called_global_step(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> sd.estimator.EstimatorSpec:
        metric = keras.metrics.Mean()
        metric.update_state(labels)
        return sd.estimator.EstimatorSpec(mode, loss=0.0, eval_metric_ops={"global_step": metric})

    with pytest.raises(ValueError, match="global_step"):
        sd.estimator.Estimator(model_fn, tmp_path).evaluate(input_fn(), steps=1)


# -- B253, B254: train_and_evaluate -------------------------------------------------------------------------------------


class Noting:
    """An exporter that notes what was evaluated, and when."""

    name = "noting"

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self.now = now
        self.found: list[tuple[int, bool]] = []
        self.times_s: list[float] = []

    def export(self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool) -> str:
        step = eval_result["global_step"]
        assert checkpoint_path.endswith(f"model.ckpt-{step}") and export_path == str(Path(estimator.model_dir, "export", self.name))
        self.found.append((step, is_the_final_export))
        self.times_s.append(self.now())
        return f"exported {step}"


@pytest.mark.parametrize(("throttle_secs", "expected"), [(600, [10, 40]), (0, [10, 20, 30, 40])])
def test_b253_a_local_training_evaluates_after_checkpoints_but_the_first(tmp_path: Path, throttle_secs: float, expected: list[int]) -> None:
    noting = Noting()
    estimator = regressor(tmp_path, save_checkpoints_steps=10)
    spec = sd.estimator.EvalSpec(input_fn(16), steps=1, exporters=noting, throttle_secs=throttle_secs)
    result = sd.estimator.train_and_evaluate(estimator, sd.estimator.TrainSpec(input_fn(16), max_steps=40), spec)
    assert result is not None
    metrics, exports = result
    assert noting.found == [(step, step == 40) for step in expected]
    assert metrics is not None and metrics["global_step"] == 40
    assert exports == ["exported 40"]
    assert sd.estimator.EvalSpec(input_fn()).throttle_secs == 600
    assert weights(estimator) == pytest.approx(descended(40), abs=1e-5)


def slow_workers(seconds: float) -> dict[str, sd.hardware.Device]:
    """A step of a worker takes so many virtual seconds."""
    return {"worker": sd.hardware.Device(launch_overhead=seconds)}


def test_b254_each_task_of_a_cluster_with_parameter_servers_has_its_role(tmp_path: Path) -> None:
    cluster = sd.Cluster({"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}, hardware=slow_workers(10.0))
    noting = Noting(lambda: cluster.now)

    def main() -> Any:
        estimator = regressor(tmp_path, save_checkpoints_steps=10)
        train_spec = sd.estimator.TrainSpec(sharing_input_fn(8), max_steps=40)
        eval_spec = sd.estimator.EvalSpec(input_fn(16, endless=False), steps=None, exporters=noting, throttle_secs=40)
        return sd.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    run = cluster.launch(main, job=["chief", "worker", "ps", "evaluator"])
    run.join()
    assert run.results == {"chief:0": None}  # servers end with the chief, and nobody waits for the evaluator
    sd.sleep(200, cluster)
    metrics, exports = run.results["evaluator:0"]
    assert metrics["global_step"] == 40 and exports == ["exported 40"]
    # It waits for start_delay_secs, evaluates no checkpoint twice, and ends with the last one.
    assert noting.times_s[0] == pytest.approx(120, abs=0.1)
    assert [step for step, _ in noting.found] == sorted({step for step, _ in noting.found})
    assert noting.found[-1] == (40, True)
    # Worker i begins 5 (i + 1) s later than the chief.
    computed = cluster.trace.spans.where(category="compute")
    first_s = {name: min(span.start_s for span in computed if span.lane == name) for name in ("worker:0", "worker:1")}
    assert first_s == {"worker:0": pytest.approx(5, abs=0.1), "worker:1": pytest.approx(10, abs=0.1)}


@pytest.mark.parametrize(("limit", "expected"), [(None, [5, 10, 15]), (12, [5, 10, 12]), (3, [3, 3, 3])])
def test_b254_no_worker_begins_later_than_it_may(tmp_path: Path, limit: int | None, expected: list[float]) -> None:
    cluster = sd.Cluster({"chief": 1, "worker": 3, "ps": 1}, hardware=slow_workers(1.0))

    def main() -> None:
        estimator = regressor(tmp_path, save_checkpoints_steps=None, save_checkpoints_secs=None, experimental_max_worker_delay_secs=limit)
        train_spec = sd.estimator.TrainSpec(sharing_input_fn(8), max_steps=40)
        sd.estimator.train_and_evaluate(estimator, train_spec, sd.estimator.EvalSpec(input_fn(), steps=1))

    cluster.launch(main, job=["chief", "worker", "ps"]).join()
    computed = cluster.trace.spans.where(category="compute")
    first_s = [min(span.start_s for span in computed if span.lane == f"worker:{index}") for index in range(3)]
    assert first_s == pytest.approx(expected, abs=0.1)


def test_b254_there_is_one_evaluator(tmp_path: Path, tf_config: Any) -> None:
    tf_config(CLUSTER, "evaluator", 1)
    with pytest.raises(ValueError, match="one evaluator"):
        sd.estimator.train_and_evaluate(regressor(tmp_path), sd.estimator.TrainSpec(input_fn()), sd.estimator.EvalSpec(input_fn()))


# -- B255: input --------------------------------------------------------------------------------------------------------


def test_b255_input_fn_is_called_once_for_each_worker_and_its_batches_are_those_of_a_replica(tmp_path: Path) -> None:
    calls: list[sd.InputContext] = []
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=2)

    def counted(input_context: sd.InputContext) -> sd.Dataset:
        calls.append(input_context)
        return sharing_input_fn(16)(input_context)

    estimator = regressor(tmp_path, train_distribute=strategy).train(counted, steps=12)
    assert [(call.num_input_pipelines, call.input_pipeline_id, call.num_replicas_in_sync) for call in calls] == [(2, 0, 4), (2, 1, 4)]
    # Four replicas took four batches of four rows in each step, which the users had shared among the workers.
    assert weights(estimator) == pytest.approx(descended(12, 16), abs=1e-5)


def test_b255_n_replicas_take_n_batches_in_a_step(tmp_path: Path) -> None:
    estimator = regressor(tmp_path, train_distribute=sd.MirroredStrategy(2), eval_distribute=sd.MirroredStrategy(3))
    estimator.train(input_fn(12, endless=False))
    assert estimator.get_variable_value("global_step") == 2  # 48 rows, in batches of 12, by two
    assert weights(estimator) == pytest.approx(descended(2, 24), abs=1e-5)
    # The evaluation has replicas of its own: of five batches, three and two.
    found = estimator.evaluate(input_fn(10, endless=False))
    errors = (np.column_stack([X, np.ones(48)]) @ descended(2, 24) - X @ [1, 2, 3]) ** 2
    assert found["average_loss"] == pytest.approx(np.mean(errors), rel=1e-4)
    means = [np.mean(errors[first : first + 10]) for first in range(0, 48, 10)]
    assert found["loss"] == pytest.approx(np.mean(means), rel=1e-4)


def test_b255_nothing_is_shared_by_itself(tmp_path: Path) -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}))
    estimator = regressor(tmp_path, train_distribute=strategy).train(input_fn(16), steps=5)
    # Both workers read the same rows: twice 16 equal rows have the gradient of 16.
    assert weights(estimator) == pytest.approx(descended(5, 16), abs=1e-5)


# -- C48: under which strategies ------------------------------------------------------------------------------------------


def test_c48_the_program_of_the_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # it names no directory
    mirrored_strategy = sd.MirroredStrategy()
    options = sd.estimator.RunConfig(train_distribute=mirrored_strategy, eval_distribute=mirrored_strategy)
    estimator = sd.estimator.LinearRegressor(feature_columns=[sd.feature_column.numeric_column("feats")], optimizer="SGD", config=options)

    def guide_input_fn() -> sd.Dataset:
        dataset = sd.Dataset.from_tensors(({"feats": [1.0]}, [1.0]))
        return dataset.repeat(1000).batch(10)

    estimator.train(input_fn=guide_input_fn, steps=10)
    result = estimator.evaluate(input_fn=guide_input_fn, steps=10)
    assert result["global_step"] == 10 and result["label/mean"] == 1.0
    assert math.isclose(result["loss"], (1 - 2 * 0.2 * 2) ** 20, abs_tol=1e-6)  # two weights of 1, each by 0.2 · 2 · error


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "tpu": sd.TPUStrategy,
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "parameter servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}


@pytest.mark.parametrize("strategy", sampled(STRATEGIES, ["central storage", "tpu", "parameter servers"]))
def test_c48_each_strategy_trains_the_weights_of_one_device(tmp_path: Path, strategy: str) -> None:
    estimator = regressor(tmp_path, train_distribute=STRATEGIES[strategy], save_checkpoints_steps=100)
    estimator.train(sharing_input_fn(16), steps=6)
    assert weights(estimator) == pytest.approx(descended(6, 16), abs=1e-6)


def test_c48_what_an_estimator_cannot_do_is_refused(tmp_path: Path) -> None:
    estimator = regressor(tmp_path, eval_distribute=STRATEGIES["parameter servers"])
    with pytest.raises(InvalidArgumentError, match="replicas that step together"):
        estimator.evaluate(input_fn(), steps=1)
    with pytest.raises(InvalidArgumentError, match="no sessions"):
        estimator.train(input_fn(), hooks=[object()], steps=1)
    with pytest.raises(InvalidArgumentError, match="no sessions"):
        config(tmp_path, session_config={})
