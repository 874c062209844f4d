"""What one replica gets: its rows, those of all, and what a step is traced for."""

from __future__ import annotations

import numpy as np

from simdist.data import Batch, Dataset
from simdist.input import DistributedInput, ReplicaBatch
from simdist.input.replica_batch import leaves_of_all, replica_batches
from simdist.input.steps import InputStep


def test_parts_come_in_the_order_of_the_replicas_and_know_the_rows_of_all():
    step = next(iter(DistributedInput(Dataset.range(7).batch(7), 2, 2)))
    found = replica_batches(step)
    assert [part.batch.value().tolist() for part in found] == [[0, 1], [4, 5], [2, 3], [6]]
    assert {part.global_rows for part in found} == {7}


def test_rows_of_all_are_unknown_where_a_worker_cannot_see_the_others():
    (part,) = replica_batches(InputStep(((Batch.from_value(np.ones(3)),),), None))
    assert part.global_rows is None and part.num_rows == 3


def test_step_is_traced_anew_for_another_shape_or_another_number_of_rows_of_all():
    batch = Batch.from_value(np.ones((2, 3)))
    first = ReplicaBatch(batch, 4)
    assert first.signature == ReplicaBatch(Batch.from_value(np.zeros((2, 3))), 4).signature
    assert first.signature != ReplicaBatch(batch, 5).signature
    assert first.signature != ReplicaBatch(Batch.from_value(np.ones((1, 3))), 4).signature


def test_rows_of_a_table_stay_rows():
    dataset = Dataset.range(4).batch(4)
    (part,) = replica_batches(next(iter(DistributedInput(dataset))))
    assert part.table is dataset.table and part.rows is not None and part.rows.tolist() == [0, 1, 2, 3]
    assert [leaf.tolist() for leaf in part.leaves()] == [[0, 1, 2, 3]]


def test_leaves_of_all_are_those_of_each_and_rows_of_a_table_are_gathered_at_once():
    pairs = Dataset.from_tensor_slices((np.arange(14.0).reshape(7, 2), np.arange(7))).shuffle(7, seed=1)
    for dataset, is_one in ((pairs.batch(7), True), (Dataset.from_iterable([np.arange(n) for n in (4,)]), False)):
        parts = replica_batches(next(iter(DistributedInput(dataset, 2, 2))))
        found = leaves_of_all(parts)
        for number, part in enumerate(parts):
            for arrays, leaf in zip(found, part.leaves(), strict=True):
                np.testing.assert_array_equal(arrays[number], leaf)
        for arrays in found:
            if is_one:
                assert len({id(array.base) for array in arrays}) == 1
                assert not any(array.flags.writeable for array in arrays)
