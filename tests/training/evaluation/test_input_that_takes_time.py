"""Evaluation and prediction wait for their input, as training does."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist import keras


def batches(num: int, seconds: float) -> sd.Dataset:
    options = sd.Options()
    options.seconds_per_element = seconds
    return (
        sd.Dataset.from_tensor_slices((np.ones((2 * num, 1), np.float32), np.ones((2 * num, 1), np.float32))).batch(2).with_options(options)
    )


def test_a_launched_main_waits_for_what_it_evaluates_and_predicts() -> None:
    took_s = list[float]()

    def main() -> None:
        with sd.MultiWorkerMirroredStrategy().scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile(loss="mse")
        for task in (model.evaluate, model.predict):
            began_s = cluster.now
            task(batches(3, 2.0) if task == model.evaluate else batches(3, 2.0).map(lambda x, y: x), verbose=0)
            took_s.append(cluster.now - began_s)

    cluster = sd.Cluster({"worker": 1})
    cluster.launch(main).join()
    assert took_s == pytest.approx([6.0, 6.0], rel=1e-3)
