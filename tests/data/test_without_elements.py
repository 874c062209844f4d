"""Pipelines without elements: what their elements would look like, as far as anything says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.data import ArraySpec, Dataset
from simdist.errors import InvalidArgumentError

NO_ROWS = Dataset.from_tensor_slices(np.zeros((0, 3), np.float32))
ROWS = Dataset.from_tensor_slices(np.ones((2, 3), np.float32))
NOTHING = Dataset.from_iterable(list)
ROW, BATCH = ArraySpec((3,), "float32"), ArraySpec((None, 3), "float32")


def doubled(dataset: Dataset, pure: bool | None = None) -> Dataset:
    return dataset.map(lambda x: x * 2, pure=pure)


CASES: dict[str, tuple[Dataset, Any]] = {
    "mapped": (doubled(NO_ROWS), ROW),
    "mapped by an impure function": (doubled(NO_ROWS, pure=False), ROW),
    "mapped twice": (doubled(doubled(NO_ROWS)), ROW),
    "mapped batches": (doubled(NO_ROWS.batch(2)), BATCH),
    "batched": (doubled(NO_ROWS).batch(2), BATCH),
    "padded": (doubled(NO_ROWS).padded_batch(2), ArraySpec((None, None), "float32")),
    "behind a filter": (doubled(ROWS.filter(lambda x: False, pure=False)), ROW),
    "nothing is taken": (doubled(ROWS.take(0), pure=False), ROW),
    "zipped": (Dataset.zip((doubled(NO_ROWS), Dataset.range(3))), (ROW, ArraySpec((), "int32"))),
    "before another": (doubled(NO_ROWS).concatenate(ROWS), ROW),
    "behind another": (ROWS.concatenate(doubled(NO_ROWS)), ROW),
    "nothing before another": (NOTHING.concatenate(ROWS), ROW),
    "nothing behind another": (ROWS.concatenate(NOTHING), ROW),
    "texts": (
        Dataset.from_tensor_slices(np.zeros(0, "U5")).map(lambda text: (text, len(text))),
        (ArraySpec((), "str0"), ArraySpec((), "int32")),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_known_without_any(name: str) -> None:
    dataset, spec = CASES[name]
    found = dataset.element_spec
    if name == "texts":
        assert found[0].dtype.startswith("str") and found[1:] == spec[1:]
    else:
        assert found == spec
    assert len(list(dataset)) == (2 if "another" in name else 0)


@pytest.mark.parametrize(
    "make", [lambda: NOTHING, lambda: doubled(NOTHING), lambda: NOTHING.concatenate(NOTHING), lambda: NOTHING.batch(2)]
)
def test_where_nothing_says_it_that_is_said(make: Callable[[], Dataset]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"from_iterable\(\).* has no elements, so their shapes are unknown"):
        make().element_spec  # noqa: B018
    assert list(make()) == []


def test_a_function_that_cannot_take_zeros_says_why() -> None:
    def fraction(x: Any) -> Any:
        if not x.any():
            raise ValueError("all are zero")
        return x / x.sum()

    with pytest.raises(ValueError, match="all are zero"):
        NO_ROWS.map(fraction).element_spec  # noqa: B018


def test_replicas_without_rows_have_texts_of_no_rows() -> None:
    mapped = Dataset.from_tensor_slices(np.array(["a", "bc"])).map(lambda text: text)
    table = mapped.node.table()
    assert table is not None
    (leaf,) = table.take(np.empty(0, np.int32))
    assert leaf.shape == (0,) and leaf.dtype.kind == "U"
