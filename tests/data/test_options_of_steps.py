"""Options of a dataset's steps: flags are flags, numbers are numbers, and hints of speed have to make sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simdist.data import AutoShardPolicy, Dataset, Options
from simdist.errors import InvalidArgumentError

ROWS = Dataset.range(6)
REFUSED: dict[str, Callable[[], Any]] = {
    "parallel calls": lambda: ROWS.map(lambda x: x, num_parallel_calls="many"),  # pyright: ignore[reportArgumentType]
    "no calls": lambda: ROWS.batch(2, num_parallel_calls=0),
    "deterministic": lambda: ROWS.map(lambda x: x, deterministic="yes"),  # pyright: ignore[reportArgumentType]
    "pure map": lambda: ROWS.map(lambda x: x, pure="yes"),  # pyright: ignore[reportArgumentType]
    "pure filter": lambda: ROWS.filter(lambda x: True, pure=3),  # pyright: ignore[reportArgumentType]
    "reshuffle": lambda: ROWS.shuffle(3, reshuffle_each_iteration="no"),  # pyright: ignore[reportArgumentType]
    "remainder": lambda: ROWS.batch(2, drop_remainder="no"),  # pyright: ignore[reportArgumentType]
    "padded remainder": lambda: ROWS.padded_batch(2, drop_remainder=1),  # pyright: ignore[reportArgumentType]
    "shuffled files": lambda: Dataset.list_files(__file__, shuffle="no"),  # pyright: ignore[reportArgumentType]
    "seconds": lambda: setattr(Options(), "seconds_per_element", True),
    "seconds as text": lambda: setattr(Options(), "seconds_per_element", "1"),
    "policy of True": lambda: setattr(Options(), "auto_shard_policy", True),
    "distribute": lambda: setattr(Options(), "experimental_distribute", AutoShardPolicy.OFF),
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED.keys())
def test_option_that_would_be_taken_for_another_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, InvalidArgumentError), match=r"expected|must be|set its"):
        use()


@pytest.mark.parametrize("value", [1.5, "x", [1, 2], 2**40])
def test_padding_that_the_dtype_cannot_hold_is_refused(value: Any) -> None:
    ragged = ROWS.map(lambda n: np.full(int(n) + 1, 7))
    with pytest.raises(InvalidArgumentError, match="padding_values"):
        list(ragged.padded_batch(6, padding_values=value))
