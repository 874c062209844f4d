"""A value of each replica is not one value: what would take it for one is refused, and says what to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
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
    "function of jax": jnp.sum,
    "compiled function": jax.jit(lambda value: value + 1),
    "math": math.sqrt,
    "equal": lambda value: value == 1,
    "unequal": lambda value: value != 1,
    "in a list": lambda value: value in [0, 1],
    "equal to a float of numpy": lambda value: np.float32(1) == value,
}


@pytest.mark.parametrize("use", USES)
def test_value_of_each_replica_is_not_taken_for_one(use: str) -> None:
    value = sd.MirroredStrategy(2).run(lambda: sd.get_replica_context().replica_id_in_sync_group)
    with pytest.raises((InvalidArgumentError, TypeError), match=r"strategy\.reduce|local_results"):
        USES[use](value)


def test_values_of_each_replica_are_keys_and_equal_themselves_alone() -> None:
    one, other = sd.PerReplica([1, 2]), sd.PerReplica([1, 2])
    assert one == one and one != other and {one: "a", other: "b"}[one] == "a" and one in {one} and [other, one].index(one) == 1


def _pairs_of_rows(strategy: sd.Strategy) -> list[Any]:
    return list(strategy.distribute_dataset(sd.Dataset.range(7).batch(4)))  # parts of 2 and 2, then of 2 and 1


def test_a_number_of_rows_that_differs_among_the_replicas_is_a_number_of_each() -> None:
    strategy = sd.MirroredStrategy(2)
    even, uneven = _pairs_of_rows(strategy)

    @sd.function
    def rows(batch: Any) -> tuple[Any, Any]:
        found = strategy.run(lambda x: x.shape[0], args=(batch,))
        return found, strategy.reduce("mean", found, axis=None)

    assert rows(even) == (2, 2)
    counts, mean = rows(uneven)
    assert strategy.local_results(counts) == (2, 1)
    assert float(mean) == 1.5


def test_a_number_of_rows_that_an_iterator_gives_is_a_number_of_each() -> None:
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def mean(batches: Any) -> Any:
        return strategy.reduce("mean", strategy.run(lambda x: x.shape[0], args=(next(batches),)), axis=None)

    batches = iter(strategy.distribute_dataset(sd.Dataset.range(7).batch(4)))
    assert [float(mean(batches)), float(mean(batches))] == [2, 1.5]


def test_values_of_different_shapes_have_numbers_of_their_own() -> None:
    strategy = sd.MirroredStrategy(2)
    values = strategy.distribute_values_from_function(lambda context: np.ones(context.replica_id_in_sync_group + 2))
    size = sd.function(lambda values: strategy.reduce("sum", strategy.run(lambda value: value.size, args=(values,)), axis=None))
    assert int(size(values)) == 5


def test_a_constant_that_all_replicas_have_is_one_for_uneven_batches_too() -> None:
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def summed(batch: Any) -> Any:
        total, kind = strategy.run(lambda x: (x.sum(), 3), args=(batch,))
        return strategy.reduce("sum", total, axis=None) * (1 if kind == 3 else 100)

    assert [int(summed(batch)) for batch in _pairs_of_rows(strategy)] == [6, 15]


def test_a_number_of_rows_of_each_is_not_compared_with_one() -> None:
    strategy = sd.MirroredStrategy(2)
    even, uneven = _pairs_of_rows(strategy)
    is_two = sd.function(lambda batch: strategy.run(lambda x: x.shape[0], args=(batch,)) == 2)
    assert is_two(even) is True
    with pytest.raises(InvalidArgumentError, match=r"compared.*strategy\.reduce"):
        is_two(uneven)
