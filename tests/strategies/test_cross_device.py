"""Cross-device operations that a step calls itself: what travels for them is what a reduction needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest

import simdist as sd
from simdist.strategies.base import Strategy
from simdist.strategies.cross_device import CrossDeviceOps

NUMBERS = 1 << 20
OPERATIONS = [sd.NcclAllReduce, sd.HierarchicalCopyAllReduce, sd.ReductionToOneDevice]
Combine = Callable[[Strategy, CrossDeviceOps, Any], Any]


def reduced(make: Callable[[], CrossDeviceOps], combine: Combine) -> tuple[Any, float, set[str]]:
    """What a step of four replicas gives, its seconds, and its collectives."""
    operations = make()
    strategy = sd.MirroredStrategy(4, cross_device_ops=operations)

    def replica() -> Any:
        return jnp.full(NUMBERS, 1.0 + sd.get_replica_context().replica_id_in_sync_group)

    result = sd.function(lambda: combine(strategy, operations, strategy.run(replica)))()
    spans = strategy.cluster.trace.spans.where(category="collective")
    return result, strategy.cluster.now, {span.name for span in spans}


@pytest.mark.parametrize("make", OPERATIONS)
def test_reduce_costs_what_a_reduction_of_the_strategy_does(make: Callable[[], CrossDeviceOps]) -> None:
    total, seconds, names = reduced(make, lambda strategy, operations, x: operations.reduce("sum", x, "gpu:0")[0])
    expected, expected_s, expected_names = reduced(make, lambda strategy, operations, x: strategy.reduce("sum", x, axis=None)[0])
    assert (float(total), names) == (float(expected), expected_names) == (10.0, {"all_reduce"})
    assert seconds == expected_s


def test_batch_reduce_and_a_broadcast_to_the_places_of_a_value_gather_nothing() -> None:
    def combine(strategy: Strategy, operations: CrossDeviceOps, x: Any) -> Any:
        first, second = operations.batch_reduce("mean", [(x, x), (x, "gpu:0")])
        return first[0], second[0], operations.broadcast(5.0, x).num_replicas

    (first, second, count), _, names = reduced(sd.NcclAllReduce, combine)
    assert (float(first), float(second), count, names) == (2.5, 2.5, 4, {"all_reduce"})


def test_a_value_knows_how_many_replicas_have_one() -> None:
    assert sd.PerReplica([1.0, 2.0]).num_replicas == 2


def by_operations(strategy: Strategy, value: Any, destinations: Any) -> Any:
    return sd.ReductionToOneDevice().broadcast(value, destinations)


def by_the_strategy(strategy: Strategy, value: Any, destinations: Any) -> Any:
    return strategy.extended.broadcast_to(value, destinations)


@pytest.mark.parametrize("broadcast", [by_operations, by_the_strategy])
@pytest.mark.parametrize("asks_for_rank", [False, True])
def test_a_step_returns_what_it_has_broadcast(broadcast: Callable[[Strategy, Any, Any], Any], asks_for_rank: bool) -> None:
    def combine(strategy: Strategy, operations: CrossDeviceOps, x: Any) -> Any:
        y = strategy.run(lambda x: x[0] * (1.0 + sd.get_replica_context().replica_id_in_sync_group * asks_for_rank), args=(x,))
        total = strategy.reduce("sum", y, axis=None)
        everywhere = broadcast(strategy, total, y)
        added = strategy.reduce("sum", strategy.run(lambda y, total: total - y, args=(y, everywhere)), axis=None)
        return broadcast(strategy, 5.0, y), everywhere, added

    (fives, totals, added), _, names = reduced(sd.NcclAllReduce, combine)
    total = 30.0 if asks_for_rank else 10.0
    assert (fives.values, totals.values, float(added)) == ((5.0,) * 4, (total,) * 4, 3 * total)
    assert names == {"all_reduce"}


@pytest.mark.parametrize("broadcast", [by_operations, by_the_strategy])
def test_a_broadcast_of_values_of_replicas_is_refused(broadcast: Callable[[Strategy, Any, Any], Any]) -> None:
    values = sd.PerReplica([1.0, 2.0])
    with pytest.raises(sd.errors.InvalidArgumentError, match="Reduce it first"):
        broadcast(sd.MirroredStrategy(2), values, values)
