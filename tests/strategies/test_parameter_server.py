"""Where parameter servers hold variables that are made beside others."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd


def test_a_variable_that_is_made_beside_another_lies_on_its_server() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}))
    with strategy.scope():
        first, second = sd.Variable([1.0], name="first"), sd.Variable([2.0], name="second")
        with strategy.extended.colocate_vars_with(second):
            colocated_with = sd.Variable([3.0], name="beside")
        after = sd.Variable([4.0], name="after")
    assert [v.device for v in (first, second, colocated_with, after)] == ["ps:0", "ps:1", "ps:1", "ps:2"]


def test_a_server_that_is_down_holds_no_new_variable() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
    cluster.faults.crash("ps:1", at=0.1, restart_after=1.0)
    sd.sleep(0.5, cluster)
    with strategy.scope(), pytest.raises(sd.errors.UnavailableError, match="ps:1 is down, and cannot hold table"):
        sd.Variable(np.ones((4, 2), np.float32), name="table")
    assert (strategy.variables, cluster.world.tasks["ps:0"].memory.in_use_bytes) == ([], 0)
    sd.sleep(1.0, cluster)
    with strategy.scope():
        sd.Variable(np.ones((4, 2), np.float32), name="table")
    assert [cluster.world.tasks[f"ps:{index}"].memory.in_use_bytes for index in range(2)] == [16, 16]
