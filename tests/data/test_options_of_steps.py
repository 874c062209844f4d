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
    "order": lambda: setattr(Options(), "experimental_deterministic", "no"),
    "distribute": lambda: setattr(Options(), "experimental_distribute", AutoShardPolicy.OFF),
}


@pytest.mark.parametrize("use", REFUSED.values(), ids=REFUSED.keys())
def test_option_that_would_be_taken_for_another_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, InvalidArgumentError), match=r"expected|must be|set its"):
        use()


def test_an_order_may_be_left_to_chance_and_is_kept() -> None:
    options, later = Options(), Options()
    options.experimental_deterministic = False
    assert options.deterministic is False
    found = ROWS.with_options(options).with_options(later).options()
    assert found.deterministic is False and [int(x) for x in ROWS.with_options(options)] == [0, 1, 2, 3, 4, 5]


def test_options_of_speed_say_that_they_may_be_left_out() -> None:
    with pytest.raises(AttributeError, match=r"'experimental_optimization'. It would not change the elements: leave it out"):
        Options().experimental_optimization.map_fusion = True  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match=r"'experimental_slack'. It would not change the elements: leave it out"):
        Options().experimental_slack = True  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match=r"no option 'auto_shard'. Did you mean 'auto_shard_policy'"):
        _ = Options().auto_shard  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("value", [1.5, "x", [1, 2], 2**40])
def test_padding_that_the_dtype_cannot_hold_is_refused(value: Any) -> None:
    ragged = ROWS.map(lambda n: np.full(int(n) + 1, 7))
    with pytest.raises(InvalidArgumentError, match="padding_values"):
        list(ragged.padded_batch(6, padding_values=value))
