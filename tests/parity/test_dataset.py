"""Cases of tf.data and tf.distribute's input: rebatching, sharding, contexts, dataset creators."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input import DatasetCreator, InputContext, InputOptions, InputReplicationMode, replica_batch_sizes, worker_batch_sizes


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def parts(dataset: Dataset, num_replicas: int) -> list[list[list[int]]]:
    iterator, steps = iter(dataset), []
    while True:
        try:
            batch = iterator.next_batch()
        except StopIteration:
            return steps
        split = batch.split(replica_batch_sizes(batch.num_rows, num_replicas))
        steps.append([part.value().tolist() for part in split])


def test_b105_batch_is_split_in_half_between_two_replicas():
    assert parts(Dataset.range(8).batch(4), 2) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


@pytest.mark.parametrize(
    ("rows", "batch_size", "replicas", "expected"),
    [
        (5, 5, 2, [[3, 2]]),
        (5, 5, 3, [[2, 2, 1]]),
        (14, 8, 3, [[3, 3, 2], [2, 2, 2]]),
        (1, 1, 2, [[1, 0]]),
    ],
)
def test_b107_static_batches_are_shared_as_equally_as_can_be(rows: int, batch_size: int, replicas: int, expected: Any):
    split = parts(Dataset.range(rows).batch(batch_size), replicas)
    assert [[len(part) for part in step] for step in split] == expected
    assert [row for step in split for part in step for row in part] == list(range(rows))


@pytest.mark.parametrize(
    ("batch_size", "replicas", "expected"),
    [(4, 3, (2, 2, 0)), (9, 4, (3, 3, 3, 0)), (10, 4, (3, 3, 3, 1)), (5, 4, (2, 2, 1, 0))],
)
def test_b108_batches_of_unknown_size_are_shared_rounding_up(batch_size: int, replicas: int, expected: Any):
    assert replica_batch_sizes(batch_size, replicas, static=False) == expected


def test_b109_repeat_after_batch_keeps_partial_batches_and_before_it_merges_them():
    rows = Dataset.range(5)
    assert plain(rows.batch(4).repeat(2)) == [[0, 1, 2, 3], [4], [0, 1, 2, 3], [4]]
    assert plain(rows.repeat(2).batch(4)) == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]


def test_b109_map_and_filter_work_after_batch():
    batches = Dataset.range(5).batch(2)
    assert plain(batches.map(lambda b: b * 10)) == [[0, 10], [20, 30], [40]]
    assert plain(batches.filter(lambda b: len(b) == 2)) == [[0, 1], [2, 3]]


def test_b109_unbatched_scalars_cannot_be_split():
    with pytest.raises(InvalidArgumentError, match="batched dataset"):
        iter(Dataset.range(4)).next_batch().split([1, 0])


@pytest.mark.parametrize(
    ("global_size", "workers", "per_worker", "expected"),
    [
        (5, 1, 3, [(2, 2, 1)]),
        (4, 3, 1, [(2, 1, 1), (1, 1, 2), (1, 2, 1)]),
        (1, 2, 1, [(1, 0), (0, 1)]),
        (10, 4, 1, [(3, 3, 2, 2), (3, 2, 2, 3), (2, 2, 3, 3), (2, 3, 3, 2)]),
    ],
)
def test_b111_workers_run_through_the_sizes_each_from_its_own_place(global_size: int, workers: int, per_worker: int, expected: Any):
    found = [worker_batch_sizes(global_size, workers, per_worker, worker) for worker in range(workers)]
    assert found == expected
    assert {sum(sizes) for sizes in found} == {global_size}


def test_b112_static_batch_size_is_known_until_a_map():
    rows = Dataset.range(12)
    assert rows.batch(4).static_batch_size == 4
    assert rows.batch(4).map(lambda b: b).static_batch_size is None
    assert rows.batch(2).batch(3).static_batch_size == 3


def test_b117_first_axis_is_static_only_with_drop_remainder():
    assert Dataset.range(8).batch(4).element_spec.shape == (None,)
    assert Dataset.range(8).batch(4, drop_remainder=True).element_spec.shape == (4,)


def test_b119_shard_takes_every_third():
    assert plain(Dataset.range(7).shard(3, 1)) == [1, 4]


@pytest.mark.parametrize("index", [3, 4, -1])
def test_b119_shard_index_out_of_range_is_refused(index: int):
    with pytest.raises(InvalidArgumentError, match="index"):
        Dataset.range(7).shard(3, index)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(2, [[0, 2, 4, 6], [1, 3, 5]]), (3, [[0, 3, 6], [1, 4], [2, 5]])],
)
def test_b124_unbatched_elements_are_shared_by_position(workers: int, expected: Any):
    assert [plain(Dataset.range(7).shard(workers, worker)) for worker in range(workers)] == expected


def test_b199_creator_of_something_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function"):
        DatasetCreator(Dataset.range(3))  # pyright: ignore[reportArgumentType]


def test_b199_creator_with_other_options_is_refused():
    with pytest.raises(TypeError, match="InputOptions"):
        DatasetCreator(lambda context: Dataset.range(3), {"a": 1})  # pyright: ignore[reportArgumentType]


def test_b199_creator_whose_function_returns_no_dataset_is_refused_when_called():
    creator = DatasetCreator(lambda context: [1, 2])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="returned list"):
        creator(InputContext())


def test_b199_creator_passes_the_context_on():
    creator = DatasetCreator(lambda c: Dataset.range(6).shard(c.num_input_pipelines, c.input_pipeline_id), InputOptions())
    assert plain(creator(InputContext(2, 1, 2))) == [1, 3, 5]


def test_input_context_divides_the_global_batch():
    context = InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=4)
    assert context.get_per_replica_batch_size(64) == 16
    with pytest.raises(ValueError, match="multiple of 4"):
        context.get_per_replica_batch_size(66)


def test_input_context_is_alone_by_default_and_read_only():
    context = InputContext()
    assert (context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync) == (1, 0, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.num_input_pipelines = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InvalidArgumentError, match="input_pipeline_id"):
        InputContext(2, 2)


def test_b115_placing_on_the_device_needs_a_pipeline_per_replica():
    with pytest.raises(ValueError, match="PER_REPLICA"):
        InputOptions(experimental_place_dataset_on_device=True)
    options = InputOptions(experimental_place_dataset_on_device=True, experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    assert options.experimental_per_replica_buffer_size == 1
