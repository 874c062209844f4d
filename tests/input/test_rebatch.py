"""How batches are cut: sizes against sums and differences, the cut batches of one worker against lists that a loop cuts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.input.rebatch import Rebatched, replica_batch_sizes, worker_batch_sizes

quick = examples(100)
batches = st.lists(st.integers(0, 7), max_size=6)
workers, replicas = st.integers(1, 4), st.integers(1, 3)


def rebatched(sizes: list[int], num_workers: int, per_worker: int, worker: int, batch_size: int | None = None) -> Rebatched:
    """Batches of these sizes, whose rows are numbered on, cut for one worker."""
    ends = np.cumsum([0, *sizes])
    arrays = [np.arange(start, end, dtype=np.int32) for start, end in pairwise(ends)]
    return Rebatched(iter(Dataset.from_iterable(arrays)), batch_size, num_workers, per_worker, worker)


def rest(parts: Rebatched) -> list[list[int]]:
    found: list[list[int]] = []
    while True:
        try:
            found.append(parts.next_batch().value().tolist())
        except StopIteration:
            return found


def expected(sizes: list[int], num_workers: int, per_worker: int, worker: int, batch_size: int | None) -> list[list[int]]:
    """The same by a loop over lists: a part for each replica of a step, until the batch has no rows left."""
    full = batch_size or next((size for size in sizes if size), 1)
    widths = worker_batch_sizes(full, num_workers, per_worker, worker)
    found: list[list[int]] = []
    for first, size in zip(np.cumsum([0, *sizes]).tolist(), sizes, strict=False):
        rows = list(range(first, first + size))
        while rows:
            for _ in range(per_worker):
                width = widths[len(found) % len(widths)]
                found.append(rows[:width])
                rows = rows[width:]
    return found


@quick
@given(st.integers(0, 40), st.integers(1, 9))
def test_sizes_differ_by_one_at_most_and_make_the_batch(rows: int, parts: int):
    sizes = replica_batch_sizes(rows, parts)
    assert sum(sizes) == rows and len(sizes) == parts and max(sizes) - min(sizes) <= 1
    assert list(sizes) == sorted(sizes, reverse=True)
    rounded_up = replica_batch_sizes(rows, parts, static=False)
    assert sum(rounded_up) == rows and max(rounded_up) == -(-rows // parts)


@quick
@given(st.integers(1, 20), workers, replicas)
def test_sizes_of_all_workers_make_one_global_batch_at_each_step_and_each_worker_reads_one_in_a_round(rows: int, count: int, each: int):
    sizes = [np.reshape(worker_batch_sizes(rows, count, each, worker), (count, each)) for worker in range(count)]  # [w][step, r]
    assert all(int(of_worker.sum()) == rows for of_worker in sizes)
    assert [int(sum(of_worker[step].sum() for of_worker in sizes)) for step in range(count)] == [rows] * count


@quick
@given(batches, workers, replicas, st.sampled_from([None, 1, 5]))
def test_parts_of_a_worker_are_those_that_a_loop_cuts(sizes: list[int], count: int, each: int, batch_size: int | None):
    for worker in range(count):
        assert rest(rebatched(sizes, count, each, worker, batch_size)) == expected(sizes, count, each, worker, batch_size)


@quick
@given(batches, workers, replicas, st.integers(0, 12), st.integers(0, 5))
def test_position_continues_identically_wherever_it_was_saved(sizes: list[int], count: int, each: int, taken: int, ahead: int):
    whole = rebatched(sizes, count, each, 0)
    total = len(rest(rebatched(sizes, count, each, 0)))
    for _ in range(min(taken, total)):
        whole.next_batch()
    if min(taken, total) + ahead < total:
        whole.peek(ahead)
    position: dict[str, Any] = json.loads(json.dumps(whole.state_dict()))
    again = rebatched(sizes, count, each, 0)
    again.load_state_dict(position)
    assert again.state_dict() == position
    assert rest(again) == rest(whole)


def test_peeking_across_a_batch_without_rows_consumes_nothing():
    parts = rebatched([3, 0, 2], 1, 1, 0)
    before = parts.state_dict()
    assert [parts.peek(i).value().tolist() for i in (1, 0)] == [[3, 4], [0, 1, 2]]
    assert parts.state_dict() == before | {"batch_size": 3}
    assert rest(parts) == [[0, 1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("position", "says"),
    [
        ({}, "cut batches"),
        ({"part": "x", "step": 0, "batch_size": 2}, "cut batches"),
        ({"part": 0, "step": 0, "batch_size": 2}, "dataset iterator"),
        ({"part": 5, "step": 0, "batch_size": 2, "consumed": 0, "shuffles": []}, "after 5 parts of a batch that is cut into 2"),
    ],
)
def test_position_of_something_else_is_refused(position: dict[str, Any], says: str):
    parts = rebatched([2, 2], 1, 2, 0)
    with pytest.raises(InvalidArgumentError, match=says):
        parts.load_state_dict(position)
        parts.peek()


def test_whole_batch_is_computed_when_its_first_part_is_seen():
    calls: list[int] = []
    dataset = Dataset.range(8).map(lambda x: calls.append(int(x)) or x, pure=True).batch(4)
    parts = Rebatched(iter(dataset), 4, 2, 1, 0)
    parts.peek()
    assert calls == [0, 1, 2, 3]
