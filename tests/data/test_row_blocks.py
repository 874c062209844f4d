"""Maps that call row-wise functions are computed for all rows at once, where that gives what single calls give; else row by row."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from simdist.data import Dataset
from simdist.data.row_blocks import RowBlock
from simdist.data.row_wise import NotByColumns, RowWise
from simdist.errors import FailedPreconditionError

ROWS = 50


class Doubled(RowWise):
    """Twice the value; negative ones raise. Counts its calls."""

    def __init__(self, factor: int = 2) -> None:
        self.factor = factor
        self.calls = 0

    @property
    def state(self) -> Hashable:
        return "doubled", self.factor

    def of_rows(self, rows: Any) -> Any:
        failed = (rows < 0).reshape(len(rows), -1).any(axis=1)
        return rows * np.int32(self.factor), failed if failed.any() else None

    def __call__(self, value: Any) -> Any:
        self.calls += 1
        self.note_call()
        if type(value) is RowBlock:
            return value.given_to(self)
        if np.any(value < 0):
            raise ValueError(f"negative: {value}")
        return value * np.int32(self.factor)


def table(rows: int = ROWS) -> Dataset:
    return Dataset.from_tensor_slices(
        {"x": np.arange(rows), "v": np.arange(4 * rows).reshape(rows, 4) % 7, "w": np.array([f"w{i % 11}" for i in range(rows)])}
    )


def by_rows(fn: Any, dataset: Dataset) -> list[Any]:
    """What single calls give: the function is said to be impure, and so is never tried on columns."""
    return [_plain(element) for element in dataset.map(fn, pure=False)]


def _plain(element: Any) -> Any:
    if isinstance(element, dict):
        return {key: _plain(value) for key, value in element.items()}
    if isinstance(element, tuple):
        return tuple(map(_plain, element))
    return element.dtype.name if element.dtype.kind not in "US" else "text", element.shape, element.tolist()


twice = Doubled()
TRIED = {
    "plain": lambda e: twice(e["x"]),
    "structure": lambda e: ({"a": twice(e["x"]), "b": e["w"]}, e["v"]),
    "index": lambda e: twice(e["v"])[1],
    "slice": lambda e: twice(e["v"])[1:3],
    "ellipsis": lambda e: twice(e["v"][..., -1]),
    "new axis": lambda e: twice(e["v"])[None, :2],
    "arithmetic": lambda e: (twice(e["x"]) + 1) * e["v"] - e["x"] // 3,
    "broadcast": lambda e: twice(e["v"]) + e["x"] + np.arange(4, dtype=np.int32),
    "deeper constant": lambda e: twice(e["x"]) + np.ones((2, 3), np.int32),
    "division": lambda e: twice(e["x"]) / 3,
    "comparison": lambda e: (twice(e["x"]) > 9) & (e["w"] == "w3"),
    "negation": lambda e: ~(twice(e["x"]) > 9) | (e["w"] != "w3"),
    "astype": lambda e: twice(e["v"]).astype("float32") * 0.1,
    "where": lambda e: np.where(e["v"] > 3, twice(e["v"]), e["x"]),
    "stack": lambda e: np.stack([twice(e["x"]), e["x"]]),
    "stack last": lambda e: np.stack([twice(e["v"]), e["v"]], axis=-1),
    "concatenate": lambda e: np.concatenate([twice(e["v"]), e["v"][:2], np.array([7, 8], np.int32)]),
    "constant": lambda e: (twice(e["x"]), 5, "yes", [1.5, 2.5]),
    "facts": lambda e: twice(e["v"]) * e["v"].shape[0] + e["v"].ndim + len(e["v"]) + e["v"].size + e["v"].dtype.itemsize,
    "isinstance": lambda e: twice(e["x"]) + (1 if isinstance(e["v"], np.ndarray) else 0) + (1 if isinstance(e["w"], str) else 0),
    "minimum": lambda e: np.minimum(twice(e["v"]), 5) - np.abs(e["v"] - 3),
}
ROW_BY_ROW = {
    "branch": lambda e: twice(e["x"]) if e["x"] > 20 else e["x"],
    "boolean": lambda e: twice(e["x"]) if e["w"] == "w3" and e["x"] else e["x"],
    "number": lambda e: twice(e["x"]) + int(e["x"]),
    "loop": lambda e: twice(e["x"]) + sum(v for v in e["v"]),
    "sum": lambda e: twice(e["v"]).sum(),
    "numpy": lambda e: np.cumsum(twice(e["v"])),
    "exponential": lambda e: np.exp(twice(e["v"]) * np.float32(0.1)),
    "method": lambda e: (twice(e["x"]), e["w"].upper()),
    "letter": lambda e: (twice(e["x"]), e["w"][0]),
    "membership": lambda e: twice(e["x"]) + (3 in e["v"]),
    "dictionary": lambda e: twice(e["x"]) + {f"w{i}": i for i in range(11)}[e["w"]],
    "text": lambda e: (twice(e["x"]), f"{e['x']}"),
    "list": lambda e: [twice(e["x"]), e["x"]],
    "mask": lambda e: twice(e["v"])[e["v"] >= 0],
    "array": lambda e: twice(e["x"]) + np.asarray(e["v"])[0],
    "attribute": lambda e: twice(e["x"]) + (1 if hasattr(e["v"], "tolist") else 0),
    "width": lambda e: twice(e["x"]) + e["w"].dtype.itemsize,
    "in place": lambda e: _in_place(twice(e["v"])),
    "swallowed": lambda e: twice(e["x"]) + _swallowed(e["x"]),
    "out": lambda e: np.add(twice(e["v"]), 1, out=np.empty(4, np.int32)),
}


def _in_place(values: Any) -> Any:
    values = values.copy()
    values[0] = 9
    return values


def _swallowed(value: Any) -> int:
    """A function that catches whatever goes wrong must not give its answer for all rows."""
    try:
        return int(value)
    except Exception:
        return -1


def calls_of(fn: Any, dataset: Dataset) -> tuple[list[Any], int]:
    mapped = dataset.map(fn)
    twice.calls = 0
    return [_plain(element) for element in mapped], twice.calls


@pytest.mark.parametrize("name", TRIED)
def test_picks_and_exact_operations_are_computed_for_all_rows_at_once(name: str) -> None:
    expected = by_rows(TRIED[name], table())
    found, calls = calls_of(TRIED[name], table())
    assert found == expected
    assert calls <= 2 * 8 + 1  # the probed rows, twice, and once with all rows


@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_all_else_is_computed_row_by_row(name: str) -> None:
    expected = by_rows(ROW_BY_ROW[name], table())
    found, calls = calls_of(ROW_BY_ROW[name], table())
    assert found == expected
    assert calls >= ROWS or name in ("branch", "boolean")


def test_a_caught_error_is_no_answer_even_where_the_probed_rows_agree() -> None:
    def lenient(x: Any) -> Any:
        try:
            return twice(x) + int(x)
        except TypeError:
            return twice(x) * 0

    column = np.zeros(50, np.int32)
    column[1] = 5  # not among the probed rows
    assert [int(x) for x in Dataset.from_tensor_slices(column).map(lenient)][:3] == [0, 15, 0]


def test_without_a_row_wise_function_nothing_is_tried() -> None:
    calls: SimpleQueue[type] = SimpleQueue()

    def plain(e: Any) -> Any:
        calls.put(type(e["x"]))
        return e["x"] + 1

    list(table().map(plain))
    seen = [calls.get() for _ in range(calls.qsize())]
    assert len(seen) == ROWS + 8 and RowBlock not in seen


def test_a_row_that_fails_raises_at_its_turn_and_no_other() -> None:
    dataset = Dataset.from_tensor_slices(np.where(np.arange(100) == 41, -1, np.arange(100)).astype(np.int32))
    mapped = dataset.map(lambda x: twice(x))
    assert [int(x) for x in mapped.take(41)] == list(range(0, 82, 2))
    assert [int(x) for x in mapped.skip(42)] == list(range(84, 200, 2))
    for _ in range(2):
        with pytest.raises(ValueError, match="negative: -1"):
            list(mapped.skip(41))
        with pytest.raises(ValueError, match="negative: -1"):
            list(mapped.batch(10))


def test_a_row_that_fails_raises_also_after_the_columns_were_taken() -> None:
    def fails(x: Any) -> Any:
        if x == 37:
            raise ValueError("row 37")
        return x * 2

    mapped = Dataset.range(100).map(fails)
    assert mapped.table is not None
    iterator = iter(mapped.batch(10))
    next(iterator)
    assert mapped.table.columns[0][37] == 0
    with pytest.raises(ValueError, match="row 37"):
        list(iterator)
    with pytest.raises(ValueError, match="row 37"):
        mapped.table.take(np.array([36, 37]))


def test_a_function_that_lies_about_columns_is_found_out_on_the_probed_rows() -> None:
    class Lies(Doubled):
        def of_rows(self, rows: Any) -> Any:
            return rows * 3, None

    lies = Lies()
    assert [int(x) for x in Dataset.range(20).map(lambda x: lies(x))] == list(range(0, 40, 2))


def test_rows_of_two_states_are_refused() -> None:
    changing = Doubled()
    mapped = Dataset.range(100).map(lambda x: changing(x) if x >= 0 else x)  # a branch: row by row
    iterator = iter(mapped)
    assert [int(next(iterator)) for _ in range(3)] == [0, 2, 4]
    changing.factor = 3
    with pytest.raises(FailedPreconditionError, match="make the dataset again"):
        list(iterator)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_map_that_is_made_again_has_the_new_state(hidden: bool) -> None:
    changing = Doubled()
    box = {"table": changing}
    fn = (lambda x: box["table"](x)) if hidden else (lambda x: changing(x))
    dataset = Dataset.range(30)
    assert [int(x) for x in dataset.map(fn, pure=True)][:3] == [0, 2, 4]
    changing.factor = 5
    assert [int(x) for x in dataset.map(fn, pure=True)][:3] == [0, 5, 10]


def test_equal_functions_with_equal_tables_share_their_rows() -> None:
    def mapped() -> Any:
        doubled = Doubled()
        dataset = Dataset.range(64).map(lambda x: doubled(x))
        list(dataset)
        return dataset.table

    assert mapped() is mapped()


def test_a_map_of_a_map_gives_the_same() -> None:
    dataset = Dataset.range(40).map(lambda x: x + 1).map(lambda x: twice(x))
    assert [int(x) for x in dataset] == list(range(2, 82, 2))


def test_a_filter_is_asked_for_all_rows_at_once() -> None:
    twice.calls = 0
    assert [int(x) for x in Dataset.range(100).filter(lambda x: twice(x) > 190)] == [96, 97, 98, 99]
    assert twice.calls == 2 * 8 + 1


def test_a_row_on_which_a_filter_fails_raises_at_its_turn() -> None:
    dataset = Dataset.from_tensor_slices(np.where(np.arange(100) == 41, -1, np.arange(100)).astype(np.int32))
    kept = dataset.filter(lambda x: twice(x) % 4 == 0)
    assert [int(x) for x in kept.take(21)] == list(range(0, 42, 2))
    with pytest.raises(ValueError, match="negative: -1"):
        list(kept)


def test_not_by_columns_falls_back() -> None:
    class Single(Doubled):
        def of_rows(self, rows: Any) -> Any:
            raise NotByColumns("one at a time")

    single = Single()
    assert [int(x) for x in Dataset.range(20).map(lambda x: single(x))] == list(range(0, 40, 2))
    assert single.calls >= 20


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a - b * 2,
    lambda a, b: a // (b * b + 1),
    lambda a, b: a % 5 - b,
    lambda a, b: np.where(a > b, a, b),
    lambda a, b: np.maximum(a, b)[..., None],
    lambda a, b: (a == b) | (a < b),
    lambda a, b: a / (b * b + 1),
    lambda a, b: (a * np.float32(0.3)) % np.float32(0.7) + b,
    lambda a, b: np.stack([a, b], axis=-1) if a.shape == b.shape else a * b,
    lambda a, b: (a[0] if a.ndim else a) - b,
    lambda a, b: np.concatenate([a, b]) if a.ndim and b.ndim else b,
]


@examples(60)
@given(
    shapes=st.tuples(st.sampled_from([(), (1,), (3,), (2, 3)]), st.sampled_from([(), (1,), (3,), (2, 3)])),
    chain=st.lists(st.sampled_from(range(len(OPERATIONS))), min_size=1, max_size=3),
    seed=st.integers(0, 10_000),
)
def test_columns_and_rows_agree_to_the_last_bit(shapes: tuple[tuple[int, ...], tuple[int, ...]], chain: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(0, 50, (12, *shape)).astype(np.int32) for shape in shapes)

    def fn(a: Any, b: Any) -> Any:
        a = twice(a)
        for number in chain:
            a = OPERATIONS[number](a, b)
        return a

    def outcome(dataset: Dataset) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                return [(x.dtype.name, x.shape, x.tobytes()) for x in dataset]
            except Exception as error:
                return type(error)

    dataset = Dataset.from_tensor_slices((first, second))
    assert outcome(dataset.map(fn)) == outcome(dataset.map(fn, pure=False))
