"""Text that ends in a zero, which NumPy's arrays of text drop: it is refused, wherever it comes from, and never shortened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdist.data import Dataset
from simdist.errors import InvalidArgumentError
from simdist.lookup import KeyValueTensorInitializer, StaticHashTable, StringLookup

ENTRIES: dict[str, Callable[[], Any]] = {
    "row": lambda: Dataset.from_tensor_slices([b"a\0", b"b"]),
    "row of text": lambda: Dataset.from_tensor_slices({"x": ["a", "b\0"]}),
    "row of objects": lambda: Dataset.from_tensor_slices(np.array(["a\0", "long enough"], object)),
    "result of a map": lambda: list(Dataset.range(3).map(lambda x: x.tobytes())),
    "element of an iterable": lambda: list(Dataset.from_iterable([b"abc", b"\0"])),
    "rows in rows": lambda: Dataset.from_tensor_slices([["a", "b"], ["c", "d\0"]]),
    "vocabulary": lambda: StringLookup(vocabulary=["a", "a\0"]),
    "key": lambda: StaticHashTable(KeyValueTensorInitializer(["a", "a\0"], [1, 2]), 0),
    "value": lambda: StaticHashTable({1: "a", 2: "a\0"}, ""),
    "default": lambda: StaticHashTable({1: "a"}, "\0"),
    "looked up": lambda: StringLookup(vocabulary=["a"])("a\0"),
    "looked up as objects": lambda: StringLookup(vocabulary=["a"])(np.array([b"a\0"], object)),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_text_that_ends_in_a_zero_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"ends in a zero.*np\.frombuffer"):
        ENTRIES[name]()


def test_zeros_inside_stay_and_bytes_may_be_numbers() -> None:
    assert [bytes(x) for x in Dataset.from_tensor_slices([b"a\0b", b"c"])] == [b"a\0b", b"c"]
    as_numbers = Dataset.range(2).map(lambda x: np.frombuffer(x.tobytes(), np.uint8))
    assert [x.tolist() for x in as_numbers] == [[0, 0, 0, 0], [1, 0, 0, 0]]


def test_contents_of_files_are_not_shortened(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\1\0")
    read = Dataset.list_files(str(tmp_path / "*.bin"))
    with pytest.raises(InvalidArgumentError, match="ends in a zero"):
        list(read.map(lambda name: Path(str(name)).read_bytes()))
    assert [x.tolist() for x in read.map(lambda name: np.fromfile(str(name), np.uint8))] == [[1, 0]]
