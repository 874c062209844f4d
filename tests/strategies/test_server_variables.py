"""Where variables of parameter servers lie, and into which shards they are cut."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.strategies.server_variables import require_partitioner


def test_a_variable_that_is_made_beside_another_lies_on_its_server() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}))
    with strategy.scope():
        first, second = sd.Variable([1.0], name="first"), sd.Variable([2.0], name="second")
        with strategy.extended.colocate_vars_with(second):
            colocated_with = sd.Variable([3.0], name="beside")
        after = sd.Variable([4.0], name="after")
    assert [v.device for v in (first, second, colocated_with, after)] == ["ps:0", "ps:1", "ps:1", "ps:2"]


def test_a_variable_of_keras_says_where_its_shards_lie() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        layer = keras.layers.Embedding(7, 3)
        layer.build()
        bias = keras.Variable(0.0)
    table = layer.embeddings
    assert [(r.task, r.row_start, r.row_stop) for r in table.placements()] == [("ps:0", 0, 4), ("ps:1", 4, 7)]
    assert (table.device, bias.device) == ("ps:0,ps:1", "ps:0")


def test_neither_a_scalar_nor_a_variable_beside_another_is_split() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table, count = sd.Variable(np.zeros((5, 3), np.float32)), sd.Variable(0.0)
        with strategy.extended.colocate_vars_with(count):
            beside = sd.Variable(np.zeros((5, 3), np.float32))
    assert [(part.start, part.stop) for part in strategy.ranges_of(table)] == [(0, 3), (3, 5)]
    assert strategy.ranges_of(count) == [] and beside.device == count.device == "ps:0"


@pytest.mark.parametrize("given", [sd.FixedShardsPartitioner, 2])
def test_what_cannot_split_is_no_partitioner(given: object) -> None:
    require_partitioner(sd.FixedShardsPartitioner(2))
    require_partitioner(None)
    with pytest.raises(TypeError, match=r"^variable_partitioner is .*; expected for example sd"):
        require_partitioner(given)


def test_a_variable_from_outside_of_every_scope_moves_to_the_chief_with_its_value() -> None:
    outside = sd.Variable([3.0, 4.0])
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    total = sd.ClusterCoordinator(strategy).schedule(sd.function(lambda: outside.read_value().sum())).fetch()
    assert (float(total), outside.device, strategy.variables) == (7.0, "chief:0", [outside])


@pytest.mark.parametrize(
    ("value", "trainable", "tasks"),
    [
        (np.zeros(2, np.float32), True, ["ps:0", "ps:1"]),
        (np.zeros(2, "bfloat16"), True, ["ps:0", "ps:1"]),
        (np.zeros(2, np.float32), False, ["chief:0"]),
        (np.zeros(2, np.int32), True, ["chief:0"]),
    ],
)
def test_what_takes_the_assignment_of_the_first_replica_is_a_counter_unless_it_is_trained(
    value: np.ndarray, trainable: bool, tasks: list[str]
) -> None:
    """A counter's changes travel with the reply of its closure; what is trained is split and updated as all else."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        v = sd.Variable(value, trainable=trainable, aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA)
    assert [record.task for record in v.placements()] == tasks


@pytest.mark.parametrize("aggregation", ["NONE", "ONLY_FIRST_REPLICA"])
def test_rounds_average_what_is_trained_whatever_its_assignments_do(aggregation: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync")
    with strategy.scope():
        v = sd.Variable(0.0, aggregation=sd.VariableAggregation[aggregation])
        optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))

    def step(x: float) -> None:
        _, gradients = sd.value_and_grad(lambda: v.value * x, [v])()
        optimizer.apply_gradients(zip(gradients, [v], strict=True))

    coordinator, train = sd.ClusterCoordinator(strategy), sd.function(step)
    for x in (1.0, 2.0, 4.0, 8.0):
        coordinator.schedule(train, args=(np.float32(x),))
    coordinator.join()
    assert v.numpy() == -7.5  # two rounds of (1 + 2) / 2 and (4 + 8) / 2
