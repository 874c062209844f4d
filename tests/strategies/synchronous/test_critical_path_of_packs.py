"""The critical path of a step whose gradients travel in packs: the packs one after the other, and no gap."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import simdist as sd
from simdist import keras


def test_path_goes_through_the_packs_in_their_order_and_leaves_nothing_unexplained() -> None:
    cluster = sd.Cluster({"worker": 2}, network=sd.hardware.ethernet_1g, numerics="off")
    strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=sd.CommunicationOptions(bytes_per_pack=200_000))
    with strategy.scope():
        hidden = [keras.layers.Dense(256, activation="relu") for _ in range(4)]
        model = keras.Sequential([keras.Input((256,)), *hidden, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse")
    model.fit(np.zeros((128, 256), np.float32), np.zeros((128, 1), np.float32), batch_size=64, epochs=1, verbose=0)
    path = cluster.trace.critical_path()
    assert sum(part.duration_s + part.waited_s for part in path.segments) == pytest.approx(cluster.now)
    steps = [part for part in path.segments if part.span.start_s >= path.segments[-1].span.end_s / 2]
    assert sum(part.waited_s for part in steps) == 0.0, "all of a step is explained"
    packs = [part.span for part in steps if part.span.lane.endswith("/network")]
    assert len(packs) >= 4 and all(before.end_s == after.start_s for before, after in itertools.pairwise(packs))
    assert {part.span.category for part in steps} <= {"collective", "apply", "compute"}, "the packs stand for the wait for them"
