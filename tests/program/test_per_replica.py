"""A value of each replica is not one value: what would take it for one is refused, and says what to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

USES: dict[str, Callable[[Any], object]] = {
    "float": float,
    "int": int,
    "bool": bool,
    "len": len,
    "not": lambda value: not value,
    "iteration": list,
    "numpy": np.asarray,
    "jax": jnp.asarray,
    "math": math.sqrt,
}


@pytest.mark.parametrize("use", USES)
def test_value_of_each_replica_is_not_taken_for_one(use: str) -> None:
    value = sd.MirroredStrategy(2).run(lambda: sd.get_replica_context().replica_id_in_sync_group)
    with pytest.raises((InvalidArgumentError, TypeError), match=r"strategy\.reduce|local_results"):
        USES[use](value)
