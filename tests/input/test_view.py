"""What every input says of itself, on a toy of two steps."""

from __future__ import annotations

import pytest

from simdist.data import ArraySpec, Dataset
from simdist.errors import InvalidArgumentError
from simdist.input.prefetch import Pace
from simdist.input.shared_batches import SharedBatches
from simdist.input.steps import InputIterator
from simdist.input.view import InputView


class Toy(InputView):
    """Two global batches of four rows; a length, a price and a buffer are not stated."""

    def __iter__(self) -> InputIterator:
        return SharedBatches(iter(Dataset.range(8).batch(4)), self.num_workers, self.replicas_per_worker, self.workers)

    def worker_pipeline(self, index: int) -> InputView:
        return Toy(self.num_workers, self.replicas_per_worker, self.only(index))

    @property
    def element_spec(self) -> ArraySpec:
        return ArraySpec((None,), "int32")


def test_reduce_goes_over_the_steps_of_a_pass():
    assert Toy(2, 2).reduce([], lambda seen, step: [*seen, step.num_rows]) == [4, 4]


def test_view_of_one_worker_has_its_parts_only():
    toy = Toy(2, 2)
    assert toy.num_replicas == 4 and list(toy.workers) == [0, 1]
    assert [len(step.parts) for step in toy.worker_pipeline(1)] == [1, 1]


def test_what_is_not_stated_is_unknown_or_nothing():
    toy = Toy(1, 1)
    assert (toy.cardinality(), toy.pace(0)) == (-2, Pace())


def test_workers_that_cannot_be_are_refused():
    with pytest.raises(InvalidArgumentError, match="num_workers is 0"):
        Toy(0, 1)
    with pytest.raises(InvalidArgumentError, match="worker index is 2 of 2"):
        Toy(2, 1).worker_pipeline(2)
