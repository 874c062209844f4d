"""Which maps use the rows of others again, and which functions are called anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset, purity
from simdist.data.purity import call_on


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


def test_equal_functions_of_many_workers_share_one_mapped_table(monkeypatch: pytest.MonkeyPatch):
    calls: list[int] = []
    monkeypatch.setattr(purity, "call_on", lambda fn, *rest: calls.append(1) or call_on(fn, *rest))
    factor, shift = 3, np.arange(2)

    def dataset_fn() -> Dataset:
        return Dataset.from_tensor_slices(np.arange(200)).map(lambda x: x * factor + shift.copy())

    datasets = [dataset_fn().batch(50) for _ in range(20)]
    tables = {id(iter(dataset).next_batch().table.columns[0]) for dataset in datasets}
    assert len(tables) == 1 and len(calls) < 200 + 20 * 16 + 8


def test_copies_of_one_map_step_share_its_table():
    large = np.zeros(1 << 18)  # more than is compared
    node = Dataset.range(100).map(lambda x: x + large[0]).node
    tables = {id(node.over(node.sources).table()) for _ in range(5)}
    assert len(tables) == 1


def test_rows_of_a_map_are_not_used_again_after_what_it_reads_changed_and_changed_back():
    limits = [5]

    def dataset_fn() -> Dataset:
        return Dataset.range(100).map(lambda x: int(x) > limits[0], pure=True)

    first = iter(dataset_fn())
    assert not next(first)
    limits[0] = 50
    assert sum(plain(first)) == 49
    limits[0] = 5
    assert sum(plain(dataset_fn())) == 94


@pytest.mark.parametrize("step", ["map", "filter"])
def test_chance_that_acts_on_few_rows_acts_anew_in_each_epoch(step: str):
    rng = np.random.default_rng(1)  # whose first numbers are larger: calls on a few rows would not show it
    maps = {"map": lambda x: -x if rng.random() < 0.01 else x, "filter": lambda x: rng.random() > 0.01}
    dataset = getattr(Dataset.range(1000), step)(maps[step])
    assert plain(dataset) != plain(dataset)


def test_function_whose_surroundings_changed_is_computed_again():
    scale = {"by": 2}

    def dataset_fn() -> Dataset:
        return Dataset.range(20).map(lambda x: x * scale["by"])

    before = dataset_fn()
    assert plain(before)[-1] == 38
    scale["by"] = 5
    assert plain(dataset_fn())[-1] == 95


OFFSET = 1


def test_function_whose_global_changed_is_computed_again_even_where_no_probe_sees_it(monkeypatch: pytest.MonkeyPatch):
    def dataset_fn() -> Dataset:
        return Dataset.range(100).map(lambda x: OFFSET if x == 5 else 0)

    before = dataset_fn()
    assert sum(plain(before)) == 1
    monkeypatch.setitem(globals(), "OFFSET", 7)
    assert sum(plain(dataset_fn())) == 7


@pytest.mark.parametrize(("numbers", "is_shared"), [(2, True), (20_000, False)])
def test_what_is_compared_at_every_row_is_given_up_where_it_takes_too_long(numbers: int, is_shared: bool):
    shift = np.zeros(numbers)

    def dataset_fn() -> Dataset:
        return Dataset.from_tensor_slices(np.zeros(1000, np.float32)).map(lambda x: x + shift[0], pure=True)

    one_by_one, batched = dataset_fn(), dataset_fn()
    assert sum(1 for _ in one_by_one) == 1000
    assert (batched.table is one_by_one.table) is is_shared
