"""`strategy.local_results` in a step: the value of each replica, as outside of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_a_step_sees_the_value_of_each_replica(replicas: int) -> None:
    strategy = sd.MirroredStrategy(replicas)
    given = strategy.distribute_values_from_function(lambda context: np.float32(context.replica_id_in_sync_group))

    @sd.function
    def step(value: Any) -> Any:
        values = strategy.run(lambda x: {"once": x, "twice": 2 * x}, args=(value,))
        return strategy.local_results(values)

    with strategy.scope():
        inside = step(given)
        outside = strategy.local_results(strategy.run(lambda x: {"once": x, "twice": 2 * x}, args=(given,)))
    assert inside == outside == tuple([{"once": rank, "twice": 2 * rank} for rank in range(replicas)])
