"""Where parameter servers hold variables that are made beside others."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist import keras


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


def test_a_variable_of_keras_says_where_its_shards_lie() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        layer = keras.layers.Embedding(7, 3)
        layer.build()
        bias = keras.Variable(0.0)
    table = layer.embeddings
    assert [(r.task, r.row_start, r.row_stop) for r in table.placements()] == [("ps:0", 0, 4), ("ps:1", 4, 7)]
    assert (table.device, bias.device) == ("ps:0,ps:1", "ps:0")


def test_without_a_cluster_the_main_of_the_chief_finds_it_in_tf_config() -> None:
    def main() -> list[str]:
        resolver = sd.TFConfigClusterResolver()
        if resolver.task_type in ("worker", "ps"):
            sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
        return sd.ParameterServerStrategy().workers

    run = sd.Cluster({"chief": 1, "worker": 2, "ps": 1}).launch(main, job=["chief", "worker", "ps"])
    run.join()
    assert run.results == {"chief:0": ["worker:0", "worker:1"]}
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"needs an sd\.Cluster.*got nothing"):
        sd.ParameterServerStrategy()
