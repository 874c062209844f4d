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


def test_values_from_a_function_are_those_that_it_returned() -> None:
    """A function may return the same buffer for each replica, with other numbers."""
    strategy, buffer = sd.MirroredStrategy(2), np.zeros(2, np.float32)

    def fill(context: sd.ValueContext) -> dict[str, object]:
        buffer[:] = context.replica_id_in_sync_group + 1
        return {"numbers": buffer, "rank": context.replica_id_in_sync_group}

    values = strategy.distribute_values_from_function(fill)
    buffer[:] = 9
    found = strategy.experimental_local_results(values)
    assert [(list(one["numbers"]), one["rank"]) for one in found] == [([1, 1], 0), ([2, 2], 1)]
    assert [float(total) for total in strategy.experimental_local_results(strategy.run(lambda v: v["numbers"].sum(), (values,)))] == [2, 4]
