"""Numbers that JAX has no dtype for are refused by name, wherever they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd

WIDE = [np.arange(4).astype(wide) for wide, kept in (("g", "d"), ("G", "D")) if np.dtype(wide).itemsize > np.dtype(kept).itemsize]
RECORDS = np.rec.array([(1, 2.0)] * 4)

TAKES: dict[str, Callable[[Any], object]] = {
    "a variable": sd.Variable,
    "a step": lambda x: sd.OneDeviceStrategy().run(sd.function(lambda y: y), args=(x,)),
    "a result": lambda x: sd.function(lambda: x)(),
    "a dataset": sd.Dataset.from_tensor_slices,
    "a map": lambda x: list(sd.Dataset.range(2).map(lambda _: x)),
}


@pytest.mark.parametrize("name", TAKES)
def test_numbers_wider_than_those_of_jax_are_refused(name: str) -> None:
    for array in WIDE:  # none where long double is double
        with (
            sd.OneDeviceStrategy().scope(),
            pytest.raises(sd.errors.InvalidArgumentError, match=rf"{array.dtype.name}.*(astype|at most 64)"),
        ):
            TAKES[name](array)


@pytest.mark.parametrize("name", TAKES)
def test_records_are_refused(name: str) -> None:
    with sd.OneDeviceStrategy().scope(), pytest.raises(sd.errors.InvalidArgumentError, match=r"record"):
        TAKES[name](RECORDS)
