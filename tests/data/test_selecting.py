"""Elements that are kept by what came before them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset, streams
from simdist.errors import InvalidArgumentError


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def test_what_is_kept_stays_rows() -> None:
    source = Dataset.from_tensor_slices(np.array([4, 4, 5, 4, 9], np.int32))
    for kept in (source.unique(), source.take_while(lambda x: x < 9), source.ignore_errors()):
        batch = iter(kept.batch(2)).next_batch()
        assert batch.table is source.table and batch.rows is not None


def test_take_while_reads_no_further_and_asks_no_more() -> None:
    asked: list[int] = []
    source = Dataset.from_iterable(range(10)).take_while(lambda x: asked.append(int(x)) or x < 2)
    elements = iter(source)
    assert plain(elements) == [0, 1] and plain(elements) == [] and asked == [0, 1, 2]


def test_take_while_needs_one_boolean() -> None:
    with pytest.raises(InvalidArgumentError, match="must return one boolean"):
        list(Dataset.range(3).take_while(lambda x: 1.5))


def test_unique_compares_texts_and_parts() -> None:
    words = Dataset.from_tensor_slices((np.array(["a", "bb", "a", "a"]), [1, 1, 1, 2]))
    assert [(str(word), int(n)) for word, n in words.unique()] == [("a", 1), ("bb", 1), ("a", 2)]
    with pytest.raises(InvalidArgumentError, match=r"compares integers, booleans and strings; it was given float32"):
        list(Dataset.from_tensor_slices([1.5]).unique())


def test_unique_without_an_end_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "FUTILE_ROWS", 100)
    elements = iter(Dataset.range(3).repeat().unique())
    assert [int(next(elements)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InvalidArgumentError, match=r"put it before repeat\(\)"):
        next(elements)


@pytest.mark.parametrize("pure", [True, False])
def test_elements_that_raise_are_left_out(pure: bool) -> None:
    dataset = Dataset.from_tensor_slices([1, 2, 0, 4]).map(lambda x: 8 // int(x), pure=pure).ignore_errors()
    assert plain(dataset) == plain(dataset) == [8, 4, 2]
    assert plain(dataset.batch(2)) == [[8, 4], [2]]


def test_what_is_left_out_does_not_depend_on_rows_that_were_computed_meanwhile() -> None:
    whole = Dataset.range(4).map(lambda x: x + 1).ignore_errors().cache()
    assert [plain(whole) for _ in range(3)] == [[1, 2, 3, 4]] * 3  # in the third pass, too, the cache has the elements of the first
    rows = Dataset.from_tensor_slices([1, 2, 0, 4]).map(lambda x: 8 // int(x))
    table = rows.table
    assert table is not None and [column.tolist() for column in table.columns] == [[8, 4, 0, 2]]
    assert plain(rows.ignore_errors()) == [8, 4, 2]


def test_a_batch_with_an_element_that_raises_is_left_out_where_rows_are_known_and_else_begins_anew_behind_it() -> None:
    dataset = Dataset.from_tensor_slices([1, 2, 4, 0, 8, 3]).map(lambda x: 8 // int(x))
    for rows in (dataset, dataset.take(9), dataset.cache()):
        assert plain(rows.batch(2).ignore_errors()) == [[8, 4], [1, 2]]
    for stream in (
        dataset.filter(lambda x: x > 0),
        dataset.take_while(lambda x: x < 9),
        dataset.enumerate().map(lambda _, x: x),
        dataset.map(abs, pure=False),
    ):
        assert plain(stream.batch(2).ignore_errors()) == [[8, 4], [1, 2]]  # 2 has gone with the one that raises
        assert plain(stream.batch(3).ignore_errors()) == [[8, 4, 2], [1, 2]]


def test_a_warning_names_the_error() -> None:
    dataset = Dataset.range(2).map(lambda x: 1 // int(x), pure=False).ignore_errors(log_warning=True)
    with pytest.warns(UserWarning, match="raised ZeroDivisionError: "):
        assert plain(dataset) == [1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plain(Dataset.range(2).map(lambda x: 1 // int(x), pure=False).ignore_errors()) == [1]


@pytest.mark.parametrize("pure", [True, False])
def test_a_dataset_of_which_nothing_can_be_made_is_an_error_and_no_hang(monkeypatch: pytest.MonkeyPatch, pure: bool) -> None:
    monkeypatch.setattr(streams, "FUTILE_ROWS", 100)
    with pytest.raises(InvalidArgumentError, match="ignore_errors left out 100 elements one after another"):
        next(iter(Dataset.range(3).repeat().map(lambda x: 1 // (int(x) * 0), pure=pure).ignore_errors()))
    known = iter(Dataset.range(3).repeat().unique().ignore_errors())
    assert [int(next(known)) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(InvalidArgumentError, match="unique met 100 elements"):
        next(known)


def test_an_error_that_stays_is_raised() -> None:
    fails = True

    def sometimes(x: Any) -> Any:
        if x == 1 and fails:
            raise OSError("the disk is away")
        return x

    dataset = Dataset.range(3).map(sometimes, pure=False).cache().ignore_errors()
    elements = iter(dataset)
    assert next(elements) == 0
    with pytest.raises(OSError, match="the disk is away"):
        next(elements)
    fails = False
    assert plain(elements) == [1, 2]
