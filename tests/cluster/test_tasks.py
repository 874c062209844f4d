"""Names of tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdist.cluster import ClusterSpec, TaskId, find_task, server_task, tasks_of
from simdist.errors import InvalidArgumentError, NotFoundError


@given(st.sampled_from(["chief", "worker", "ps", "w_1"]), st.integers(0, 10**6))
def test_parse_undoes_str(job: str, index: int) -> None:
    assert TaskId.parse(str(TaskId(job, index))) == TaskId(job, index)


def test_job_of_one_task_needs_no_index() -> None:
    assert [TaskId.parse(name) for name in ("chief", "evaluator")] == [TaskId("chief", 0), TaskId("evaluator", 0)]


@pytest.mark.parametrize("name", ["", "worker", "worker:", ":1", "worker:-1", "worker:x", "worker:1:2", "worker: 1"])
def test_parse_refuses_what_is_no_task(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="job:index"):
        TaskId.parse(name)


def test_parse_refuses_what_is_no_text() -> None:
    name: Any = 1
    with pytest.raises(TypeError, match="worker:1"):
        TaskId.parse(name)


def test_tasks_sort_by_number_not_by_text() -> None:
    tasks = [TaskId("worker", 10), TaskId("worker", 9), TaskId("ps", 3)]
    assert list(map(str, sorted(tasks))) == ["ps:3", "worker:9", "worker:10"]


def test_tasks_of_follows_the_spec() -> None:
    spec = ClusterSpec({"worker": 2, "ps": {3: "p:1"}})
    assert list(map(str, tasks_of(spec))) == ["worker:0", "worker:1", "ps:3"]


def test_find_task_gives_the_task() -> None:
    assert find_task({"worker": 2}, "worker:1") == find_task({"worker": 2}, TaskId("worker", 1)) == TaskId("worker", 1)


def test_find_task_unknown_suggests_the_nearest() -> None:
    with pytest.raises(NotFoundError, match=r"'worker:2'.*Did you mean 'worker:[01]'"):
        find_task({"worker": 2}, "worker:2")


def test_find_task_badly_written_lists_the_tasks() -> None:
    with pytest.raises(InvalidArgumentError, match="Known: 'worker:0', 'worker:1'"):
        find_task({"worker": 2}, "worker")


def test_find_task_knows_tasks_beside_the_spec() -> None:
    chief = TaskId("chief", 0)
    assert find_task({"worker": 2}, "chief", also=[chief]) == chief
    with pytest.raises(NotFoundError):
        find_task({"worker": 2}, "chief")


def test_server_task_takes_the_only_task() -> None:
    assert server_task({"ps": {4: "p:1"}}) == TaskId("ps", 4)
