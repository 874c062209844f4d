"""Chains of concatenations: one step with many sources, however long."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.data.concatenating import Concatenate
from simdist.errors import InvalidArgumentError

LONG = 1_200  # links; Python calls a thousand functions inside of each other


def chain(parts: list[Dataset]) -> Dataset:
    first, *others = parts
    for other in others:
        first = first.concatenate(other)
    return first


@pytest.mark.parametrize("pure", [None, False])
def test_a_chain_is_as_long_as_one_likes(pure: bool | None) -> None:
    parts = [Dataset.range(n, n + 2).map(lambda x: x * 2, pure=pure) for n in range(LONG)]
    joined = chain(parts)
    assert joined.cardinality() == 2 * LONG and joined.element_spec.dtype == "int32"
    assert [int(x) for x in joined] == [2 * (n + offset) for n in range(LONG) for offset in (0, 1)]


def test_a_chain_of_rows_is_one_table_that_is_made_once() -> None:
    joined = chain([Dataset.range(n, n + 2) for n in range(LONG)])
    assert isinstance(joined.node, Concatenate) and len(joined.node.sources) == LONG
    assert joined.table is not None and joined.table.num_rows == 2 * LONG
    assert joined.batch(2 * LONG).get_single_element().tolist() == [n + offset for n in range(LONG) for offset in (0, 1)]


def test_concatenations_on_both_sides_keep_their_order() -> None:
    low, high = chain([Dataset.range(n, n + 1) for n in range(3)]), chain([Dataset.range(n, n + 1) for n in range(3, 6)])
    assert [int(x) for x in low.concatenate(high)] == [int(x) for x in low] + [int(x) for x in high] == list(range(6))
    assert repr(low) == "Dataset.range(0, 1).concatenate(Dataset.range(1, 2)).concatenate(Dataset.range(2, 3))"


def test_each_part_of_a_chain_has_the_dtype_of_the_first() -> None:
    numbers = Dataset.from_iterable([np.int32(1)])
    with pytest.raises(InvalidArgumentError, match="one dtype"):
        list(numbers.concatenate(numbers).concatenate(Dataset.from_iterable([np.float32(2)])))
    with pytest.raises(InvalidArgumentError, match="one dtype"):
        numbers.concatenate(Dataset.range(2)).concatenate(Dataset.from_tensors(1.0))


def test_a_part_without_elements_takes_no_turn() -> None:
    none = Dataset.range(0).map(lambda x: x, pure=False)
    assert [int(x) for x in none.concatenate(none).concatenate(Dataset.range(2)).concatenate(none)] == [0, 1]
