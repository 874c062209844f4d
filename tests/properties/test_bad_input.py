"""Bad input gets an error of a fitting class that says what to do next; nothing hangs."""

from __future__ import annotations

from collections.abc import Iterator

import keras as plain_keras
import numpy as np
import pytest

import simdist as sd
from simdist import keras


@pytest.fixture
def cluster() -> Iterator[sd.Cluster]:
    with sd.Cluster({"worker": 2, "ps": 2}) as cluster:
        yield cluster


@pytest.fixture
def coordinator(cluster: sd.Cluster) -> sd.ClusterCoordinator:
    return sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(20)))


def test_unknown_task_in_a_fault_names_the_nearest(cluster: sd.Cluster) -> None:
    with pytest.raises(ValueError, match="Did you mean 'worker:1'"):
        cluster.faults.crash("wroker:1", at=1.0)


def test_fault_in_the_past_is_refused(cluster: sd.Cluster) -> None:
    cluster.world.clock.sleep(2.0)
    with pytest.raises(ValueError, match="in the past"):
        cluster.faults.crash("worker:1", at=1.0)


def test_fault_that_never_fires_is_a_warning() -> None:
    cluster = sd.Cluster({"worker": 1})
    cluster.faults.crash("worker:0", at=5.0)
    with pytest.warns(UserWarning, match="never fired"):
        cluster.close()


def test_more_shards_than_rows_gives_one_row_a_shard(coordinator: sd.ClusterCoordinator) -> None:
    with coordinator.strategy.scope():
        v = sd.Variable(np.arange(6.0).reshape(3, 2), name="v")
    assert isinstance(v, sd.ShardedVariable)
    assert [shard.shape for shard in v.variables] == [(1, 2)] * 3
    assert v.numpy().tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_dataset_that_runs_out_is_out_of_range_and_leaves_a_clean_queue(coordinator: sd.ClusterCoordinator) -> None:
    @sd.function
    def step(iterator: Iterator[object]) -> object:
        return next(iterator)

    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(4).batch(2))
    iterator = iter(dataset)
    for _ in range(9):
        coordinator.schedule(step, args=(iterator,))
    with pytest.raises(sd.errors.OutOfRangeError, match="run out"):
        coordinator.join()
    assert coordinator.schedule(step, args=(iter(dataset),)).fetch().tolist() == [0, 1]


def test_next_on_a_per_worker_iterator_at_the_coordinator_is_refused(coordinator: sd.ClusterCoordinator) -> None:
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.range(4))
    with pytest.raises(sd.errors.FailedPreconditionError, match="Pass the iterator"):
        next(iter(dataset))


def test_closure_that_raises_gives_its_own_error_once(coordinator: sd.ClusterCoordinator) -> None:
    failed = coordinator.schedule(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        coordinator.join()
    coordinator.join()
    with pytest.raises(ZeroDivisionError):
        failed.fetch()
    assert coordinator.schedule(lambda: 7).fetch() == 7


def test_value_that_is_not_finite_names_task_and_time(coordinator: sd.ClusterCoordinator) -> None:
    with coordinator.strategy.scope():
        zero = sd.Variable(0.0, name="zero")

    @sd.function
    def step() -> object:
        return sd.check_numerics(np.float32(0.0) / zero.value, "ratio")

    coordinator.schedule(step)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"ratio.*worker:\d"):
        coordinator.join()


def test_loss_that_is_nan_ends_fit_with_advice(coordinator: sd.ClusterCoordinator) -> None:
    with coordinator.strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(1e30), "mse")
    x = np.full((32, 2), 100.0, np.float32)
    with pytest.raises(sd.errors.InvalidArgumentError, match="Lower the learning rate"):
        model.fit(sd.Dataset.from_tensor_slices((x, x[:, :1])).batch(4), epochs=5, verbose=0)


def test_plain_keras_model_made_in_a_scope_refuses_to_train_alone(coordinator: sd.ClusterCoordinator) -> None:
    with coordinator.strategy.scope():
        model = plain_keras.Sequential([plain_keras.Input((2,)), plain_keras.layers.Dense(1)])
    for call in (lambda: model.compile("sgd", "mse"), lambda: model.fit(np.zeros((4, 2)), np.zeros((4, 1)), verbose=0)):
        with pytest.raises(sd.errors.FailedPreconditionError, match=r"simdist\.keras"):
            call()


def test_join_that_nothing_can_end_says_why() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        cluster.faults.crash("worker:0", at=0.5)
        coordinator.schedule(lambda: cluster.world.clock.sleep(1.0))
        with pytest.raises(sd.errors.DeadlineExceededError, match="1 closures"):
            coordinator.join()


def test_variable_from_outside_the_scope_is_refused_in_a_step(coordinator: sd.ClusterCoordinator) -> None:
    layer = plain_keras.layers.Dense(1)
    layer.build((None, 2))

    @sd.function
    def step() -> object:
        return layer(np.ones((1, 2), np.float32))

    coordinator.schedule(step)
    with pytest.raises(sd.errors.InvalidArgumentError, match=r"outside strategy\.scope"):
        coordinator.join()


def test_values_are_refused_where_none_are_computed() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}, numerics="off") as cluster:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            v = sd.Variable(1.0, name="v")
        coordinator = sd.ClusterCoordinator(strategy)

        @sd.function
        def step() -> object:
            return v.value * 2.0

        value = coordinator.schedule(step)
        coordinator.join()
        with pytest.raises(sd.errors.FailedPreconditionError, match="numerics"):
            value.fetch()
