"""Elements that have a first axis without `batch`: they count as batched, whatever they were written as."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError

ROWS = np.arange(6.0, dtype=np.float32).reshape(2, 3)
SAME_ELEMENTS: dict[str, Callable[[], Dataset]] = {
    "slices": lambda: Dataset.from_tensor_slices(ROWS),
    "tensors": lambda: Dataset.from_tensors(ROWS[0]).concatenate(Dataset.from_tensors(ROWS[1])),
    "iterable": lambda: Dataset.from_iterable(list(ROWS)),
    "batches": lambda: Dataset.from_tensor_slices(ROWS.reshape(6)).batch(3),
    "pure map": lambda: Dataset.from_tensor_slices(ROWS).map(lambda row: row),
    "map of some shapes": lambda: Dataset.from_tensor_slices(ROWS).map(lambda row: row[: int(row[0]) + 3]),
    "map at every visit": lambda: Dataset.from_tensor_slices(ROWS).map(lambda row: row, pure=False),
    "map of pairs": lambda: Dataset.from_tensor_slices(ROWS).enumerate().map(lambda _, row: row),
    "filter": lambda: Dataset.from_tensor_slices(ROWS).filter(lambda row: True),
}


@pytest.mark.parametrize("name", SAME_ELEMENTS)
def test_elements_with_a_first_axis_are_batched_whatever_they_were_written_as(name: str) -> None:
    dataset = SAME_ELEMENTS[name]()
    assert [float(x) for x in dataset.unbatch()] == [0, 1, 2, 3, 4, 5]
    first = iter(dataset).next_batch().require_batched()
    assert first.num_rows == 3 and [part.value().tolist() for part in first.split([2, 1])] == [[0, 1], [2]]


@pytest.mark.parametrize("pure", [True, False])
def test_elements_without_a_common_first_axis_are_not_batched(pure: bool) -> None:
    for dataset in (Dataset.range(3), Dataset.from_tensor_slices((ROWS, [0, 1]))):
        same = dataset.map(lambda *parts: parts if len(parts) > 1 else parts[0], pure=pure)
        with pytest.raises(InvalidArgumentError, match="share a first axis"):
            list(same.unbatch())
        with pytest.raises(InvalidArgumentError, match="without a common first axis"):
            iter(same).next_batch().split([1])
