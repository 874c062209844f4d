"""Conformance cases B001 to B021: specs, resolvers, TF_CONFIG, roles.

B003, B020 and B021 speak of servers and of programs that run, too: test_roles.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from simdist.cluster import (
    ClusterSpec,
    SimpleClusterResolver,
    TaskId,
    TFConfigClusterResolver,
    UnionResolver,
    collective_leader,
    coordination_leader,
    id_in_cluster,
    is_chief,
    server_task,
    worker_count,
)

SPEC = ClusterSpec({"worker": ["a:1", "b:2"], "ps": ["p0:3", "p1:4"]})
CHIEF = {"chief": ["c:1"], "worker": ["a:1", "b:2"], "ps": ["p:3"]}
PLAIN = {"worker": ["a:1", "b:2"], "ps": ["p:3"]}
SetConfig = Callable[[Any], None]


@pytest.fixture
def set_config(monkeypatch: pytest.MonkeyPatch) -> SetConfig:
    def set_to(value: Any) -> None:
        monkeypatch.setenv("TF_CONFIG", value if isinstance(value, str) else json.dumps(value))

    return set_to


def config(task_type: str = "worker", index: int = 1, **more: Any) -> dict[str, Any]:
    return {"cluster": SPEC.as_dict(), "task": {"type": task_type, "index": index}, **more}


def test_b001_spec_with_a_dense_and_a_sparse_job() -> None:
    spec = ClusterSpec({"worker": ["a:1", "b:2"], "ps": {0: "c:3", 2: "d:4"}})
    assert spec.jobs == ["worker", "ps"]
    assert spec.as_dict() == {"worker": ["a:1", "b:2"], "ps": {0: "c:3", 2: "d:4"}}
    assert (spec.num_tasks("ps"), spec.task_indices("ps")) == (2, [0, 2])
    assert spec.job_tasks("ps") == ["c:3", None, "d:4"]
    assert spec.task_address("ps", 2) == "d:4"
    with pytest.raises(ValueError, match="No task with index"):
        spec.task_address("ps", 1)
    for ask in (spec.num_tasks, spec.task_indices, spec.job_tasks):
        with pytest.raises(ValueError, match="No such job"):
            ask("chief")
    assert not ClusterSpec({})
    assert spec


def test_b002_equal_specs_and_wrong_containers() -> None:
    assert ClusterSpec({"w": ["a"]}) == ClusterSpec({"w": {0: "a"}})
    # {'w': 5} is five tasks here.
    for wrong in (5, {"w": [5]}):
        with pytest.raises(TypeError):
            ClusterSpec(wrong)  # pyright: ignore
    with pytest.raises(ValueError, match="'x'"):
        ClusterSpec({"w": {"x": "a"}})  # pyright: ignore


def test_b003_server_needs_to_know_its_task() -> None:
    with pytest.raises(ValueError, match="job_name"):
        server_task(SPEC)
    with pytest.raises(ValueError, match="task_index"):
        server_task({"worker": ["a:1", "b:2"]})
    with pytest.raises(ValueError, match="chief"):
        server_task(SPEC, "chief", 0)
    with pytest.raises(ValueError, match="No task with index 2"):
        server_task(SPEC, "worker", 2)
    assert server_task({"localhost": ["localhost:2222"]}) == TaskId("localhost", 0)


def test_b004_simple_resolver() -> None:
    resolver = SimpleClusterResolver(SPEC, task_type="worker", task_id=1, rpc_layer="grpc")
    assert resolver.master("worker", 0) == "grpc://a:1"
    assert resolver.master("worker", 0, "http") == "http://a:1"
    assert (resolver.num_accelerators(), resolver.environment) == ({}, "")
    with pytest.raises(TypeError, match="ClusterSpec"):
        SimpleClusterResolver({"worker": ["a:1"]})  # pyright: ignore


def test_b005_master_without_arguments_is_the_own_address() -> None:
    assert SimpleClusterResolver(SPEC, task_type="worker", task_id=1, rpc_layer="grpc").master() == "grpc://b:2"
    assert SimpleClusterResolver(SPEC, rpc_layer="grpc").master() == ""


def test_b007_constructor_wins_over_the_environment(set_config: SetConfig) -> None:
    set_config(config(rpc_layer="grpc"))
    assert TFConfigClusterResolver(task_type="ps", task_id=0, rpc_layer="http").master() == "http://p0:3"
    assert TFConfigClusterResolver().master() == "grpc://b:2"
    set_config(config(rpc_layer="grpc", session_master="s:9"))
    resolver = TFConfigClusterResolver(task_type="ps", task_id=0, rpc_layer="http")
    assert [resolver.master(), resolver.master("worker", 0)] == ["s:9", "s:9"]


def test_b008_environment_is_read_at_every_access(set_config: SetConfig) -> None:
    set_config(config(index=0))
    resolver = TFConfigClusterResolver()
    assert resolver.task_id == 0
    set_config(config("ps", 1))
    assert (resolver.task_type, resolver.task_id, resolver.master()) == ("ps", 1, "p1:4")


@pytest.mark.parametrize("text", [None, "{}"])
def test_b009_no_config_means_alone(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    resolver = TFConfigClusterResolver()
    assert (resolver.task_type, resolver.task_id, resolver.master()) == (None, None, "")
    assert resolver.cluster_spec().as_dict() == {}


def test_b009_one_task_is_local(set_config: SetConfig) -> None:
    set_config({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}})
    assert TFConfigClusterResolver().master() == ""


def test_b009_bad_json_raises_when_read(set_config: SetConfig) -> None:
    set_config("{not json")
    resolver = TFConfigClusterResolver()
    for read in (resolver.cluster_spec, resolver.master, lambda: resolver.task_type):
        with pytest.raises(json.JSONDecodeError, match="TF_CONFIG"):
            read()


def test_b010_master_of_a_task_that_does_not_exist(set_config: SetConfig) -> None:
    set_config(config())
    resolver = TFConfigClusterResolver()
    with pytest.raises(ValueError, match="No task with index 5"):
        resolver.master("worker", 5)
    with pytest.raises(ValueError, match=r"No such job.*'foo'"):
        resolver.master("foo", 0)


def simple(cluster: dict[str, Any], task_type: str = "", task_id: int | None = None) -> SimpleClusterResolver:
    return SimpleClusterResolver(ClusterSpec(cluster), task_type, task_id)


def test_b011_union_appends_in_the_order_of_the_resolvers() -> None:
    union = UnionResolver(simple({"worker": ["a", "b"]}, "worker", 1), simple({"worker": ["c"], "ps": ["p"]}, "ps", 0))
    assert union.cluster_spec().as_dict() == {"worker": ["a", "b", "c"], "ps": ["p"]}
    assert (union.task_type, union.task_id) == ("worker", 1)


def test_b011_union_refuses_what_it_cannot_unite() -> None:
    with pytest.raises(ValueError, match="at least one"):
        UnionResolver()
    with pytest.raises(ValueError, match="'tpu'"):
        UnionResolver(simple({"worker": ["a"]}), tpu="x")
    with pytest.raises(TypeError, match="ClusterResolver"):
        UnionResolver(SPEC)  # pyright: ignore
    union = UnionResolver(simple({"ps": {1: "a"}}), simple({"ps": {1: "b", 3: "c"}}))
    with pytest.raises(KeyError, match="ps:1") as caught:
        union.cluster_spec()
    assert str(caught.value).startswith("two resolvers")


def test_b012_task_id_zero_is_given() -> None:
    union = UnionResolver(simple({"worker": ["a", "b"]}, "worker", 1), task_id=0)
    assert (union.task_id, union.master()) == (0, "a")


def test_b016_rules_of_roles() -> None:
    for task_type in (None, "chief", "worker", "ps", "evaluator"):
        is_chief(CHIEF, task_type, 0)
    with pytest.raises(ValueError, match="unknown task_type 'master'"):
        is_chief(CHIEF, "master", 0)
    with pytest.raises(ValueError, match="at most one 'chief' job"):
        is_chief({"chief": ["a:1", "b:1"]}, "chief", 0)
    with pytest.raises(ValueError, match="exceeds the maximum id"):
        is_chief({"worker": ["a:1"]}, "worker", 1)
    with pytest.raises(ValueError, match="not in the cluster"):
        is_chief({"worker": ["a:1"]}, "ps", 0)
    with pytest.raises(ValueError, match="ClusterSpec or a dict"):
        is_chief(["a:1"], "worker", 0)  # pyright: ignore


def test_b017_who_is_chief() -> None:
    assert is_chief(CHIEF, "chief", 0)
    assert not is_chief(CHIEF, "worker", 0)
    assert is_chief(PLAIN, "worker", 0)
    assert not is_chief(PLAIN, "worker", 1)
    assert is_chief(PLAIN, "evaluator", 0)
    assert is_chief({**PLAIN, "evaluator": ["e:1"]}, "evaluator", 0)
    assert not is_chief(PLAIN, "ps", 0)
    assert not is_chief({}, None, None)


def test_b018_ids_and_counts() -> None:
    assert id_in_cluster(CHIEF, "chief", 0) == 0
    assert [id_in_cluster(CHIEF, "worker", index) for index in (0, 1)] == [1, 2]
    assert id_in_cluster(CHIEF, "evaluator", 0) == 0
    assert [worker_count(CHIEF, job) for job in ("chief", "worker")] == [3, 3]
    assert worker_count({**CHIEF, "evaluator": ["e:1"]}, "evaluator") == 1
    assert id_in_cluster(PLAIN, "worker", 1) == 1
    with pytest.raises(ValueError, match="'ps'"):
        id_in_cluster(CHIEF, "ps", 0)
    with pytest.raises(ValueError, match="'ps'"):
        worker_count(CHIEF, "ps")


def test_b019_leaders() -> None:
    assert collective_leader({}, None, None) == ""
    assert collective_leader(PLAIN, "evaluator", 0) == ""
    assert collective_leader(CHIEF, "worker", 1) == "chief:0"
    assert collective_leader(PLAIN, "worker", 1) == "worker:0"
    assert coordination_leader(CHIEF) == "ps:0"
    assert coordination_leader({"chief": ["c:1"], "worker": ["a:1"]}) == "chief:0"
    assert coordination_leader({"worker": ["a:1"]}) == "worker:0"
    assert coordination_leader({}) == ""


def test_b020_in_process_cluster_has_an_address_for_every_task() -> None:
    resolver = SimpleClusterResolver(ClusterSpec({"worker": 3, "ps": 2}), rpc_layer="grpc")
    spec = resolver.cluster_spec()
    ports = {job: {str(address).rpartition(":")[2] for address in spec.job_tasks(job)} for job in spec.jobs}
    assert {job: len(distinct) for job, distinct in ports.items()} == {"worker": 3, "ps": 2}
    assert resolver.rpc_layer == "grpc"


@pytest.mark.parametrize(
    ("task_type", "branch"),
    [("worker", "server"), ("ps", "server"), ("evaluator", "evaluate"), ("chief", "coordinate"), (None, "coordinate")],
)
def test_b021_program_branches_by_role(task_type: str | None, branch: str, set_config: SetConfig) -> None:
    task = {} if task_type is None else {"task": {"type": task_type, "index": 0}}
    set_config({"cluster": CHIEF, **task})
    resolver = TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        taken = "server"
        assert server_task(resolver.cluster_spec(), resolver.task_type, resolver.task_id).job == task_type
    else:
        taken = "evaluate" if resolver.task_type == "evaluator" else "coordinate"
    assert taken == branch
