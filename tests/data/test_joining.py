"""Concatenation against Python's `+`, in every combination of sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import Dataset
from simdist.errors import InvalidArgumentError

quick = examples(60)


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def source(kind: str, size: int) -> Dataset:
    return {
        "rows": lambda: Dataset.range(size),
        "shuffled": lambda: Dataset.range(size).shuffle(size + 1, seed=1),
        "iterable": lambda: Dataset.from_iterable(list(range(size))),
        "mapped": lambda: Dataset.range(size).map(lambda x: x * 2),
    }[kind]()


kinds = st.sampled_from(["rows", "shuffled", "iterable", "mapped"])


@quick
@given(kinds, kinds, st.integers(0, 5), st.integers(1, 5), st.integers(1, 4))
def test_concatenation_is_one_after_the_other(first: str, second: str, size: int, other: int, width: int):
    rows = plain(source(first, size)) + plain(source(second, other))
    joined = source(first, size).concatenate(source(second, other))
    assert plain(joined.batch(width)) == [rows[at : at + width] for at in range(0, len(rows), width)]


@quick
@given(kinds, kinds, st.integers(0, 5))
def test_concatenation_continues_from_a_saved_position(first: str, second: str, consumed: int):
    def dataset() -> Dataset:
        return source(first, 4).concatenate(source(second, 5)).batch(2).repeat(2)

    iterator = iter(dataset())
    for _ in range(consumed):
        next(iterator)
    state, rest = iterator.state_dict(), plain(iterator)
    again = iter(dataset())
    again.load_state_dict(state)
    assert plain(again) == rest


def test_short_fixed_parts_become_one_table():
    joined = Dataset.range(3).concatenate(Dataset.range(5, 7))
    assert joined.table is not None and joined.table.columns[0].tolist() == [0, 1, 2, 5, 6]


def test_length_and_shapes_of_a_concatenation():
    batches = Dataset.range(8).batch(4, drop_remainder=True)
    assert len(batches.concatenate(batches)) == 4
    assert batches.concatenate(batches).element_spec.shape == (4,)
    other = Dataset.range(6).batch(3, drop_remainder=True)
    assert batches.concatenate(other).element_spec.shape == (None,)
    assert (batches.concatenate(batches).static_batch_size, batches.concatenate(other).static_batch_size) == (4, None)
    assert Dataset.range(3).concatenate(Dataset.range(2).repeat()).cardinality() == -1


def test_batches_of_different_sizes_follow_each_other():
    batches = Dataset.range(4).batch(2).concatenate(Dataset.range(4, 7).batch(3))
    assert plain(batches) == [[0, 1], [2, 3], [4, 5, 6]]
    assert plain(batches.unbatch()) == list(range(7))


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Dataset.range(2).concatenate([1]), TypeError, "expected a dataset"),
        (lambda: list(Dataset.range(2).concatenate(Dataset.zip((Dataset.range(2), Dataset.range(2))))), InvalidArgumentError, "structures"),
        (lambda: Dataset.range(2).concatenate(Dataset.from_tensors(1.0)), InvalidArgumentError, "one dtype"),
        (lambda: Dataset.range(2).batch(2).concatenate(Dataset.from_tensors(["a"])), InvalidArgumentError, "one dtype"),
        (lambda: list(Dataset.range(2).map(lambda x: x / 2).concatenate(Dataset.range(2))), InvalidArgumentError, "one dtype"),
        (lambda: list(Dataset.range(2).concatenate(Dataset.from_iterable([0.5]))), InvalidArgumentError, "one dtype"),
        (lambda: Dataset.range(2).concatenate(Dataset.range(2).batch(2)).element_spec, InvalidArgumentError, "0 and 1 axes"),
    ],
)
def test_concatenation_of_unlike_datasets_is_refused(make: Any, error: Any, says: str):
    with pytest.raises(error, match=says):
        make()


def test_concatenation_calls_no_function_and_takes_texts_of_any_length():
    calls: list[int] = []
    mapped = Dataset.range(3).map(lambda x: calls.append(1) or x)
    assert len(mapped.concatenate(mapped)) == 6 and not calls
    texts = Dataset.from_tensor_slices(["a"]).concatenate(Dataset.from_tensor_slices(["abc"]))
    assert plain(texts) == ["a", "abc"] and texts.element_spec.dtype == "str96"


def fails_at_five(x: Any) -> bool:
    if x == 5:
        raise ZeroDivisionError("five")
    return True


FAILING: dict[str, tuple[Callable[[Dataset], Dataset], list[Any]]] = {
    "alone": (lambda d: d, [0, 1, 2, 3, 4]),
    "repeat": (lambda d: d.repeat(1), [0, 1, 2, 3, 4]),
    "repeat for ever": (lambda d: d.repeat(), [0, 1, 2, 3, 4]),
    "first": (lambda d: d.concatenate(Dataset.range(2)), [0, 1, 2, 3, 4]),
    "second": (lambda d: Dataset.range(2).concatenate(d), [0, 1, 0, 1, 2, 3, 4]),
    "zip": (lambda d: Dataset.zip((d, d)), [(x, x) for x in range(5)]),
    "shuffle of one": (lambda d: d.shuffle(1).repeat(), [0, 1, 2, 3]),
    "map": (lambda d: d.map(lambda x: x + 1).repeat(2), [1, 2, 3, 4, 5]),
    "cache": (lambda d: d.cache().repeat(2), [0, 1, 2, 3, 4]),
}


@pytest.mark.parametrize("name", FAILING)
def test_error_of_a_later_row_comes_behind_the_rows_before_it(name: str):
    make, before = FAILING[name]
    iterator = iter(make(Dataset.range(10).filter(fails_at_five)))
    assert [jax.tree.map(int, next(iterator)) for _ in before] == before
    with pytest.raises(ZeroDivisionError, match="five"):
        next(iterator)


def test_row_that_no_element_visits_raises_nothing():
    failing = Dataset.range(10).filter(fails_at_five)
    assert [tuple(map(int, pair)) for pair in Dataset.zip((failing, Dataset.range(3)))] == [(0, 0), (1, 1), (2, 2)]
    assert plain(failing.repeat().take(5)) == [0, 1, 2, 3, 4]
    inverse = Dataset.range(10).map(lambda x: 1 // (5 - x))
    assert [int(a) for a, _ in Dataset.zip((inverse, Dataset.range(3)))] == [0, 0, 0]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_zip_asks_for_no_element_behind_the_end_of_an_earlier_dataset(size: int):
    def three_numbers():
        yield from range(3)
        raise ValueError("a fourth number")

    def is_wanted(n: Any) -> bool:
        assert n < 100, "a search that would not end"
        return n < size

    generated = Dataset.from_iterable(three_numbers)
    assert [tuple(map(int, pair)) for pair in Dataset.zip((Dataset.range(size), generated))] == [(n, n) for n in range(size)]
    endless = Dataset.counter().filter(is_wanted, pure=False)
    assert [tuple(map(int, pair)) for pair in Dataset.zip((Dataset.range(size), endless))] == [(n, n) for n in range(size)]


def test_repeat_without_an_end_has_none_whatever_a_filter_keeps():
    assert Dataset.range(5).filter(lambda x: x > 2).repeat().cardinality() == -1
    assert Dataset.range(5).filter(lambda x: x > 2).repeat(2).cardinality() == -2
