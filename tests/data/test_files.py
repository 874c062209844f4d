"""Datasets of files: names, lazy reading, once per file, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError, NotFoundError


class Shelf:
    """Files in a dict; notes which of them were read."""

    def __init__(self, **files: Any) -> None:
        self.files, self.read = files, []

    def __call__(self, path: str) -> Any:
        self.read.append(path)
        return self.files[path]


def plain(dataset: Any) -> list[Any]:
    return [np.asarray(element).tolist() for element in dataset]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"b.txt": "three\nfour", "a.txt": "one\ntwo\n", "c.log": "no\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_lines_of_all_files_that_match_in_sorted_order(folder: Path):
    assert plain(Dataset.from_files(str(folder / "*.txt"))) == ["one", "two", "three", "four"]


def test_lines_of_the_given_files_in_the_given_order(folder: Path):
    assert plain(Dataset.from_files([folder / "b.txt", str(folder / "a.txt")]).batch(3)) == [["three", "four", "one"], ["two"]]


def test_names_are_listed_sorted_or_shuffled_by_seed(folder: Path):
    pattern = str(folder / "*.*")
    names = [str(folder / name) for name in ("a.txt", "b.txt", "c.log")]
    assert plain(Dataset.list_files(pattern, shuffle=False)) == names
    orders = {tuple(plain(Dataset.list_files(pattern, seed=seed))) for seed in range(30)}
    assert len(orders) == 6 and all(sorted(order) == names for order in orders)


def test_file_names_can_be_shuffled_before_reading(folder: Path):
    names = Dataset.list_files(str(folder / "*.txt"), seed=1)
    epochs = [plain(Dataset.from_files(names)) for _ in range(8)]
    assert {tuple(epoch) for epoch in epochs} == {("one", "two", "three", "four"), ("three", "four", "one", "two")}


def test_files_are_read_when_they_are_needed_and_once():
    shelf = Shelf(a=np.arange(3), b=np.arange(3, 5))
    dataset = Dataset.from_files(["a", "b"], shelf)
    iterator = iter(dataset.repeat(2))
    assert shelf.read == []
    assert [int(next(iterator)) for _ in range(3)] == [0, 1, 2] and shelf.read == ["a"]
    assert [int(x) for x in iterator] == [3, 4, 0, 1, 2, 3, 4] and shelf.read == ["a", "b"]
    assert plain(dataset) == [0, 1, 2, 3, 4] and shelf.read == ["a", "b"]


def test_files_may_hold_arrays_structures_or_iterables():
    pairs = Dataset.from_files(["a"], Shelf(a=([[1.0], [2.0]], [0, 1])))
    assert [(x.tolist(), int(y)) for x, y in pairs] == [([1.0], 0), ([2.0], 1)]
    assert plain(Dataset.from_files(["a", "b"], Shelf(a=(n * n for n in range(3)), b=[9, 16]))) == [0, 1, 4, 9, 16]
    assert plain(Dataset.from_files(["a"], Shelf(a=Dataset.range(4).batch(2)))) == [[0, 1], [2, 3]]


def test_empty_files_give_nothing(tmp_path: Path):
    (tmp_path / "empty.txt").touch()
    assert plain(Dataset.from_files(tmp_path / "empty.txt")) == []
    assert plain(Dataset.from_files(["a", "b", "c"], Shelf(a=[], b=[1], c=[]))) == [1]


def test_brackets_in_the_name_of_a_file_that_exists_are_no_pattern(tmp_path: Path):
    (tmp_path / "run[1].txt").write_text("x", encoding="utf-8")
    assert plain(Dataset.from_files(tmp_path / "run[1].txt")) == ["x"]


def test_saved_position_inside_a_file_continues_there():
    def dataset() -> Dataset:
        names = Dataset.from_tensor_slices(["a", "b", "c"]).shuffle(3, seed=2)
        return Dataset.from_files(names, Shelf(a=[0, 1, 2], b=[3], c=[4, 5])).repeat(2).batch(2)

    iterator = iter(dataset())
    next(iterator), next(iterator)
    state, rest = iterator.state_dict(), plain(iterator)
    again = iter(dataset())
    again.load_state_dict(state)
    assert plain(again) == rest and len(rest) == 4


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda folder: Dataset.from_files(str(folder / "*.csv")), NotFoundError, "no file matches"),
        (lambda folder: plain(Dataset.from_files(folder / "d.txt")), NotFoundError, "there is no file"),
        (lambda folder: Dataset.from_files(["a"], 3), TypeError, "read is 3"),
        (
            lambda folder: plain(Dataset.from_files(["a"], Shelf(a=(np.ones(2), np.ones(3))))),
            InvalidArgumentError,
            "equal first dimensions",
        ),
        (lambda folder: plain(Dataset.from_files(["a", "b"], Shelf(a=[1], b=[(1, 2)]))), InvalidArgumentError, "one structure"),
    ],
)
def test_errors_say_what_was_wrong(folder: Path, make: Any, error: Any, says: str):
    with pytest.raises(error, match=says):
        make(folder)
