"""The mean of whole numbers of several replicas is that of numpy, also where their sum does not fit their dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd

VALUES = [np.uint8(200), np.int32(2**30 + 1), np.int8(-128), np.bool_(True)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.dtype.name)
@pytest.mark.parametrize("axis", [None, 0])
def test_mean_is_exact_where_the_sum_overflows(value: Any, axis: int | None) -> None:
    strategy = sd.MirroredStrategy(3)
    parts = strategy.distribute_values_from_function(lambda _: np.full(2, value))
    expected = np.full(2, value).mean(axis)
    in_a_step = sd.function(lambda: strategy.reduce("mean", strategy.run(lambda: jnp.full(2, value)), axis))
    for found in (strategy.reduce(sd.ReduceOp.MEAN, parts, axis), in_a_step()):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_mean_of_an_all_reduce_is_exact_where_the_sum_overflows() -> None:
    strategy = sd.MirroredStrategy(3)
    means = strategy.run(lambda: sd.get_replica_context().all_reduce("mean", {"a": jnp.uint8(200), "b": jnp.int32(2**30 + 1)}))
    first = strategy.local_results(means)[0]
    np.testing.assert_allclose([first["a"], first["b"]], [200.0, 2**30 + 1], rtol=1e-6)


def test_sum_of_integers_stays_an_integer() -> None:
    strategy = sd.MirroredStrategy(3)
    assert strategy.reduce("sum", strategy.run(lambda: jnp.int32(2)), None).dtype == np.int32
