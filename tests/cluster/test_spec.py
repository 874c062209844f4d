"""ClusterSpec: what it accepts, what it answers, what it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.cluster import ClusterSpec
from simdist.cluster.spec import require_different_addresses
from simdist.errors import InvalidArgumentError


def test_counts_give_distinct_addresses_that_are_always_the_same() -> None:
    spec = ClusterSpec({"worker": 3, "ps": 2})
    addresses = [address for job in spec.jobs for address in spec.job_tasks(job)]
    assert len(set(addresses)) == 5
    assert addresses[0] == "worker-0.simdist:2222"
    assert ClusterSpec({"worker": 3, "ps": 2}) == spec


def test_count_of_zero_makes_a_job_without_tasks() -> None:
    spec = ClusterSpec({"worker": 0})
    assert (spec.jobs, spec.num_tasks("worker"), spec.as_dict()) == (["worker"], 0, {"worker": {}})


def test_count_may_be_a_numpy_integer() -> None:
    assert ClusterSpec({"worker": np.int64(2)}).num_tasks("worker") == 2  # pyright: ignore


def test_indices_may_be_text_as_in_json() -> None:
    assert ClusterSpec({"ps": {"1": "b:1", "0": "a:1"}}).job_tasks("ps") == ["a:1", "b:1"]  # pyright: ignore


@pytest.mark.parametrize(
    ("cluster", "error"),
    [
        (None, TypeError),
        (["a:1"], TypeError),
        ({1: ["a:1"]}, TypeError),
        ({"worker": "a:1"}, TypeError),
        ({"worker": None}, TypeError),
        ({"worker": True}, TypeError),
        ({"worker": 2.0}, TypeError),
        ({"worker": {0: 5}}, TypeError),
        ({"worker": -1}, InvalidArgumentError),
        ({"worker": {-1: "a:1"}}, InvalidArgumentError),
        ({"worker": {True: "a:1"}}, InvalidArgumentError),
        ({"worker": {0: "a:1", "0": "b:1"}}, InvalidArgumentError),
        ({"": ["a:1"]}, InvalidArgumentError),
        ({"worker:0": ["a:1"]}, InvalidArgumentError),
    ],
)
def test_unusable_cluster_raises(cluster: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ClusterSpec(cluster)


def test_unknown_job_suggests_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match="Did you mean 'worker'"):
        ClusterSpec({"worker": 1, "ps": 1}).num_tasks("wroker")


def test_error_of_tasks_names_the_job_and_shows_a_right_value() -> None:
    with pytest.raises(TypeError, match=r"job 'worker'.*\{\"worker\": 3"):
        ClusterSpec({"worker": 1.5})  # pyright: ignore


def test_spec_does_not_change_with_what_it_was_made_from_or_gave_away() -> None:
    tasks = ["a:1"]
    spec = ClusterSpec({"worker": tasks})
    tasks.append("b:1")
    spec.as_dict()["worker"] = []
    spec.job_tasks("worker").clear()
    assert spec.as_dict() == {"worker": ["a:1"]}


def test_equality_ignores_the_order_of_jobs_but_not_addresses() -> None:
    assert ClusterSpec({"a": 1, "b": 1}) == ClusterSpec({"b": 1, "a": 1})
    assert hash(ClusterSpec({"a": 1, "b": 1})) == hash(ClusterSpec({"b": 1, "a": 1}))
    assert ClusterSpec({"a": ["x:1"]}) != ClusterSpec({"a": ["y:1"]})
    assert ClusterSpec({"a": 1}) != {"a": 1}


def test_spec_survives_pickling() -> None:
    spec = ClusterSpec({"worker": 2, "ps": {1: "p:1"}})
    assert pickle.loads(pickle.dumps(spec)) == spec


jobs = st.dictionaries(st.sampled_from(["chief", "worker", "ps"]), st.dictionaries(st.integers(0, 9), st.text()))


@given(jobs)
def test_as_dict_describes_the_same_cluster(cluster: dict[str, dict[int, str]]) -> None:
    spec = ClusterSpec(cluster)
    assert ClusterSpec(spec.as_dict()) == spec == ClusterSpec(spec)  # pyright: ignore


@pytest.mark.parametrize("jobs", [{"worker": 10**9}, {"worker": np.int64(10**12), "ps": 1}, {"worker": 600_000, "ps": 600_000}])
def test_more_tasks_than_memory_holds_are_refused_before_one_is_made(jobs: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="has more than 1,000,000 tasks"):
        ClusterSpec(jobs)


def test_a_hundred_thousand_workers_are_possible() -> None:
    assert ClusterSpec({"worker": 100_000, "ps": 10}).num_tasks("worker") == 100_000


def test_a_list_of_tasks_that_would_fill_the_memory_is_refused_and_the_rest_stays_sparse() -> None:
    spec = ClusterSpec({"worker": {0: "a:1", 10**9: "b:1"}})
    with pytest.raises(InvalidArgumentError, match=r"1,000,000,001 addresses, nearly all None.*task_indices\('worker'\)"):
        spec.job_tasks("worker")
    assert spec.task_indices("worker") == [0, 10**9]
    assert spec.as_dict() == {"worker": {0: "a:1", 10**9: "b:1"}}
    assert len(ClusterSpec({"worker": {999_999: "a:1"}}).job_tasks("worker")) == 1_000_000


def test_two_tasks_with_one_address_make_no_cluster() -> None:
    spec = ClusterSpec({"worker": ["a:1", "b:1"], "ps": ["a:1"]})
    with pytest.raises(InvalidArgumentError, match=r"worker:0 and ps:0 have the same address, 'a:1'. Give each task"):
        require_different_addresses(spec)
    require_different_addresses(ClusterSpec({"worker": ["", "", "a:1", "a:2"]}))  # what has no address is not in the way of another
