"""Parameter servers whose workers have several devices: numbers, variables, input, and what happens when a worker dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
Y = X.sum(axis=1)


def servers(workers: int = 1, devices: int = 2, engine: str = "simulated", **options: Any) -> sd.ParameterServerStrategy:
    isolated = {"engine": "in_process", "isolated": True}
    cluster = sd.Cluster({"worker": workers, "ps": 2}, **(isolated if engine == "isolated" else {"engine": engine}))
    return sd.ParameterServerStrategy(cluster, devices_per_worker=devices, **options)


def loss_of(w: Any, x: Any, y: Any) -> Any:
    """Of one replica: its part of the mean over four rows."""
    return jnp.sum((x @ w - y) ** 2) / 4.0


class Training:
    """A linear model that workers train, and what they have seen.

    Args:
        strategy: its.
        source: makes a dataset of each worker; None: batches of 4, split among the replicas.
    """

    def __init__(self, strategy: sd.ParameterServerStrategy, source: Callable[[], Any] | None = None) -> None:
        self.strategy = strategy
        self.coordinator = sd.ClusterCoordinator(strategy)
        with strategy.scope():
            self.w = sd.Variable(np.zeros(3, np.float32), name="w")
            self.seen = sd.Variable(0.0, synchronization="on_read", aggregation="sum", name="seen")
            self.optimizer = sd.Optimizer(optax.sgd(0.1))
        plain = sd.Dataset.from_tensor_slices((X, Y)).batch(4).repeat()
        self.iterator = iter(self.coordinator.create_per_worker_dataset(source or strategy.distribute_dataset(plain)))
        self.step = sd.function(self._step)

    def _step(self, iterator: Any) -> Any:
        losses = self.strategy.run(self._replica, args=(next(iterator),))
        return losses, self.strategy.reduce("sum", losses, axis=None)

    def _replica(self, batch: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(self.w.value, *batch)
        self.seen.assign_add(jnp.float32(batch[0].shape[0]))
        self.optimizer.apply_gradients([(gradient, self.w)])
        return loss

    def steps(self, count: int) -> list[Any]:
        values = [self.coordinator.schedule(self.step, args=(self.iterator,)) for _ in range(count)]
        self.coordinator.join()
        return self.coordinator.fetch(values)


def by_hand(steps: int, replicas: int) -> tuple[np.ndarray[Any, Any], list[list[Any]]]:
    """The same training in plain JAX: each replica by itself, gradients added in their order."""
    gradient_of, w, losses = jax.jit(jax.value_and_grad(loss_of)), jnp.zeros(3), []
    apply = jax.jit(lambda w, g: w + -0.1 * g)
    for step in range(steps):
        parts = np.array_split(np.arange(4) + 4 * step % 12, replicas)
        found = [gradient_of(w, X[rows], Y[rows]) for rows in parts]
        losses.append([loss for loss, _ in found])
        total = found[0][1]
        for _, gradient in found[1:]:
            total = total + gradient
        w = apply(w, total)
    return np.asarray(w), losses


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
def test_the_numbers_are_those_of_a_loop_over_the_replicas(engine: str) -> None:
    training = Training(servers(engine=engine))
    found = training.steps(5)
    w, losses = by_hand(5, 2)
    np.testing.assert_array_equal(training.w.numpy(), w)
    for (per_replica, total), expected in zip(found, losses, strict=True):
        np.testing.assert_allclose(training.strategy.local_results(per_replica), expected, rtol=1e-6)
        np.testing.assert_allclose(total, sum(expected), rtol=1e-6)
    assert training.seen.numpy() == 20.0


@pytest.mark.parametrize("numerics", ["eager", "vmap", "off"])
def test_a_closure_takes_the_same_time_however_its_numbers_are_computed(numerics: str) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2}, numerics=numerics)
    training, expected = Training(sd.ParameterServerStrategy(cluster, devices_per_worker=2)), Training(servers())
    for trained in (training, expected):
        for _ in range(3):
            trained.coordinator.schedule(trained.step, args=(trained.iterator,))
        trained.coordinator.join()
    assert cluster.now == expected.strategy.cluster.now
    if numerics != "off":
        np.testing.assert_allclose(training.w.numpy(), expected.w.numpy(), rtol=1e-6)


@pytest.mark.parametrize("devices", [2, 3])
def test_several_devices_train_as_one(devices: int) -> None:
    alone, together = Training(servers(devices=1)), Training(servers(devices=devices))
    expected, found = alone.steps(3), together.steps(3)
    np.testing.assert_allclose([total for _, total in found], [total for _, total in expected], rtol=1e-5)
    np.testing.assert_allclose(together.w.numpy(), alone.w.numpy(), rtol=1e-5)
    assert together.seen.numpy() == alone.seen.numpy() == 12.0


def test_several_steps_in_a_closure_are_several_closures() -> None:
    one, other = Training(servers()), Training(servers())
    one.steps(3)
    result = other.coordinator.schedule_steps(other.step, (other.iterator,), {}, 3)
    other.coordinator.join()
    np.testing.assert_array_equal(other.w.numpy(), one.w.numpy())
    assert other.strategy.cluster.world.tasks["worker:0"].steps == 3
    np.testing.assert_allclose(result.value()[1], sum(by_hand(3, 2)[1][2]), rtol=1e-6)  # type: ignore[index]


def test_rounds_average_over_workers_what_their_replicas_have_added_up() -> None:
    found = Training(servers(workers=2, mode="sync"))
    found.steps(2)
    # Both workers read the same batch in the only round, so the average is one worker's gradient.
    np.testing.assert_allclose(found.w.numpy(), by_hand(1, 2)[0], rtol=1e-6)
    assert found.seen.numpy() == 8.0


# -- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", [0.2, 0.5, 0.8])
def test_a_closure_whose_worker_dies_is_run_again_and_counts_once(moment: float) -> None:
    calm = Training(servers())
    calm.steps(3)
    duration_s = calm.strategy.cluster.now
    training = Training(servers(workers=2, exactly_once=True))
    cluster = training.strategy.cluster
    cluster.faults.crash("worker:0", at=moment * duration_s, restart_after=0.1)
    training.steps(3)
    assert training.seen.numpy() == 12.0
    updates = [span for span in cluster.trace.spans if span.category == "apply" and span.lane.startswith("ps")]
    assert len(updates) == 3
    # All replicas of the worker went with it: nothing of the first incarnation is still computing.
    assert not [
        span for span in cluster.trace.spans if span.lane.startswith("worker:0/") and span.start_s < moment * duration_s < span.end_s
    ]


def test_a_step_that_one_replica_has_failed_leaves_all_of_them_before_the_same_batch() -> None:
    strategy = servers()
    coordinator = sd.ClusterCoordinator(strategy)
    numbers = np.arange(8, dtype=np.float32)
    numbers[2] = np.inf  # of the first replica, in the second step: the other one has not begun then
    dataset = strategy.distribute_dataset(sd.Dataset.from_tensor_slices(numbers).batch(2))
    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    step = sd.function(lambda iterator: strategy.run(lambda x: sd.check_numerics(x, "x") + 0.0, args=(next(iterator),)))
    first = coordinator.schedule(step, args=(iterator,)).fetch()
    coordinator.schedule(step, args=(iterator,))
    with pytest.raises(sd.errors.InvalidArgumentError, match="a value is NaN or Inf"):
        coordinator.join()
    third = coordinator.schedule(step, args=(iterator,)).fetch()
    assert [[part.tolist() for part in strategy.local_results(value)] for value in (first, third)] == [[[0.0], [1.0]], [[4.0], [5.0]]]
    computed = [span.lane for span in strategy.cluster.trace.spans.where(category="compute")]
    assert [computed.count(f"worker:0/gpu:{device}") for device in range(2)] == [2, 2]  # of the second step neither has computed anything


@pytest.mark.parametrize("how", [{"after_steps": 2}, {"at": 5e-4}])
def test_a_worker_that_dies_between_steps_goes_on_with_the_next_incarnation(how: dict[str, Any]) -> None:
    training = Training(servers())
    training.strategy.cluster.faults.crash("worker:0", restart_after=0.1, **how)
    training.steps(5)
    assert training.seen.numpy() == 20.0 and training.strategy.cluster.world.tasks["worker:0"].incarnation == 1


# -- variables --------------------------------------------------------------------------------------------------------


def scheduled(strategy: sd.ParameterServerStrategy, replica: Callable[[], Any]) -> Any:
    """The result of a function that all replicas of a worker have run once."""
    coordinator = sd.ClusterCoordinator(strategy)
    value = coordinator.schedule(sd.function(lambda: strategy.run(replica)))
    coordinator.join()
    return value.fetch()


def rank() -> Any:
    context = sd.get_replica_context()
    assert context is not None
    return context.replica_id_in_sync_group


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
@pytest.mark.parametrize("aggregation, expected", [("sum", 3.0), ("mean", 1.5), ("only_first_replica", 1.0)])
@pytest.mark.sample
def test_an_assignment_of_the_replicas_is_aggregated_in_the_worker(engine: str, aggregation: str, expected: float) -> None:
    strategy = servers(engine=engine)
    with strategy.scope():
        v = sd.Variable(np.float32(5.0), aggregation=aggregation)
    scheduled(strategy, lambda: v.assign(jnp.float32(1.0) + rank()))
    assert v.numpy() == expected
    scheduled(strategy, lambda: v.assign_add(jnp.float32(1.0) + rank()))
    assert v.numpy() == 2 * expected


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
def test_what_the_replicas_count_is_added_up_and_needs_no_collective(engine: str) -> None:
    strategy = servers(engine=engine, workers=2)
    with strategy.scope():
        count = sd.Variable(0.0, synchronization="on_read", aggregation="sum")
    for _ in range(2):
        scheduled(strategy, lambda: count.assign_add(jnp.float32(1.0) + rank()))
    assert count.numpy() == 6.0
    assert not [span for span in strategy.cluster.trace.spans if span.category == "collective"]
    total = sd.ClusterCoordinator(strategy).schedule(sd.function(lambda: count.value + 0.0))
    assert total.fetch() == 6.0  # not the sum over replicas of what is the sum already


def test_what_a_replica_cannot_do_alone_is_refused() -> None:
    strategy = servers()
    with strategy.scope():
        plain, count = sd.Variable(np.zeros(3, np.float32), name="plain"), sd.Variable(0.0, synchronization="on_read", aggregation="sum")
        own = sd.Variable(0.0, per_worker_variable=True, name="own")
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: plain.assign(plain.value), ValueError, "plain has aggregation NONE, and the 2 replicas"),
        (lambda: own.assign(own.value), ValueError, "own has aggregation NONE"),
        (lambda: count.assign(jnp.float32(1.0)), ValueError, "Use assign_add"),
        (lambda: plain.scatter_update([0], [1.0]), NotImplementedError, "call it outside strategy.run"),
        (lambda: plain.assign_add(plain.value) if rank() else None, ValueError, "aggregation NONE"),
    ]
    for replica, error, message in cases:
        with pytest.raises(error, match=message):
            scheduled(strategy, replica)
    coordinator = sd.ClusterCoordinator(strategy)
    with pytest.raises(sd.errors.InvalidArgumentError, match="across the replicas"):
        coordinator.schedule(sd.function(lambda: count.assign_add(1.0))), coordinator.join()
    assert (plain.numpy().tolist(), count.numpy()) == ([0.0] * 3, 0.0)


def test_replicas_that_change_different_variables_are_refused() -> None:
    strategy = servers()
    with strategy.scope():
        first, second = sd.Variable(0.0, name="first"), sd.Variable(0.0, name="second")
    coordinator = sd.ClusterCoordinator(strategy)

    def step() -> None:
        ranks: list[int] = []
        strategy.run(lambda: ranks.append(rank()))
        (first if ranks[0] else second).assign_add(1.0)

    with pytest.raises(sd.errors.InvalidArgumentError, match="replica 0 and replica 1 of a worker change different variables"):
        coordinator.schedule(sd.function(step)), coordinator.join()
    assert (first.numpy(), second.numpy()) == (0.0, 0.0)


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
def test_code_across_the_replicas_changes_variables_once_where_they_are(engine: str) -> None:
    strategy = servers(engine=engine, variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(np.zeros((4, 2), np.float32), name="table")
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> Any:
        before = table.value.sum()
        table.assign_add(np.ones((4, 2), np.float32))
        table.scatter_update([1], [[7.0, 7.0]])
        return before, table.value

    before, after = coordinator.schedule(step).fetch()
    assert (before, after.tolist()) == (0.0, [[1.0, 1.0], [7.0, 7.0], [1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(table.numpy(), after)


def test_a_container_of_variables_has_one_value_for_all_replicas() -> None:
    strategy = servers()
    with strategy.scope():
        table = sd.ShardedVariable([sd.Variable([0.0], aggregation="sum"), sd.Variable([1.0], aggregation="sum")])
    scheduled(strategy, lambda: table.assign_add(jnp.ones(2)))
    assert table.numpy().tolist() == [2.0, 3.0]


# -- what replicas do together ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
def test_replicas_of_a_worker_combine_values_and_workers_do_not(engine: str) -> None:
    strategy = servers(workers=2, engine=engine)

    def replica() -> Any:
        context, own = sd.get_replica_context(), jnp.float32(1.0) + rank()
        assert context is not None and context.num_replicas_in_sync == 2
        merged = context.merge_call(lambda strategy, value: strategy.reduce("mean", value, axis=None), args=(own,))
        return own, context.all_reduce("sum", own), context.all_gather(own[None], 0), merged

    own, total, gathered, merged = scheduled(strategy, replica)
    assert strategy.local_results(own) == (1.0, 2.0) and strategy.local_results(total) == (3.0, 3.0)
    assert [part.tolist() for part in strategy.local_results(gathered)] == [[1.0, 2.0]] * 2
    assert strategy.local_results(merged) == (1.5, 1.5)
    assert strategy.reduce("sum", own, axis=None) == 3.0
    given = strategy.distribute_values_from_function(lambda context: np.float32(10 * context.replica_id_in_sync_group))
    coordinator = sd.ClusterCoordinator(strategy)
    doubled = coordinator.schedule(sd.function(lambda value: strategy.run(lambda x: 2 * x, args=(value,))), args=(given,)).fetch()
    assert strategy.local_results(doubled) == (0.0, 20.0)


# -- input ------------------------------------------------------------------------------------------------------------


def taken(strategy: sd.ParameterServerStrategy, source: Any, count: int) -> list[Any]:
    """What the replicas of the workers get of a dataset, closure by closure."""
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(source))
    step = sd.function(lambda iterator: strategy.run(lambda x: x + 0, args=(next(iterator),)))
    values = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(count)])
    return [[part.tolist() for part in strategy.local_results(value)] for value in values]


@pytest.mark.parametrize("engine", ["simulated", "in_process", "isolated"])
def test_a_distributed_dataset_is_split_and_a_plain_one_is_not(engine: str) -> None:
    dataset = sd.Dataset.range(10).batch(4)
    strategy = servers(engine=engine)
    assert taken(strategy, strategy.distribute_dataset(dataset), 3) == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8], [9]]]
    assert taken(servers(engine=engine), dataset, 2) == [[[0, 1, 2, 3]] * 2, [[4, 5, 6, 7]] * 2]


def test_replicas_take_the_batches_of_a_function_in_turn() -> None:
    contexts: list[sd.InputContext] = []

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        contexts.append(context)
        return sd.Dataset.range(100 * context.input_pipeline_id, 100 * context.input_pipeline_id + 8).batch(2)

    strategy = servers(workers=2)
    found = taken(strategy, lambda: strategy.distribute_datasets_from_function(dataset_fn), 2)
    assert sorted(found) == [[[0, 1], [2, 3]], [[100, 101], [102, 103]]]
    assert contexts == [sd.InputContext(2, 0, 2), sd.InputContext(2, 1, 2)]
    assert contexts[0].get_per_replica_batch_size(64) == 32


def test_the_end_of_the_data_is_an_error_of_the_closure() -> None:
    strategy = servers()
    with pytest.raises(sd.errors.OutOfRangeError, match="The dataset of worker:0 has run out"):
        taken(strategy, strategy.distribute_dataset(sd.Dataset.range(4).batch(4)), 2)


# -- where steps run --------------------------------------------------------------------------------------------------


def test_a_step_on_the_chief_has_as_many_replicas(caplog: pytest.LogCaptureFixture) -> None:
    strategy = servers()
    with strategy.scope():
        v = sd.Variable(0.0, aggregation="sum")
    strategy.run(lambda: v.assign_add(jnp.float32(1.0) + rank()))
    assert v.numpy() == 3.0 and [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_plain_function_on_a_worker_runs_its_replicas() -> None:
    strategy = servers()
    coordinator = sd.ClusterCoordinator(strategy)
    assert coordinator.schedule(lambda: strategy.run(rank).values).fetch() == (0, 1)


def test_a_worker_that_joins_has_the_devices_of_the_others() -> None:
    training = Training(servers())
    training.coordinator.add_worker()
    training.steps(8)
    lanes = {span.lane for span in training.strategy.cluster.trace.spans if span.category == "compute"}
    assert {"worker:0/gpu:1", "worker:1/gpu:0", "worker:1/gpu:1"} <= lanes
    assert training.seen.numpy() == 32.0


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_a_wrong_number_of_devices_is_refused(count: Any) -> None:
    with pytest.raises((sd.errors.InvalidArgumentError, TypeError), match="devices_per_worker"):
        servers(devices=count)
