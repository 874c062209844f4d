"""Conformance cases B050, B055, B056 and T5 (sparse reads): combined rows, the order of rows, gradients, time without the table's size.

TensorFlow gives the rows of B055 grouped by shard, and has no gradient with respect to a variable in shards (B056).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.hardware import Device, Network


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([[0, 3], [4, -1], [1, -1]], [[4, 5], [9, 10], [3, 4]]), ([[0, 3], [-1, -1], [1, -1]], [[4, 5], [0, 0], [3, 4]])],
    ids=["sparse", "safe"],
)
def test_b050_a_sparse_lookup_gives_the_means_of_rows_and_zeros_of_none(ids: Any, expected: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(3))
    with strategy.scope():
        table = sd.Variable(np.arange(1.0, 11.0).reshape(5, 2), name="table")
    step = sd.function(lambda ids: sd.embedding_lookup_sparse(table, ids, combiner="mean"))
    found = sd.ClusterCoordinator(strategy).schedule(step, args=(np.array(ids, np.int32),)).fetch()
    assert np.asarray(found).tolist() == expected


def test_b055_rows_are_in_the_order_asked_for() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(np.arange(14.0).reshape(7, 2), name="table")
    coordinator = sd.ClusterCoordinator(strategy)
    rows = coordinator.schedule(sd.function(lambda ids: sd.embedding_lookup(table, ids)), args=(np.array([6, 0, 4], np.int32),))
    assert np.asarray(rows.fetch()).tolist() == [[12, 13], [0, 1], [8, 9]]


def test_b056_a_variable_in_shards_has_a_gradient_which_each_shard_gets_its_rows_of() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table, optimizer = sd.Variable(np.zeros((7, 2)), name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

    @sd.function
    def step(ids: Any) -> Any:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return gradients[0]

    coordinator = sd.ClusterCoordinator(strategy)
    gradient = coordinator.schedule(step, args=(np.array([6, 0, 6], np.int32),))
    coordinator.join()
    expected = np.zeros((7, 2))
    expected[0], expected[6] = 1, 2
    assert np.asarray(gradient.fetch()).tolist() == expected.tolist()
    assert table.numpy().tolist() == (-expected).tolist()


@pytest.mark.parametrize("rows", [1_000, 50_000])
def test_t5_a_sparse_read_and_push_take_the_time_of_their_rows(rows: int) -> None:
    bandwidth, width, asked = 1e6, 16, 10
    free = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    network = Network(bandwidth=bandwidth, latency=0.0)
    cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware={"worker": free, "ps": free}, network=network, numerics="off")
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        table, optimizer = sd.Variable(np.zeros((rows, width)), name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))

    @sd.function
    def step(ids: Any) -> None:
        _, gradients = sd.value_and_grad(lambda: sd.embedding_lookup(table, ids).sum(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(step, args=(np.arange(asked, dtype=np.int32),))
    coordinator.join()
    spans = {span.category: span for span in cluster.trace.spans}
    seconds = asked * (width * 4 + 8) / bandwidth
    assert spans["read"].end_s - spans["read"].start_s == pytest.approx(seconds, rel=1e-9)
    assert spans["update"].end_s - spans["update"].start_s == pytest.approx(seconds, rel=1e-9)
