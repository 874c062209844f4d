"""Roles beyond the conformance cases (those are in tests/parity)."""

from __future__ import annotations

import pytest

from simdist.cluster import ClusterSpec, collective_leader, coordination_leader, id_in_cluster, is_chief, worker_count
from simdist.errors import InvalidArgumentError

CLUSTERS = [{"worker": 3}, {"chief": 1, "worker": 2}, {"chief": 1, "worker": 2, "ps": 2}]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_exactly_one_training_task_is_chief_and_has_id_zero(cluster: dict[str, int]) -> None:
    tasks = [(job, index) for job in ("chief", "worker") for index in range(cluster.get(job, 0))]
    chiefs = [task for task in tasks if is_chief(cluster, *task)]
    assert len(chiefs) == 1
    assert id_in_cluster(cluster, *chiefs[0]) == 0
    assert sorted(id_in_cluster(cluster, *task) for task in tasks) == list(range(worker_count(cluster, "worker")))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_collective_leader_is_the_chief(cluster: dict[str, int]) -> None:
    job, index = collective_leader(cluster, "worker", 1).split(":")
    assert is_chief(cluster, job, int(index))


def test_unknown_task_type_suggests_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'worker'"):
        is_chief({"worker": 1}, "wroker", 0)


def test_two_evaluators_raise() -> None:
    with pytest.raises(InvalidArgumentError, match="at most one 'evaluator'"):
        is_chief({"worker": 1, "evaluator": 2}, "worker", 0)


def test_index_in_a_hole_of_a_sparse_job_raises() -> None:
    with pytest.raises(InvalidArgumentError, match=r"task_id 1 is no id.*\[0, 2\]"):
        is_chief({"worker": {0: "a:1", 2: "c:1"}}, "worker", 1)


def test_id_needs_an_index() -> None:
    with pytest.raises(InvalidArgumentError, match="task_id None"):
        id_in_cluster({"worker": 1}, "worker", None)


def test_leaders_accept_a_spec() -> None:
    spec = ClusterSpec({"worker": 1, "ps": 1})
    assert (collective_leader(spec, "worker", 0), coordination_leader(spec)) == ("worker:0", "ps:0")
