"""Batches: elements that have a first axis without `batch`; batches that are too large; numbers of elements; and unbatching."""

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


@pytest.mark.parametrize(
    "make",
    [
        lambda: Dataset.range(3).repeat().batch(10**9),
        lambda: Dataset.range(3).repeat().padded_batch(10**9),
        lambda: Dataset.range(4).batch(2).repeat().rebatch(10**9),
        lambda: Dataset.counter().batch(10**9),
        lambda: Dataset.range(10**12).batch(10**9),
        lambda: Dataset.range(3).repeat().window(10**9),
    ],
)
def test_a_batch_that_would_never_be_full_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"puts 1,000,000,000 elements together, .* expected at most 134,217,728"):
        make()


def test_a_large_batch_of_few_elements_has_them_all() -> None:
    assert Dataset.range(3).batch(10**9).get_single_element().tolist() == [0, 1, 2]
    assert Dataset.range(3).repeat().take(5).padded_batch(10**9).get_single_element().tolist() == [0, 1, 2, 0, 1]


def test_rows_of_a_large_batch_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []

    def concatenate(parts: list[np.ndarray]) -> np.ndarray:
        copied.append(sum(map(len, parts)))
        return joined(parts)

    joined = np.concatenate
    dataset = Dataset.range(3).repeat().batch(1 << 20)
    monkeypatch.setattr(np, "concatenate", concatenate)
    assert next(iter(dataset)).shape == (1 << 20,)
    assert sum(copied) <= 2 << 20


def test_an_element_that_raises_keeps_its_number() -> None:  # numbers of TensorFlow
    numbered = iter(Dataset.range(4).map(refusing_one).enumerate())
    assert [int(x) for x in next(numbered)] == [0, 0]
    with pytest.raises(ValueError, match="one"):
        next(numbered)
    assert [[int(x) for x in pair] for pair in numbered] == [[2, 2], [3, 3]]
    behind = iter(Dataset.range(6).map(refusing_one).enumerate().shard(2, 0))
    assert [int(x) for x in next(behind)] == [0, 0]  # the element before the one that raises is not lost with it
    with pytest.raises(ValueError, match="one"):
        next(behind)


def test_an_element_that_a_cache_tries_again_gets_the_number_that_it_had() -> None:
    tries: list[int] = []

    def refusing_twice(x: int) -> int:
        tries.append(x)
        return refusing_one(x) if tries.count(1) < 3 else x

    numbered = iter(Dataset.from_iterable(lambda: range(3)).map(refusing_twice, pure=False).cache().enumerate())
    assert [int(x) for x in next(numbered)] == [0, 0]
    for _ in range(2):
        with pytest.raises(ValueError, match="one"):
            next(numbered)
    assert [[int(x) for x in pair] for pair in numbered] == [[1, 1], [2, 2]]


def refusing_one(x: int) -> int:
    if x == 1:
        raise ValueError("one")
    return x


@pytest.mark.parametrize(
    ("dataset", "count"),
    [
        (Dataset.range(9).batch(4, drop_remainder=True), 8),
        (Dataset.range(9).batch(4, drop_remainder=True).repeat(2), 16),
        (Dataset.range(9).map(lambda x: x * 2).batch(2, drop_remainder=True).take(3), 6),
        (Dataset.range(9).batch(4), -2),
        (Dataset.range(9).repeat().batch(4, drop_remainder=True), -1),
    ],
)
def test_unbatching_full_batches_gives_a_known_number(dataset: Dataset, count: int) -> None:  # numbers of TensorFlow
    assert dataset.unbatch().cardinality() == count
    assert count < 0 or len(list(dataset.unbatch())) == count
