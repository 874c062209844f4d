"""Which strategy an Estimator takes for what, and whose clock runs meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from estimators import config, input_fn, regressor
from simdist.estimator.strategies import Strategies, serves


def test_one_device_is_the_default_for_everything(tmp_path: Path) -> None:
    found = Strategies(config(tmp_path))
    assert isinstance(found.training, sd.OneDeviceStrategy)
    assert found.training is found.evaluation is found.one_device


def test_evaluations_take_the_time_of_the_training_and_predictions_one_device_of_it(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 2})
    mirrored = sd.MirroredStrategy(2, cluster=cluster)
    found = Strategies(config(tmp_path, train_distribute=mirrored))
    assert found.training is mirrored and found.evaluation is found.one_device and found.evaluation.cluster is cluster
    estimator = regressor(tmp_path, train_distribute=mirrored)
    estimator.evaluate(input_fn(), steps=1)
    assert cluster.now > 0 and estimator.evaluation_engine is cluster.engine
    alone = Strategies(config(tmp_path, eval_distribute=mirrored))
    assert alone.evaluation is mirrored and alone.training.cluster is cluster


def test_a_function_makes_its_strategy_once_and_nothing_else(tmp_path: Path) -> None:
    calls: list[int] = []

    def two() -> sd.MirroredStrategy:
        calls.append(1)
        return sd.MirroredStrategy(2)

    found = Strategies(config(tmp_path, train_distribute=two, eval_distribute=lambda: "mirrored"))
    assert found.training is found.training and found.training.num_replicas_in_sync == 2 and calls == [1]
    with pytest.raises(TypeError, match="eval_distribute returned 'mirrored'"):
        assert found.evaluation


@pytest.mark.parametrize(
    ("task_type", "jobs", "strategy", "expected"),
    [
        ("ps", {"ps": 1}, None, True),
        ("worker", {"ps": 1}, None, True),
        ("worker", {"ps": 1}, sd.ParameterServerStrategy, True),
        ("worker", {"ps": 1}, "mirrored", False),
        ("worker", {}, sd.MultiWorkerMirroredStrategy, False),
        ("chief", {"ps": 1}, None, False),
    ],
)
def test_who_serves(monkeypatch: pytest.MonkeyPatch, task_type: str, jobs: dict[str, int], strategy: Any, expected: bool) -> None:
    cluster = {job: [f"{job}{index}:1" for index in range(count)] for job, count in {"chief": 1, "worker": 2, **jobs}.items()}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": task_type, "index": 0}}))
    given = sd.MirroredStrategy(2) if strategy == "mirrored" else strategy
    assert serves(config("a", train_distribute=given)) is expected
