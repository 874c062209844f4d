"""The device that holds the variables adds what changes them, and keeps the sum; a sum that replicas need comes back to them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist.hardware import LinkModel, Network

NUM, BANDWIDTH, LATENCY_S = 10_000, 1e6, 1e-3
TRAVEL_S = 4 * NUM / BANDWIDTH
WAYS_S = {
    ("cpu:0", "increment"): LATENCY_S + 3 * TRAVEL_S,
    ("gpu:0", "increment"): LATENCY_S + 2 * TRAVEL_S,  # one of the three is there already
    ("cpu:0", "all-reduce"): 2 * (LATENCY_S + 3 * TRAVEL_S),
    ("cpu:0", "gradient"): 2 * (LATENCY_S + 3 * TRAVEL_S),  # the variable goes there, its gradient comes back
    ("gpu:0", "gradient"): 2 * (LATENCY_S + 2 * TRAVEL_S),
}


@pytest.mark.parametrize(("parameter_device", "what"), WAYS_S)
def test_sums_travel_to_the_device_of_the_variables_and_back_where_replicas_need_them(parameter_device: str, what: str) -> None:
    network = Network().within_host(LinkModel(bandwidth=BANDWIDTH, latency=LATENCY_S))
    strategy = sd.CentralStorageStrategy(["gpu:0", "gpu:1", "gpu:2"], parameter_device, sd.Cluster({"worker": 1}, network=network))
    with strategy.scope():
        v = sd.Variable(np.zeros(NUM, np.float32), aggregation=sd.VariableAggregation.SUM)
        optimizer = sd.Optimizer(optax.sgd(-1.0))

    def replica(x: Any) -> Any:
        ones = jnp.ones(NUM) * x
        if what == "increment":
            v.assign_add(ones)
            return x
        if what == "gradient":
            _, gradients = sd.value_and_grad(lambda: (v.value * ones).sum(), [v])()
            optimizer.apply_gradients(zip(gradients, [v], strict=True))
            return x
        return sd.get_replica_context().all_reduce("sum", ones).sum()

    result = sd.function(lambda x: strategy.run(replica, args=(x,)), seconds=1.0)(sd.PerReplica([np.ones(1, np.float32)] * 3))
    assert strategy.cluster.now == pytest.approx(1.0 + WAYS_S[parameter_device, what], abs=1e-4)
    assert (float(v.numpy()[0]), float(result.values[0].sum())) == ((0.0, 3.0 * NUM) if what == "all-reduce" else (3.0, 1.0))


@pytest.mark.parametrize("aggregation", ["MEAN", "ONLY_FIRST_REPLICA", "SUM", "NONE"])
def test_copies_of_on_read_are_updated_by_values_of_their_replicas(aggregation: str) -> None:
    """Each replica has one, on its device: the single copy on the parameter device is that of other variables."""
    strategy = sd.CentralStorageStrategy(["gpu:0", "gpu:1"], "cpu:0")
    with strategy.scope():
        v = sd.Variable(1.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation[aggregation])
    strategy.extended.update(v, lambda copy, x: copy.assign(x), args=(sd.PerReplica([np.float32(2.0), np.float32(5.0)]),))
    assert [float(x) for x in strategy.local_results(strategy.run(lambda: v.read_value()))] == [2.0, 5.0]
