"""Pipelines that workers read for themselves: who gets which element, and when the steps end."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input.worker_pipelines import WorkerPipelines


def pipelines(*lengths: int, width: int = 1, replicas: int = 1, **how: Any) -> WorkerPipelines:
    """One pipeline for each worker, of numbers in batches of `width`."""
    own = [[iter(Dataset.range(length).batch(width))] for length in lengths]
    return WorkerPipelines(own, replicas, **({"complete": True, "full_steps": lambda: False} | how))


def steps(given: WorkerPipelines) -> list[list[list[list[int]]]]:
    return [[[part.value().tolist() for part in worker] for worker in step.parts] for step in given]


def test_replicas_of_a_worker_take_the_elements_of_its_pipeline_in_turn():
    assert steps(pipelines(4, replicas=2)) == [[[[0], [1]]], [[[2], [3]]]]


def test_each_replica_takes_from_a_pipeline_of_its_own_where_it_has_one():
    own = [iter(Dataset.range(at, at + 2).batch(1)) for at in (0, 10)]
    assert steps(WorkerPipelines([own], 2, complete=True, full_steps=lambda: False)) == [[[[0], [10]]], [[[1], [11]]]]


def test_three_replicas_share_two_pipelines_without_losing_an_element():
    own = [iter(Dataset.range(4).batch(1)), iter(Dataset.range(10, 12).batch(1))]
    assert steps(WorkerPipelines([own], 3, complete=True, full_steps=lambda: False)) == [[[[0], [10], [1]]], [[[2], [11], [3]]]]


def test_workers_that_have_ended_get_parts_without_rows_until_all_have():
    assert steps(pipelines(1, 2)) == [[[[0]], [[0]]], [[[]], [[1]]]]


def test_step_that_lacks_a_part_ends_the_pass_of_one_worker_where_all_parts_have_one_size():
    own = [iter(Dataset.range(length).batch(1)) for length in (1, 2)]
    assert steps(WorkerPipelines([own], 2, complete=True, full_steps=lambda: True)) == [[[[0], [0]]]]
    assert steps(pipelines(1, 2, full_steps=lambda: True)) == [[[[0]], [[0]]], [[[]], [[1]]]]


def test_elements_that_are_not_batched_cannot_be_left_without_rows():
    own = [[iter(Dataset.range(3))]]
    assert [step.num_rows for step in WorkerPipelines(own, 2, complete=True, full_steps=lambda: False)] == [2]


def test_step_without_rows_for_anybody_is_left_out_unless_others_are_not_seen():
    def given(complete: bool) -> WorkerPipelines:
        source = Dataset.from_iterable([[0], [1, 2], [3]]).map(lambda x: x[x != 0])
        return WorkerPipelines([[iter(source)]], 1, complete=complete, full_steps=lambda: False)

    assert steps(given(complete=True)) == [[[[1, 2]]], [[[3]]]]
    assert steps(given(complete=False)) == [[[[]]], [[[1, 2]]], [[[3]]]]
    assert [step.sizes for step in given(complete=False)] == [None] * 3


def test_position_has_every_pipeline_worker_after_worker():
    given = pipelines(6, 9, width=3, replicas=2)
    given.next_step()
    assert [source["consumed"] for source in given.state_dict()["sources"]] == [2, 2]
    again = pipelines(6, 9, width=3, replicas=2)
    again.load_state_dict(given.state_dict())
    assert steps(again) == steps(given) == [[[[], []], [[6, 7, 8], []]]]


def test_a_position_is_good_for_as_many_workers_only() -> None:
    position = WorkerPipelines([[iter(Dataset.range(4).batch(1))]], 1, complete=False, full_steps=lambda: False, num_workers=3).state_dict()
    other = WorkerPipelines([[iter(Dataset.range(4).batch(1))]], 1, complete=False, full_steps=lambda: False, num_workers=2)
    with pytest.raises(InvalidArgumentError, match=r"of 3 workers.*has 2"):
        other.load_state_dict(position)
