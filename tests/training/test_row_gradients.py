"""`fit` of models with an embedding under synchronous strategies: gradients of its table travel as rows by themselves."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

NUM_ROWS, WIDTH = 300, 4
ROW_BYTES = WIDTH * 4 + 8


def fitted(strategy: Any, rows: int = 20, **options: Any) -> tuple[list[float], list[np.ndarray], Any]:
    """A model with an embedding, after two epochs of batches of eight: the last has four rows."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, NUM_ROWS, (rows, 3)), rng.normal(size=(rows, 1)).astype(np.float32)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((3,), dtype="int32"),
                keras.layers.Embedding(NUM_ROWS, WIDTH, embeddings_initializer=keras.initializers.RandomNormal(seed=1)),
                keras.layers.Flatten(),
                keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=2)),
            ]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse", **options)
    losses = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history["loss"]
    return losses, [np.asarray(weight) for weight in model.get_weights()], strategy.cluster


@functools.cache  # what the strategies are compared with
def on_one_device() -> tuple[list[float], list[np.ndarray]]:
    losses, weights, _ = fitted(sd.OneDeviceStrategy())
    return losses, weights


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (lambda: sd.MirroredStrategy(2), [12, 12, 6]),
        (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 5})), [6, 6, 3]),  # the last batch has no row for the last worker
        (lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8")), [3, 3, 3]),
    ],
    ids=["mirrored", "workers", "tpu"],
)
@pytest.mark.sample(2)
def test_fit_moves_rows_of_an_embedding_by_itself(make: Callable[[], Any], sizes: list[int]) -> None:
    strategy = make()
    expected_losses, expected = on_one_device()
    losses, weights, cluster = fitted(strategy)
    np.testing.assert_allclose(losses, expected_losses, rtol=2e-6)
    for own, other in zip(weights, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=2e-6)
    spans = Counter(span.facts["bytes"] for span in cluster.trace.spans if span.name == "all_gather gradients")
    assert spans == {size * ROW_BYTES: 2 * strategy.num_replicas_in_sync * sizes.count(size) for size in sizes}


def test_several_steps_in_one_program_gather_rows_of_each_step() -> None:
    expected, _, _ = fitted(sd.OneDeviceStrategy(), rows=16)
    losses, _, cluster = fitted(sd.MirroredStrategy(2), rows=16, steps_per_execution=2)
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    gathers = Counter(span.facts["bytes"] for span in cluster.trace.spans if span.name == "all_gather gradients")
    assert gathers == {12 * ROW_BYTES: 2 * 4}
