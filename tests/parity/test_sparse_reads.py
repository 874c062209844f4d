"""Conformance cases B050, B055, B056, B091, B100, C32 and T5 (sparse reads): combined rows, rows in the order asked, gradients of lookups,
which travel as rows, and time without the table's size.

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


def sum_of_rows(size: int, ids: list[int], rows: list[float]) -> tuple[np.ndarray, sd.Cluster]:
    """What two replicas, each with one id and one row, add up for a table of this size, beside a dense gradient."""
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variables = [sd.Variable(np.zeros((size, 1), np.float32)), sd.Variable(np.zeros((3, 1), np.float32))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    def replica(ids: Any, rows: Any) -> None:
        table, w = variables
        _, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) * rows).sum() + w.value.sum(), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))

    numbers = sd.PerReplica([np.array([one], np.int32) for one in ids])
    strategy.run(replica, args=(numbers, sd.PerReplica([np.array([[one]], np.float32) for one in rows])))
    return -variables[0].numpy()[:, 0], strategy.cluster


def collectives(cluster: sd.Cluster) -> set[tuple[str, int]]:
    return {(span.name, span.facts["bytes"]) for span in cluster.trace.spans if span.category == "collective"}


@pytest.mark.parametrize(("ids", "expected"), [([0, 1], {0: 1, 1: 2}), ([1, 1], {1: 3})])
def test_b091_rows_are_put_together_and_those_of_equal_ids_are_added(ids: list[int], expected: dict[int, float]) -> None:
    found, _ = sum_of_rows(100, ids, [1, 2])
    assert {number: value for number, value in enumerate(found.tolist()) if value} == expected


def test_b100_rows_are_never_packed_with_other_gradients() -> None:
    _, cluster = sum_of_rows(100, [0, 1], [1, 2])
    assert collectives(cluster) == {("all_reduce gradients", 12), ("all_gather gradients", 12)}
    _, cluster = sum_of_rows(3, [0, 1], [1, 2])
    assert collectives(cluster) == {("all_reduce gradients", 24)}


def test_c32_gradients_of_a_large_table_take_the_bytes_and_the_time_of_their_rows() -> None:
    gathers = [
        {
            (span.end_s - span.start_s, span.facts["bytes"])
            for span in sum_of_rows(size, [5, 5], [1, 2])[1].trace.spans
            if span.name == "all_gather gradients"
        }
        for size in (100, 50_000)
    ]
    (small,), (large,) = gathers
    assert small[1] == large[1] == 8 + 4
    assert large[0] == pytest.approx(small[0], rel=1e-6)
