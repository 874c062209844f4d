"""Resolvers beyond the conformance cases: setting an identity, incomplete names, subclasses."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.cluster import ClusterResolver, ClusterSpec, SimpleClusterResolver, UnionResolver, spec_of
from simdist.errors import InvalidArgumentError

SPEC = ClusterSpec({"worker": ["a:1", "b:1"], "ps": ["p:1"]})


class OtherResolver(ClusterResolver):
    def cluster_spec(self) -> ClusterSpec:
        return SPEC


def test_identity_can_be_set_later_and_moves_the_address() -> None:
    resolver = SimpleClusterResolver(SPEC)
    assert (resolver.task_type, resolver.task_id, resolver.master()) == (None, None, "")
    resolver.task_type, resolver.task_id = "ps", 0
    assert resolver.master() == "p:1"


def test_empty_task_type_is_no_task_type() -> None:
    assert SimpleClusterResolver(SPEC, task_type="", task_id=None).task_type is None


def test_given_master_wins_over_own_address_but_not_over_a_named_task() -> None:
    resolver = SimpleClusterResolver(SPEC, "worker", 0, master="m:1", rpc_layer="grpc")
    assert (resolver.master(), resolver.master("ps", 0)) == ("grpc://m:1", "grpc://p:1")


def test_scheme_can_be_taken_away() -> None:
    assert SimpleClusterResolver(SPEC, "worker", 0, rpc_layer="grpc").master(rpc_layer="") == "a:1"


def test_half_a_name_of_a_task_raises() -> None:
    with pytest.raises(InvalidArgumentError, match="both task_type and task_id"):
        SimpleClusterResolver(SPEC).master("worker")


def test_evaluator_beside_the_cluster_has_no_address() -> None:
    assert SimpleClusterResolver(SPEC, "evaluator", 0).master() == ""


def test_accelerators_are_a_copy() -> None:
    resolver = SimpleClusterResolver(SPEC, num_accelerators={"GPU": 2})
    dict(resolver.num_accelerators()).clear()
    assert resolver.num_accelerators("worker", 0) == {"GPU": 2}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"task_type": 1}, TypeError),
        ({"task_id": "0"}, TypeError),
        ({"task_id": True}, TypeError),
        ({"master": 5}, TypeError),
        ({"task_id": -1}, InvalidArgumentError),
        ({"task_type": "worker:1"}, InvalidArgumentError),
    ],
)
def test_unusable_argument_raises(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        SimpleClusterResolver(SPEC, **arguments)


def test_setting_an_unusable_identity_raises() -> None:
    resolver = OtherResolver()
    with pytest.raises(InvalidArgumentError):
        resolver.task_id = -1


def test_subclass_needs_no_constructor() -> None:
    resolver = OtherResolver()
    assert (resolver.task_type, resolver.rpc_layer, resolver.environment, resolver.master()) == (None, None, "", "")
    assert resolver.num_accelerators() == {}


def test_repr_reads_nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    from simdist.cluster import TFConfigClusterResolver

    monkeypatch.setenv("TF_CONFIG", "{ not json")
    assert repr(TFConfigClusterResolver(task_id=1)) == "TFConfigClusterResolver(task_type=None, task_id=1)"


def test_union_answers_with_the_own_address_in_the_merged_cluster() -> None:
    union = UnionResolver(SimpleClusterResolver(ClusterSpec({"worker": ["z:1"]})), OtherResolver())
    union.task_type, union.task_id, union.rpc_layer = "worker", 2, "grpc"
    assert union.master() == "grpc://b:1"


def test_union_without_identity_asks_the_first() -> None:
    assert UnionResolver(SimpleClusterResolver(SPEC, master="m:1"), OtherResolver()).master() == "m:1"


def test_union_keeps_the_indices_of_sparse_jobs() -> None:
    first = SimpleClusterResolver(ClusterSpec({"ps": {1: "b:1"}}))
    second = SimpleClusterResolver(ClusterSpec({"ps": ["a:1"]}))
    assert UnionResolver(first, second).cluster_spec().as_dict() == {"ps": ["a:1", "b:1"]}


@pytest.mark.parametrize("given", [{"worker": 2}, None])
def test_a_resolver_that_gives_no_spec_is_named(given: Any) -> None:
    class Wrong(ClusterResolver):
        def cluster_spec(self) -> Any:
            return given

    with pytest.raises(TypeError, match=r"Wrong\.cluster_spec\(\) gave .*; expected a ClusterSpec"):
        spec_of(Wrong())
