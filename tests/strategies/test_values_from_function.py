"""`strategy.distribute_values_from_function`: a value for each replica."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.strategies.values_from_function import ValueContext


def test_values_from_a_function_are_those_that_it_returned() -> None:
    """A function may return the same buffer for each replica, with other numbers."""
    strategy, buffer = sd.MirroredStrategy(2), np.zeros(2, np.float32)

    def fill(context: ValueContext) -> dict[str, object]:
        buffer[:] = context.replica_id_in_sync_group + 1
        return {"numbers": buffer, "rank": context.replica_id_in_sync_group}

    values = strategy.distribute_values_from_function(fill)
    buffer[:] = 9
    found = strategy.experimental_local_results(values)
    assert [(list(one["numbers"]), one["rank"]) for one in found] == [([1, 1], 0), ([2, 2], 1)]
    assert [float(total) for total in strategy.experimental_local_results(strategy.run(lambda v: v["numbers"].sum(), (values,)))] == [2, 4]


def test_each_part_of_a_structure_is_a_value_of_all_replicas() -> None:
    strategy = sd.MirroredStrategy(2)

    def batch(context: ValueContext) -> dict[str, object]:
        rank = context.replica_id_in_sync_group
        return {"states": [np.full(2, rank, np.float32), None], "rank": rank}

    values = strategy.distribute_values_from_function(batch)
    assert strategy.local_results(values["rank"]) == (0, 1)
    states, nothing = values["states"]
    assert [part.tolist() for part in states.values] == [[0.0, 0.0], [1.0, 1.0]] and nothing.values == (None, None)
    sums = strategy.run(sd.function(lambda given: given["states"][0].sum() + given["rank"]), (values,))
    assert [float(total) for total in strategy.local_results(sums)] == [0.0, 3.0]
    with pytest.raises(
        InvalidArgumentError, match=r"returns PyTreeDef\(\[\]\) for the first replica, and PyTreeDef\(\[\*\]\) for number 1"
    ):
        strategy.distribute_values_from_function(lambda context: [1] * context.replica_id_in_sync_group)


def test_the_value_of_a_single_replica_is_as_it_was_returned() -> None:
    assert sd.OneDeviceStrategy().distribute_values_from_function(lambda context: context.num_replicas_in_sync) == 1


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a function of a ValueContext; got int"):
        sd.MirroredStrategy(2).distribute_values_from_function(7)  # pyright: ignore[reportArgumentType]
