"""Global batches that are cut for all workers, against slices of the batch."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import FailedPreconditionError, InvalidArgumentError
from simdist.input.shared_batches import SharedBatches


def steps(given: SharedBatches) -> list[list[list[list[int]]]]:
    return [[[part.value().tolist() for part in worker] for worker in step.parts] for step in given]


def test_parts_are_dealt_out_to_the_workers_in_turn():
    given = SharedBatches(iter(Dataset.range(11).batch(11)), num_workers=3, replicas_per_worker=2, workers=range(3))
    # Six parts of 2, 2, 2, 2, 2 and 1 rows: worker w gets the parts w and w + 3.
    assert steps(given) == [[[[0, 1], [6, 7]], [[2, 3], [8, 9]], [[4, 5], [10]]]]


def test_one_worker_sees_its_parts_and_the_sizes_of_all():
    given = SharedBatches(iter(Dataset.range(5).batch(5)), 2, 2, workers=range(1, 2))
    step = given.peek()
    assert step.sizes == ((2, 1), (1, 1)) and step.num_rows == 5
    assert steps(given) == [[[[2], [4]]]]


def test_rounded_up_parts_leave_the_last_replicas_without_rows():
    given = SharedBatches(iter(Dataset.range(5).batch(5)), 1, 4, range(1), even=False)
    assert [step.sizes for step in given] == [((2, 2, 1, 0),)]


def test_position_is_that_of_the_one_source():
    given = SharedBatches(iter(Dataset.range(6).batch(2)), 2, 1, range(2))
    given.next_step()
    assert given.state_dict() == {"sources": [{"consumed": 1, "shuffles": []}]}
    again = SharedBatches(iter(Dataset.range(6).batch(2)), 2, 1, range(2))
    again.load_state_dict(given.state_dict())
    assert steps(again) == steps(given) == [[[[2]], [[3]]], [[[4]], [[5]]]]
    with pytest.raises(InvalidArgumentError, match="1 source"):
        again.load_state_dict({"sources": [{}, {}]})


def test_a_step_that_was_read_ahead_is_not_read_again():
    """Of a generator nobody could: a training that goes on from its beginning has looked at the first batch already."""
    given = SharedBatches(iter(Dataset.from_iterable(np.arange(2) + number for number in range(3))), 2, 1, range(2))
    start = given.state_dict()
    given.peek(1)
    given.load_state_dict(start)
    assert steps(given) == [[[[number]], [[number + 1]]] for number in range(3)]
    with pytest.raises(FailedPreconditionError, match="only once"):
        given.load_state_dict(start)


def test_of_steps_that_were_read_ahead_those_before_a_position_go():
    given = SharedBatches(iter(Dataset.range(12).shuffle(12, seed=3).batch(2)), 2, 1, range(2))
    expected = steps(SharedBatches(iter(Dataset.range(12).shuffle(12, seed=3).batch(2)), 2, 1, range(2)))
    given.next_step()
    given.peek(3)
    given.load_state_dict({"sources": [{"consumed": 3, "shuffles": [0], "seeds": [3]}]})
    assert steps(given) == expected[3:]
