"""Averages of losses of half precision: those of float32, where the sum is too large, and in the dtype of the losses."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd

ROWS = 2_000


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [None, 2 * ROWS])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_sum_of_losses_of_half_precision_may_be_too_large_for_them(dtype: str, size: int | None, weighted: bool) -> None:
    losses = np.random.default_rng(0).uniform(50, 150, ROWS).astype(np.float32)
    weights = np.arange(ROWS) % 3 if weighted else None
    expected = np.average(np.asarray(jnp.asarray(losses, dtype), np.float32) * (1 if weights is None else weights))
    strategy = sd.MirroredStrategy(2)

    def replica() -> Any:
        return sd.compute_average_loss(jnp.asarray(losses, dtype), weights, size)

    parts = strategy.local_results(strategy.run(replica))
    assert {str(part.dtype) for part in parts} == {dtype}
    np.testing.assert_allclose([float(part) for part in parts], expected / 2, rtol=2e-3 if dtype == "float16" else 1e-2)


def test_the_gradient_of_an_average_of_float16_is_that_of_its_terms() -> None:
    with sd.OneDeviceStrategy().scope():
        v = sd.Variable(np.ones((), np.float16))
    rows = jnp.full((ROWS,), 100, jnp.float16)
    step = sd.function(lambda: sd.value_and_grad(lambda: sd.compute_average_loss(rows * v.value, global_batch_size=ROWS), [v])())
    value, (gradient,) = step()
    assert (float(value), float(gradient)) == (100.0, pytest.approx(100.0, rel=2e-2))


@pytest.mark.parametrize("losses", [[2**40, 2**41], np.array([2**40, 2**41])], ids=["a list", "an array"])
def test_whole_numbers_that_are_large_are_averaged_as_they_are(losses: Any) -> None:
    strategy = sd.OneDeviceStrategy()
    average = strategy.run(lambda: sd.compute_average_loss(losses, global_batch_size=2))
    total = strategy.run(lambda: sd.scale_regularization_loss(losses))
    assert (float(average), float(total)) == (1.5 * 2**40, 3.0 * 2**40)
