"""Means of numbers of half precision are those of numpy in float64, rounded once, also where their sum does not fit their dtype."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd

NUMBERS = np.array([[40_000.0, 1.0], [50_000.0, 2.0], [64_000.0, 4.5]])
DTYPES = ["float16", "bfloat16"]
MEAN = NUMBERS.mean(axis=0)


def parts_of(strategy: Any, dtype: str) -> Any:
    return strategy.distribute_values_from_function(lambda context: jnp.asarray(NUMBERS[context.replica_id_in_sync_group], dtype))


def require(found: Any, dtype: str, expected: Any = MEAN) -> None:
    rounded = np.mean(np.asarray(jnp.asarray(NUMBERS, dtype), np.float64), axis=0 if np.ndim(expected) else None)
    assert found.dtype == jnp.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(jnp.asarray(rounded, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mean_over_replicas_that_fits(dtype: str) -> None:
    strategy = sd.MirroredStrategy(3)
    parts = parts_of(strategy, dtype)
    require(strategy.reduce("mean", parts, axis=None), dtype)
    in_a_step = sd.function(lambda given: strategy.reduce("mean", strategy.run(lambda part: part + 0, args=(given,)), axis=None))
    require(in_a_step(parts), dtype)
    within = strategy.run(lambda part: sd.get_replica_context().all_reduce("mean", {"a": part, "b": jnp.int32(3)}), args=(parts,))
    for found in strategy.local_results(within):
        require(found["a"], dtype)
        assert float(found["b"]) == 3.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mean_over_an_axis_that_fits(dtype: str) -> None:
    strategy = sd.MirroredStrategy(3)
    parts = parts_of(strategy, dtype)
    require(strategy.reduce("mean", parts, axis=0), dtype, MEAN.mean())
    in_a_step = sd.function(lambda given: strategy.reduce("mean", strategy.run(lambda part: part + 0, args=(given,)), axis=0))
    require(in_a_step(parts), dtype, MEAN.mean())


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_variable_that_is_the_mean_of_the_replicas(dtype: str) -> None:
    strategy = sd.MirroredStrategy(3)
    with strategy.scope():
        read, written = (
            sd.Variable(jnp.zeros(2, dtype), trainable=False, synchronization=when, aggregation="mean") for when in ("on_read", "on_write")
        )

    def step(part: Any) -> None:
        read.assign(part)
        written.assign(part)

    strategy.run(step, args=(parts_of(strategy, dtype),))
    require(read.numpy(), dtype)
    require(written.numpy(), dtype)
    require(sd.function(lambda: read + 0)(), dtype)


def test_mains_have_the_mean_of_all() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            mine = sd.Variable(jnp.zeros(2, "float16"), trainable=False, synchronization="on_read", aggregation="mean")
        parts = parts_of(strategy, "float16")
        strategy.run(mine.assign, args=(parts,))
        return strategy.reduce("mean", parts, axis=None), mine.numpy()

    run = sd.Cluster({"worker": 3}).launch(main)
    run.join()
    for found in run.results.values():
        for mean in found:
            require(mean, "float16")


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_dtype_of_a_mean_does_not_depend_on_the_number_of_replicas(dtype: str) -> None:
    for strategy in (sd.OneDeviceStrategy(), sd.MirroredStrategy(1), sd.MirroredStrategy(2)):
        values = strategy.run(lambda: jnp.ones(2, dtype))
        assert strategy.reduce("mean", values, axis=None).dtype == jnp.dtype(dtype)
        within = strategy.run(lambda: sd.get_replica_context().all_reduce("mean", jnp.ones(2, dtype)))
        assert strategy.local_results(within)[0].dtype == jnp.dtype(dtype)
