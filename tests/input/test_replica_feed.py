"""Iterators from which several replicas take: the same batches, or parts of them, whoever comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.input import DistributedDataset, InputContext, InputOptions, InputReplicationMode
from simdist.input.replica_feed import CommonIterator, SplitBatches
from simdist.input.worker_input import WorkerLayout, dataset_of_worker


def rows(batch: Any) -> list[int]:
    return batch.leaves()[0].tolist()


def test_all_replicas_take_the_same_batches_in_any_order() -> None:
    source = iter(Dataset.range(8).batch(2))
    common = CommonIterator(source, 2)
    first, second = common.replica(0), common.replica(1)
    assert [rows(first.next_batch()), rows(first.next_batch()), rows(first.peek())] == [[0, 1], [2, 3], [4, 5]]
    assert source.state_dict()["consumed"] == 0  # nothing is used up before the last replica has taken it
    assert rows(second.next_batch()) == [0, 1] and source.state_dict()["consumed"] == 1
    assert not first.next_is(source.peek().signature) and second.next_is(source.peek().signature)
    common.align()
    assert [rows(replica.next_batch()) for replica in (first, second)] == [[4, 5], [4, 5]]
    assert [rows(replica.next_batch()) for replica in (first, second)] == [[6, 7], [6, 7]]
    for replica in (first, second):
        with pytest.raises(StopIteration):
            replica.next_batch()


def test_a_distributed_iterator_lets_those_catch_up_that_were_stopped() -> None:
    iterator = iter(DistributedDataset(WorkerLayout(2), Dataset.range(8).batch(4)))
    assert rows(iterator.replica(1).next_batch()) == [2, 3]
    iterator.align()
    assert [rows(iterator.replica(rank).next_batch()) for rank in range(2)] == [[4, 5], [6, 7]]


def test_replicas_go_back_to_the_batch_that_not_all_have_taken() -> None:
    iterator = iter(DistributedDataset(WorkerLayout(2), Dataset.range(8).batch(4)))
    common = CommonIterator(iter(Dataset.range(8).batch(4)), 2)
    for feed, second in ((iterator, [4, 5]), (common, [4, 5, 6, 7])):
        taken = rows(feed.replica(0).next_batch())
        feed.rewind()
        assert rows(feed.replica(0).next_batch()) == taken
        feed.replica(1).next_batch()
        feed.rewind()  # all have taken it
        assert rows(feed.replica(0).next_batch()) == second


@pytest.mark.parametrize("sizes", [(5, 1), (3,), ()])
def test_batches_are_cut_into_parts_that_make_them_up(sizes: tuple[int, ...]) -> None:
    batches = [iter(Dataset.from_tensor_slices(np.arange(size)).batch(8)).next_batch() for size in sizes]
    split = SplitBatches(batches, 3)
    for size in sizes:
        parts = [split.replica(rank).next_batch() for rank in range(3)]
        assert [row for part in parts for row in rows(part)] == list(range(size))
        assert {part.global_rows for part in parts} == {size}
        assert max(part.num_rows for part in parts) - min(part.num_rows for part in parts) <= 1
    with pytest.raises(StopIteration):
        split.replica(2).peek()
    split.begin(batches[:1])
    assert [split.replica(rank).next_is(split.replica(rank).peek().signature) for rank in range(3) if sizes] == [True] * 3 * bool(sizes)


@pytest.mark.parametrize("worker", [0, 2])
def test_the_pipelines_of_a_worker_are_some_of_those_of_all(worker: int) -> None:
    contexts: list[InputContext] = []

    def dataset_fn(context: InputContext) -> Dataset:
        contexts.append(context)
        return Dataset.range(4).batch(2)

    options = InputOptions(experimental_replication_mode=InputReplicationMode.PER_REPLICA)
    next(iter(dataset_of_worker(dataset_fn, InputContext(3, worker, 2), options)))
    assert contexts == [InputContext(6, 2 * worker, 2), InputContext(6, 2 * worker + 1, 2)]
