"""Gradient accumulation, as Keras' optimizers offer it: the same weights under every strategy, and as one larger batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from tests.strategies.conftest import weights

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})),
    "central": lambda: sd.CentralStorageStrategy(2),
}


def fit(build: Any, strategy: Any, optimizer: Callable[[], Any], rows_per_batch: int, steps: int) -> list[np.ndarray]:
    x = np.random.default_rng(4).normal(size=(48, 4)).astype(np.float32)
    model = build(strategy, optimizer)
    dataset = sd.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(rows_per_batch).repeat()
    model.fit(dataset, epochs=1, steps_per_epoch=steps, verbose=0)
    return weights(model)


@functools.cache  # what several strategies are compared with
def in_one_step(build: Any, rows_per_batch: int) -> list[np.ndarray]:
    return fit(build, sd.OneDeviceStrategy(), lambda: keras.optimizers.Adam(0.01), rows_per_batch, 4)


SAMPLE = {("one device", 2), ("mirrored", 3), ("workers", 2), ("central", 3)}  # what CI tries: every strategy, and both numbers of steps


@pytest.mark.parametrize(("name", "steps"), sampled([(name, steps) for name in STRATEGIES for steps in (2, 3)], SAMPLE))
def test_steps_that_are_accumulated_equal_one_step_with_all_their_rows(build: Any, name: str, steps: int) -> None:
    def accumulating() -> Any:
        return keras.optimizers.Adam(0.01, gradient_accumulation_steps=steps)

    found = fit(build, STRATEGIES[name](), accumulating, 8, 4 * steps)
    expected = in_one_step(build, 8 * steps)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-6)


def test_between_updates_nothing_changes(build: Any) -> None:
    start = weights(build(sd.MirroredStrategy(2)))
    found = fit(build, sd.MirroredStrategy(2), lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=4), 8, 3)
    assert [own.tobytes() for own in found] == [other.tobytes() for other in start]
