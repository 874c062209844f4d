"""Inputs made by a function: when it is called, what it is told, and how its elements reach the replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import FunctionInput, InputContext, InputOptions, InputReplicationMode

PER_REPLICA = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)


class Function:
    """A dataset function that notes its contexts."""

    def __init__(self, make: Any) -> None:
        self.make, self.seen = make, []

    def __call__(self, context: InputContext) -> Dataset:
        self.seen.append(context)
        return self.make(context)


def rows(given: Any) -> list[Any]:
    return [[[part.value().tolist() for part in own] for own in step.parts] for step in given]


def test_function_is_called_once_per_worker_when_its_data_is_needed():
    function = Function(lambda context: Dataset.range(2).batch(1))
    given = FunctionInput(function, 3, 2)
    assert function.seen == []
    assert rows(given) == rows(given)
    assert function.seen == [InputContext(3, worker, 6) for worker in range(3)] == list(given.contexts)


def test_own_view_calls_the_function_for_its_worker_only():
    function = Function(lambda context: Dataset.range(8).shard(context.num_input_pipelines, context.input_pipeline_id).batch(2))
    given = FunctionInput(function, 2)
    assert rows(given.worker_pipeline(1)) == [[[[1, 3]]], [[[5, 7]]]]
    assert function.seen == [InputContext(2, 1, 2)]
    assert rows(given) == [[[[0, 2]], [[1, 3]]], [[[4, 6]], [[5, 7]]]]


def test_sizes_of_the_step_are_known_where_all_workers_are_seen():
    given = FunctionInput(lambda context: Dataset.range(4 + context.input_pipeline_id).batch(4), 2)
    assert [(step.sizes, step.num_rows) for step in given] == [(((4,), (4,)), 8), (((0,), (1,)), 1)]
    assert [step.sizes for step in given.worker_pipeline(1)] == [None, None]


def test_steps_that_lack_a_part_of_fixed_size_are_left_out():
    assert rows(FunctionInput(lambda context: Dataset.range(7).batch(2, drop_remainder=True), 1, 2)) == [[[[0, 1], [2, 3]]]]
    assert rows(FunctionInput(lambda context: Dataset.range(5), 1, 2)) == [[[0, 1]], [[2, 3]]]


def test_position_is_saved_and_restored_for_every_pipeline():
    def given() -> FunctionInput:
        return FunctionInput(lambda context: Dataset.range(11).shuffle(11, seed=context.input_pipeline_id).batch(2), 2, 2, PER_REPLICA)

    first = given()
    rows(first)
    iterator = iter(first)
    next(iterator)
    iterator.peek(2)
    state, rest, epoch = iterator.state_dict(), rows(iterator), rows(first)
    again = given()
    restored = iter(again)
    restored.load_state_dict(state)
    assert rows(restored) == rest and len(rest) == 5
    assert rows(again) == epoch
    with pytest.raises(InvalidArgumentError, match="4 source"):
        iter(given()).load_state_dict({"sources": state["sources"][:2]})


def test_spec_is_that_of_an_element():
    assert FunctionInput(lambda context: Dataset.range(8).batch(4, drop_remainder=True), 1, 2).element_spec.shape == (4,)
    assert FunctionInput(lambda context: Dataset.range(8).batch(4, drop_remainder=True), 2, 2).element_spec.shape == (None,)


def test_function_that_returns_no_dataset_is_refused_when_its_data_is_needed():
    given = FunctionInput(lambda context: np.ones(3), 1)
    with pytest.raises(TypeError, match="returned ndarray"):
        next(iter(given))
    with pytest.raises(TypeError, match="expected a function"):
        FunctionInput(Dataset.range(3))


@pytest.mark.parametrize("keeps_rows", [True, False])
def test_step_that_lacks_a_part_is_left_out_only_where_maps_keep_the_rows_of_full_batches(keeps_rows: bool):
    def dataset_fn(context: InputContext) -> Dataset:
        dataset = Dataset.range(4 if context.input_pipeline_id else 2).batch(2, drop_remainder=True)
        return dataset.map(lambda rows: rows if keeps_rows else rows[:1])

    assert len(list(FunctionInput(dataset_fn, 1, 2, PER_REPLICA))) == (1 if keeps_rows else 2)
    assert len(list(FunctionInput(dataset_fn, 2, 1))) == 2, "no row of a worker is lost because another worker has ended"
