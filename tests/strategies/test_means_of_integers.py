"""Sums and means of whole numbers and truth values of several replicas are those of numpy, also where a sum does not fit its dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd

VALUES = [np.uint8(200), np.int32(2**30 + 1), np.int8(-128), np.bool_(True)]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.dtype.name)
@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.sample
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


@pytest.mark.parametrize("replicas", [1, 4])
def test_a_sum_of_truth_values_counts_them(replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    hits = strategy.distribute_values_from_function(lambda context: np.array([True, context.replica_id_in_sync_group == 0]))
    together = strategy.run(lambda hit: sd.get_replica_context().all_reduce("sum", hit), args=(hits,))
    for found in (strategy.reduce("sum", hits, axis=None), strategy.local_results(together)[0]):
        assert found.dtype == np.int32 and found.tolist() == [replicas, 1]
    assert int(strategy.reduce("sum", hits, axis=0)) == replicas + 1


def test_the_dtype_of_a_mean_does_not_depend_on_the_number_of_replicas() -> None:
    for strategy in (sd.OneDeviceStrategy(), sd.MirroredStrategy(1), sd.MirroredStrategy(2)):
        values = strategy.run(lambda: jnp.arange(2))
        assert strategy.reduce("mean", values, axis=None).dtype == np.float32
        within = strategy.run(lambda: sd.get_replica_context().all_reduce("mean", jnp.arange(2)))
        assert strategy.local_results(within)[0].dtype == np.float32


def test_a_variable_of_truth_values_has_no_sum() -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match="SUM needs numbers"):
        sd.Variable(True, aggregation=sd.VariableAggregation.SUM)


# -- sums --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "float16"])
@pytest.mark.sample(2)
def test_sums_have_the_dtype_of_their_values_with_and_without_an_axis(dtype: str) -> None:
    strategy = sd.MirroredStrategy(3)
    values = strategy.run(lambda: jnp.full((2,), 100, dtype))
    for axis, like in ((None, np.full(2, 300)), (0, np.int64(600))):
        expected = np.asarray(like).astype(dtype)  # wraps around, as additions in the dtype do
        outside = strategy.reduce("sum", values, axis=axis)
        (inside,) = strategy.local_results(strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.full((2,), 100, dtype))))[:1]
        assert outside.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(outside, expected)
        if axis is None:
            assert inside.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(inside, expected)


def test_a_sum_over_an_axis_of_one_replica_has_the_dtype_of_its_values() -> None:
    total = sd.OneDeviceStrategy().reduce("sum", np.full(4, 100, np.int8), axis=0)
    assert (total.dtype, int(total)) == (np.dtype(np.int8), -112)
