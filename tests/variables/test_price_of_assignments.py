"""An assignment costs what its variables cost, whatever other steps have changed together with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import simdist as sd

STRATEGIES: dict[str, Callable[[], Any]] = {
    "mirrored": lambda: sd.MirroredStrategy(devices=2),
    "central storage": lambda: sd.CentralStorageStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_step_takes_as_long_after_another_has_changed_its_variable_with_a_large_one(name: str) -> None:
    strategy = STRATEGIES[name]()
    with strategy.scope():
        large = sd.Variable(np.ones(1_000_000, np.float32), aggregation="mean")
        small = sd.Variable(1.0, aggregation="mean")

    @sd.function
    def both() -> None:
        large.assign(large.value * 0.5)
        small.assign(small.value * 0.5)

    @sd.function
    def one() -> jax.Array:
        small.assign(small.value + 1.0)
        return small.value * 2.0

    def seconds() -> float:
        begin = strategy.cluster.now
        strategy.run(one)
        small.numpy()
        return strategy.cluster.now - begin

    strategy.run(one)
    small.numpy()
    before = seconds()
    strategy.run(both)
    small.numpy()
    assert small.placement.cells[0].group is large.placement.cells[0].group
    assert seconds() == pytest.approx(before, rel=1e-6)
    np.testing.assert_array_equal(small.numpy(), 2.5)
