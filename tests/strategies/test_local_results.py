"""`strategy.local_results` in a step: the value of each replica, as outside of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
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


@pytest.mark.parametrize("asks_for_rank", [False, True])
def test_a_step_returns_values_of_replicas_that_it_has_put_together(asks_for_rank: bool) -> None:
    """Also where each replica is traced by itself, and has put all of them together."""
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def step(value: Any) -> Any:
        doubled = strategy.run(lambda x: x * (2.0 + sd.get_replica_context().replica_id_in_sync_group * asks_for_rank), args=(value,))
        total = strategy.reduce("sum", doubled, axis=None)
        return sd.PerReplica(strategy.local_results(doubled)), sd.PerReplica([{"x": total}, {"x": total + 1}]), sd.PerReplica([total] * 3)

    with strategy.scope():
        doubled, totals, of_devices = step(np.float32(3.0))
    factor = 3.0 if asks_for_rank else 2.0
    assert doubled.values == (6.0, 3 * factor)
    assert totals.values == ({"x": 6 + 3 * factor}, {"x": 7 + 3 * factor})
    assert of_devices.values == (6 + 3 * factor,) * 3


def test_a_step_whose_python_runs_each_time_returns_values_that_it_has_put_together() -> None:
    strategy = sd.MirroredStrategy(2)

    @sd.function
    def step(x: Any) -> Any:
        return sd.PerReplica([x, 2 * x])

    step.run_eagerly = True
    with strategy.scope():
        assert [step(np.float32(x)).values for x in (3, 4)] == [(3.0, 6.0), (4.0, 8.0)]


@pytest.mark.parametrize("numerics", ["deferred", "replay"])
def test_what_was_read_cannot_be_written_to(numerics: str) -> None:
    """`total += value` makes a new array, as with every array of JAX: neither results nor variables change with it."""
    strategy = sd.CentralStorageStrategy(4, cluster=sd.Cluster({"worker": 1}, numerics=numerics))
    with strategy.scope():
        mean = sd.Variable(np.ones(2, np.float32), aggregation="mean")
        seen = sd.Variable(np.zeros(2, np.float32), synchronization="on_read", aggregation="sum")

    def replica(rank: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        mean.assign_add(jnp.ones(2) * rank)
        seen.assign_add(jnp.ones(2) * rank)
        return context.all_gather(rank[None], axis=0), jnp.ones(2) * rank

    ranks = strategy.distribute_values_from_function(lambda context: np.float32(context.replica_id_in_sync_group))
    _, doubled = strategy.run(replica, args=(ranks,))
    read = [*strategy.local_results(doubled), *strategy.local_results(seen), mean.value]
    before = list(map(np.array, read))
    for value in read:
        value += 1.0  # what a program does that adds them up
        assert isinstance(value, jax.Array)
    np.testing.assert_array_equal([*strategy.local_results(doubled), *strategy.local_results(seen), mean.value], before)
    np.testing.assert_array_equal(strategy.reduce("sum", doubled, axis=None), [6.0, 6.0])
    np.testing.assert_array_equal(seen.numpy(), [6.0, 6.0])


def test_what_was_fetched_cannot_be_written_to() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}, numerics="replay"))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        variable = sd.Variable(np.ones(2, np.float32))
    step = sd.function(lambda: (variable.assign_add(jnp.ones(2)), variable.value * 2.0)[1])
    results = [coordinator.schedule(step) for _ in range(3)]
    coordinator.join()
    for result in coordinator.fetch(results):
        with pytest.raises(ValueError, match="read-only"):
            result += 1.0
