"""Which server gets the next cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.strategies.server_placement import FewestBytes, RoundRobin, server_placement


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(1, 4))
def test_the_fullest_server_by_bytes_holds_at_most_one_variable_more_than_the_emptiest(sizes: list[int], servers: int) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": servers}), placement="bytes")
    with strategy.scope():
        for size in sizes:
            sd.Variable(np.zeros(size, np.float32))
    held = FewestBytes(strategy.servers, strategy.store.layout).held_bytes()
    assert sum(held.values()) == 4 * sum(sizes)
    assert max(held.values()) - min(held.values()) <= 4 * max(sizes)


def test_of_equally_full_servers_the_first_is_chosen() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}), sd.FixedShardsPartitioner(5), placement="bytes")
    with strategy.scope():
        table = sd.Variable(np.zeros((5, 1)))
    assert [cell.task for cell in table.placement.cells] == ["ps:0", "ps:1", "ps:2", "ps:0", "ps:1"]


def test_metrics_on_the_chief_do_not_count() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), placement="bytes")
    with strategy.scope():
        sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
    assert FewestBytes(strategy.servers, strategy.store.layout).held_bytes() == {"ps:0": 0, "ps:1": 0}


def test_placements_by_name() -> None:
    layout = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})).store.layout
    assert isinstance(server_placement("round_robin", ["ps:0"], layout), RoundRobin)
    with pytest.raises(InvalidArgumentError, match="use one of 'round_robin', 'bytes'"):
        server_placement("turns", ["ps:0"], layout)


@pytest.mark.parametrize("name", ["size", None, ["bytes"], {"bytes": 1}])
def test_unknown_placement_is_refused(name: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is not known; use one of 'round_robin', 'bytes'"):
        sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), placement=name)  # type: ignore[arg-type]
