"""Windows: datasets of consecutive elements, of rows and of objects, of parts of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset
from simdist.errors import InvalidArgumentError

X, Y = np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(5, dtype=np.int32)


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def test_windows_of_rows_hold_row_numbers() -> None:
    dataset = Dataset.from_tensor_slices(X)
    batch = iter(dataset.window(3, shift=1).flat_map(lambda window: window.batch(3))).next_batch()
    assert batch.table is dataset.table and batch.rows is not None and batch.rows.tolist() == [0, 1, 2]


@pytest.mark.parametrize("pure", [True, False])
def test_the_parts_of_elements_have_windows_of_their_own(pure: bool) -> None:
    pairs = Dataset.from_tensor_slices((X, Y)).map(lambda x, y: (x, y), pure=pure)
    windows = pairs.window(2, shift=2)
    first_x, first_y = next(iter(windows))
    assert plain(first_x) == X[:2].tolist() and plain(first_y) == [0, 1]
    batches = windows.flat_map(lambda x, y: Dataset.zip((x.batch(2), y.batch(2))))
    assert [(x.tolist(), y.tolist()) for x, y in batches] == [
        (X[start : start + 2].tolist(), Y[start : start + 2].tolist()) for start in (0, 2, 4)
    ]


def test_a_dict_gives_a_dict_of_windows() -> None:
    windows = Dataset.from_tensor_slices({"x": X, "y": Y}).window(2)
    assert [{name: plain(part) for name, part in window.items()}["y"] for window in windows] == [[0, 1], [2, 3], [4]]
    assert plain(windows.flat_map(lambda window: window["y"])) == Y.tolist()


def test_a_window_may_be_read_again_and_mapped() -> None:
    (window, *_) = Dataset.range(6).map(lambda x: x * 10, pure=False).window(3)
    assert plain(window) == plain(window) == [0, 10, 20]
    assert plain(window.map(lambda x: x + 1).repeat(2)) == [1, 11, 21] * 2
    assert len(window) == 3 and window.element_spec == ArraySpec((), "int32")


def test_no_element_is_read_before_a_window_needs_it() -> None:
    read: list[int] = []
    windows = iter(Dataset.from_iterable(lambda: (read.append(n) or n for n in range(20))).window(3, shift=5))
    next(windows)
    assert read == [0, 1, 2]
    next(windows)
    assert read == [*range(8)]


def test_a_pass_goes_on_where_its_position_says() -> None:
    def make() -> Dataset:
        return Dataset.range(9).shuffle(9, seed=3).window(4, shift=2).flat_map(lambda window: window.batch(2))

    everything = plain(make())
    before, after = iter(make()), iter(make())
    for _ in range(5):
        next(before)
    after.load_state_dict(before.state_dict())
    assert plain(after) == everything[5:]


def test_windows_of_a_shuffle_count_as_iterations() -> None:
    dataset = Dataset.range(8).shuffle(8, seed=0)
    windows = dataset.window(8)
    orders = [plain(window) for _ in range(2) for window in windows]
    again = Dataset.range(8).shuffle(8, seed=0)
    assert orders == [plain(again), plain(again)] and orders[0] != orders[1]


def test_how_many_windows_there_are() -> None:
    windows = Dataset.range(7).window(3, shift=2)
    assert len(windows) == 4 and windows
    with pytest.raises(TypeError, match=r"use \.cardinality\(\)"):
        len(Dataset.range(7).repeat().window(3))
    assert Dataset.range(7).repeat().window(3).cardinality() == -1


@pytest.mark.parametrize("option", ["size", "shift", "stride"])
def test_numbers_below_one_are_refused(option: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{option} is 0"):
        Dataset.range(3).window(**{"size": 2, option: 0})


def test_the_shape_of_what_the_function_makes() -> None:
    full = Dataset.from_tensor_slices((X, Y)).window(2, drop_remainder=True)
    assert full.flat_map(lambda x, y: x.batch(2, drop_remainder=True)).element_spec == ArraySpec((2, 2), "float32")
    with pytest.raises(TypeError, match=r"returned list to window\.flat_map"):
        next(iter(full.flat_map(lambda x, y: [1])))


def test_each_row_of_a_series_is_predicted_from_the_rows_before_it() -> None:
    series = np.sin(np.arange(30)).astype(np.float32)
    windows = Dataset.from_tensor_slices(series).window(5, shift=1, drop_remainder=True).flat_map(lambda window: window.batch(5))
    pairs = windows.map(lambda window: (window[:-1], window[-1])).batch(26)
    ((x, y),) = list(pairs)
    view = np.lib.stride_tricks.sliding_window_view(series, 5)
    assert np.array_equal(x, view[:, :4]) and np.array_equal(y, view[:, 4])


@pytest.mark.parametrize(
    ("dataset", "shapes"),
    [
        (Dataset.range(2).window(4, drop_remainder=True).flat_map(lambda window: window.batch(4)), [(None,)]),
        (Dataset.range(0).window(2).flat_map(lambda window: window.batch(2, drop_remainder=True)), [(2,)]),
        (
            Dataset.from_tensor_slices((np.zeros((0, 3)), np.zeros(0)))
            .window(2)
            .flat_map(lambda x, y: Dataset.zip((x.batch(2), y.map(lambda value: value + 1).batch(2)))),
            [(None, 3), (None,)],
        ),
    ],
)
def test_datasets_without_windows_say_what_their_elements_would_be_like(dataset: Dataset, shapes: list[Any]) -> None:
    specs = dataset.element_spec
    assert not list(dataset)
    assert [spec.shape for spec in (specs if isinstance(specs, tuple) else (specs,))] == shapes
