"""TF_CONFIG: what is read from it, and what every way of getting it wrong says."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from simdist.cluster import MalformedJSONError, TFConfigClusterResolver, read_tf_config
from simdist.errors import InvalidArgumentError

CLUSTER = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
SetConfig = Callable[[Any], None]


@pytest.fixture
def set_config(monkeypatch: pytest.MonkeyPatch) -> SetConfig:
    def set_to(value: Any) -> None:
        monkeypatch.setenv("TF_CONFIG", value if isinstance(value, str) else json.dumps(value))

    return set_to


def test_all_keys_are_read(set_config: SetConfig) -> None:
    task = {"type": "worker", "index": 1}
    set_config({"cluster": CLUSTER, "task": task, "rpc_layer": "grpc", "environment": "google", "session_master": "s"})
    config = read_tf_config()
    assert (config.task_type, config.task_id, config.cluster.as_dict()) == ("worker", 1, CLUSTER)
    assert (config.rpc_layer, config.environment, config.session_master) == ("grpc", "google", "s")


@pytest.mark.parametrize("text", ["", "  ", "{}", "null-free", None])
def test_missing_or_empty_variable_means_alone(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text == "null-free":
        text = '{"cluster": null, "task": null}'
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    config = read_tf_config()
    assert (bool(config.cluster), config.task_type, config.task_id) == (False, None, None)


def test_index_may_be_text(set_config: SetConfig) -> None:
    set_config({"cluster": CLUSTER, "task": {"type": "worker", "index": "1"}})
    assert read_tf_config().task_id == 1


def test_evaluator_may_be_missing_in_the_cluster(set_config: SetConfig) -> None:
    set_config({"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}})
    resolver = TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("evaluator", 0, "")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("[1, 2]", r"\[1, 2\]"),
        ('"worker"', "worker"),
        ({"cluster": ["a:1"]}, "a:1"),
        ({"cluster": {"worker": "a:1"}}, "job 'worker'"),
        ({"cluster": {"worker": {"x": "a:1"}}}, "'x'"),
        ({"cluster": CLUSTER, "task": "worker:1"}, "worker:1"),
        ({"cluster": CLUSTER, "task": {"type": 3, "index": 0}}, "found 3"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": "x"}}, "found 'x'"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": -1}}, "found -1"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": True}}, "found True"),
        ({"cluster": CLUSTER, "task": {"type": "wroker", "index": 0}}, "Did you mean 'worker'"),
        ({"cluster": CLUSTER, "task": {"type": "worker", "index": 2}}, r"index 2 .*\[0, 1\]"),
        ({"cluster": CLUSTER, "rpc_layer": 5}, "'rpc_layer'"),
    ],
)
def test_unusable_value_names_the_variable_what_was_found_and_a_right_value(set_config: SetConfig, value: Any, found: str) -> None:
    set_config(value)
    with pytest.raises(InvalidArgumentError, match=rf'(?s)TF_CONFIG.*{found}.*right value is: {{"cluster"') as caught:
        TFConfigClusterResolver().cluster_spec()
    assert isinstance(caught.value, ValueError)


def test_bad_json_can_be_caught_in_every_way(set_config: SetConfig) -> None:
    set_config("{'cluster': {}}")
    with pytest.raises(MalformedJSONError, match=r"TF_CONFIG is not JSON.*double quotes.*right value") as caught:
        read_tf_config()
    for kind in (ValueError, json.JSONDecodeError, InvalidArgumentError):
        assert isinstance(caught.value, kind)
    assert (caught.value.pos, caught.value.doc) == (1, "{'cluster': {}}")


def test_error_of_bad_json_survives_pickling(set_config: SetConfig) -> None:
    set_config("{")
    with pytest.raises(MalformedJSONError) as caught:
        read_tf_config()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_long_value_is_cut_in_the_message(set_config: SetConfig) -> None:
    set_config("[" + "1," * 5_000 + "1]")
    with pytest.raises(InvalidArgumentError) as caught:
        read_tf_config()
    assert len(str(caught.value)) < 500


def test_reading_does_not_change_the_variable(set_config: SetConfig) -> None:
    set_config({"cluster": CLUSTER})
    before = os.environ["TF_CONFIG"]
    read_tf_config()
    assert os.environ["TF_CONFIG"] == before


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": ' + "9" * 5_001 + "}}", "thousands of digits"),
        ('{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": "' + "9" * 5_001 + '"}}', "'index' must be a whole number"),
        ('{"cluster": {"worker": {"' + "9" * 5_001 + '": "a:1"}}}', "must be a whole number"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"task": ' + "[" * 900 + "]" * 900 + "}", "'task' must be an object"),
        ('{"cluster": {"worker": ["a:1"], "worker": ["b:1"]}}', "'worker' stands twice"),
        ('{"cluster": {}, "cluster": {"worker": ["b:1"]}}', "'cluster' stands twice"),
    ],
    ids=["digits", "digits as text", "digits of a key", "deep", "deep inside", "job twice", "key twice"],
)
def test_hostile_value_is_refused_with_a_right_one(text: str, found: str, set_config: SetConfig) -> None:
    set_config(text)
    with pytest.raises(InvalidArgumentError, match=f"{found}.*A right value is"):
        read_tf_config()
