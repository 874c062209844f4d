"""Options of an Estimator: what is taken, what is refused, and what a copy with others has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"session_config": {}}, ValueError, "no sessions of TensorFlow"),
        ({"device_fn": print}, ValueError, "the strategy places variables"),
        ({"experimental_distribute": 1}, ValueError, "give train_distribute"),
        ({"session_creation_timeout_secs": 60}, ValueError, "no sessions to wait for"),
        ({"protocol": "grpc+verbs"}, ValueError, "network is simulated"),
        ({"checkpoint_save_graph_def": "no"}, TypeError, "checkpoint_save_graph_def"),
        ({"save_summary_steps": -1}, ValueError, "save_summary_steps is -1"),
        ({"save_checkpoints_steps": -1}, ValueError, "save_checkpoints_steps is -1"),
        ({"save_checkpoints_secs": -1}, ValueError, "save_checkpoints_secs"),
        ({"keep_checkpoint_max": -1}, ValueError, "keep_checkpoint_max is -1"),
        ({"keep_checkpoint_every_n_hours": 0}, ValueError, "more than 0 hours"),
        ({"log_step_count_steps": 0}, ValueError, "log_step_count_steps is 0"),
        ({"tf_random_seed": 1.0}, TypeError, "tf_random_seed"),
        ({"experimental_max_worker_delay_secs": "5"}, TypeError, "experimental_max_worker_delay_secs"),
        ({"train_distribute": "mirrored"}, TypeError, "train_distribute"),
        ({"eval_distribute": 2}, TypeError, "eval_distribute"),
        ({"model_dir": 1}, TypeError, "model_dir"),
    ],
)
def test_what_cannot_be_honoured_is_refused_also_in_a_copy(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sd.estimator.RunConfig(**options)
    with pytest.raises(error, match=message):
        sd.estimator.RunConfig().replace(**options)


def test_what_changes_nothing_is_taken() -> None:
    strategy = sd.MirroredStrategy(2)
    found = sd.estimator.RunConfig(
        Path("a") / "b",
        tf_random_seed=-3,
        save_summary_steps=None,
        keep_checkpoint_max=None,
        log_step_count_steps=None,
        train_distribute=strategy,
        eval_distribute=sd.MirroredStrategy,
        protocol="grpc",
        checkpoint_save_graph_def=False,
    )
    assert (found.model_dir, found.tf_random_seed, found.train_distribute) == (str(Path("a", "b")), -3, strategy)


def test_one_of_the_two_frequencies_alone_replaces_the_default() -> None:
    assert sd.estimator.RunConfig(save_checkpoints_steps=5).save_checkpoints_secs is None
    assert sd.estimator.RunConfig(save_checkpoints_secs=5).save_checkpoints_steps is None
    assert sd.estimator.RunConfig(save_checkpoints_steps=None).save_checkpoints_secs is None  # as in TensorFlow


def test_a_copy_keeps_its_task_when_the_environment_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    found = sd.estimator.RunConfig("a")
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}, "model_dir": "b"}))
    assert found.replace(save_summary_steps=7).task_type == "worker" and found.replace(model_dir="c").cluster_spec.as_dict() == {}
    assert sd.estimator.RunConfig().num_worker_replicas == 2


def test_options_cannot_be_assigned_nor_the_directory_emptied() -> None:
    found = sd.estimator.RunConfig("a")
    with pytest.raises(AttributeError):
        found.model_dir = "b"  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="model_dir is empty"):
        found.replace(model_dir="")
    with pytest.raises(InvalidArgumentError, match="Did you mean 'model_dir'"):
        found.replace(modeldir="b")


@pytest.mark.parametrize("chief", ["chief", "worker"])
def test_with_a_strategy_worker_0_may_be_the_chief(monkeypatch: pytest.MonkeyPatch, chief: str) -> None:
    cluster = {chief: ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    found = sd.estimator.RunConfig(train_distribute=sd.MultiWorkerMirroredStrategy)
    assert found.is_chief is (chief == "worker")
    assert found.num_worker_replicas == (2 if chief == "worker" else 3)


def test_masters_of_sessions_are_as_tf_config_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"session_master": "a", "eval_session_master": "b"}))
    found = sd.estimator.RunConfig()
    assert (found.master, found.evaluation_master) == ("a", "b")
    alone = {"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}, "eval_session_master": 3}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    assert sd.estimator.RunConfig().master == ""  # it has no peer
    alone["task"] = {"type": "evaluator", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    with pytest.raises(InvalidArgumentError, match="eval_session_master"):
        sd.estimator.RunConfig()
