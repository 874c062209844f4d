"""Conformance cases B036 to B045, B066 and C11: where parameter servers hold variables, and what each worker holds for itself."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError


def servers(ps: int = 2, workers: int = 2, partitioner: Any = None, **options: Any) -> sd.ParameterServerStrategy:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": ps}), partitioner, **options)


def test_b036_plain_variables_go_round_robin() -> None:
    strategy = servers(ps=3)
    with strategy.scope():
        variables = [sd.Variable(0.0) for _ in range(4)]
    assert [v.device for v in variables] == ["ps:0", "ps:1", "ps:2", "ps:0"]


def test_b036_a_variable_made_outside_the_scope_lives_on_the_chief_once_a_step_uses_it() -> None:
    strategy = servers()
    outside = sd.Variable(1.0, name="outside")
    assert sd.ClusterCoordinator(strategy).schedule(sd.function(lambda: outside.value + 1.0)).fetch() == 2.0
    assert outside.device == "chief:0"
    outside.assign(5.0)
    assert sd.ClusterCoordinator(strategy).schedule(sd.function(lambda: outside.value + 1.0)).fetch() == 6.0


def test_b038_scalars_are_whole_and_so_is_what_lies_beside_a_shard() -> None:
    strategy = servers(partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        scalar, table = sd.Variable(1.0), sd.Variable(np.zeros((4, 2)))
        assert isinstance(table, sd.ShardedVariable)
        shard = table.variables[1]
        with strategy.extended.colocate_vars_with(shard):
            beside = sd.Variable(np.zeros((4, 2)))
    assert type(scalar) is type(beside) is sd.Variable
    assert beside.device == shard.device


def test_b039_an_initialiser_that_takes_partitions_is_called_for_each_shard() -> None:
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def initial(partition_shape: tuple[int, ...], partition_offset: tuple[int, ...]) -> Any:
        calls.append((partition_shape, partition_offset))
        return np.full(partition_shape, partition_offset[0])

    strategy = servers(partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(initial, shape=(5, 2), dtype="float32")
        whole = sd.Variable(initial, shape=(1, 2), dtype="float32")
        with pytest.raises(InvalidArgumentError, match=r"shape \(4, 1\) for partition_shape=\(2, 1\)"):
            sd.Variable(lambda partition_shape, partition_offset: np.zeros((4, 1)), shape=(4, 1))
    assert calls == [((3, 2), (0, 0)), ((2, 2), (3, 0)), ((1, 2), (0, 0))]
    assert table.numpy()[:, 0].tolist() == [0.0, 0.0, 0.0, 3.0, 3.0]
    assert type(whole) is sd.Variable


def test_b039_another_initialiser_gives_one_whole_that_is_split() -> None:
    calls: list[int] = []

    def initial() -> Any:
        calls.append(0)
        return np.random.default_rng(len(calls)).random((5, 2))

    strategy = servers(partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(initial)
        with pytest.raises(ValueError, match="no initial_value"):
            sd.Variable()
        with pytest.raises(ValueError, match=r"shape=\(5, 2\) and a value of shape \(2,\)"):
            sd.Variable(np.zeros(2), shape=(5, 2))
    assert len(calls) == 1
    np.testing.assert_allclose(table.numpy(), np.random.default_rng(1).random((5, 2)), rtol=1e-6)


def test_b040_the_embedding_of_the_tutorial_is_in_two_shards() -> None:
    strategy = servers(partitioner=sd.MinSizePartitioner(min_shard_bytes=256 << 10, max_shards=2))
    with strategy.scope():
        model = keras.Sequential([keras.layers.Embedding(8, 16384)])
        model.build((None, 3))
    shards = [record for record in strategy.placements() if record.num_shards > 1]
    assert [(shard.task, shard.row_start, shard.row_stop, shard.shape) for shard in shards] == [
        ("ps:0", 0, 4, (8, 16384)),
        ("ps:1", 4, 8, (8, 16384)),
    ]


def test_b041_a_worker_without_several_devices_is_one_replica() -> None:
    strategy = servers(workers=3)
    assert strategy.num_replicas_in_sync == 1
    with strategy.scope():
        v = sd.Variable(1.0, aggregation=sd.VariableAggregation.NONE)
    strategy.run(lambda: v.assign(3.0))
    assert float(v) == 3.0


def test_b041_the_replicas_of_a_worker_are_its_devices() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), devices_per_worker=2)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        none, total = sd.Variable(1.0), sd.Variable(1.0, aggregation=sd.VariableAggregation.SUM)

    @sd.function
    def step() -> Any:
        def replica() -> Any:
            context = sd.get_replica_context()
            assert context is not None
            total.assign_add(1.0 + context.replica_id_in_sync_group)
            return context.num_replicas_in_sync, context.devices

        return strategy.run(replica)

    results = [coordinator.schedule(step) for _ in range(3)]
    coordinator.join()
    assert (strategy.num_replicas_in_sync, float(total)) == (2, 1.0 + 3 * (1.0 + 2.0))
    counts, devices = results[0].fetch()
    assert counts == 2 and strategy.local_results(devices[0]) == ("gpu:0", "gpu:1")
    busy = {span.lane for span in strategy.cluster.trace.spans.where(category="collective")}
    assert busy == {f"worker:{worker}/gpu:{device}" for worker in range(3) for device in range(2)}
    coordinator.schedule(sd.function(lambda: strategy.run(lambda: none.assign(3.0))))
    with pytest.raises(ValueError, match="aggregation NONE"):
        coordinator.join()
    assert float(none) == 1.0


def test_b120_each_worker_knows_its_number_and_its_replicas() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), devices_per_worker=2)
    coordinator = sd.ClusterCoordinator(strategy)

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        assert (context.num_input_pipelines, context.num_replicas_in_sync) == (3, 2)
        rows = sd.Dataset.range(24).shard(context.num_input_pipelines, context.input_pipeline_id)
        return rows.batch(context.get_per_replica_batch_size(8))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn)))
    step = sd.function(lambda iterator: strategy.run(lambda x: x + 0, args=(next(iterator),)))
    values = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(3)])
    parts = [strategy.local_results(value) for value in values]
    assert all([len(part) for part in of_worker] == [4, 4] for of_worker in parts)
    assert sorted(row for of_worker in parts for part in of_worker for row in part.tolist()) == list(range(24))


def test_b120_a_function_with_a_context_of_its_own_does_as_tensorflow() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), devices_per_worker=2)
    coordinator = sd.ClusterCoordinator(strategy)

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        context = sd.InputContext(1, 0, context.num_replicas_in_sync)
        rows = sd.Dataset.range(24).shard(context.num_input_pipelines, context.input_pipeline_id)
        return rows.batch(context.get_per_replica_batch_size(8))

    iterator = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset_fn)))
    step = sd.function(lambda iterator: (sd.get_current_worker_index(), strategy.run(lambda x: x + 0, args=(next(iterator),))))
    values = coordinator.fetch([coordinator.schedule(step, args=(iterator,)) for _ in range(9)])
    for worker in range(3):
        own = [rows.tolist() for index, value in values if index == worker for rows in strategy.local_results(value)]
        assert own[:6] == [list(range(4 * part, 4 * part + 4)) for part in range(6)]


def test_b042_the_resolver_is_that_of_the_cluster() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    assert sd.ParameterServerStrategy(cluster.resolver).cluster_resolver is cluster.resolver


def test_b043_a_step_on_the_coordinator_warns_and_works(caplog: pytest.LogCaptureFixture) -> None:
    strategy = servers(partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        v = sd.Variable(np.zeros((4, 1)))

    @sd.function
    def step(delta: Any) -> Any:
        v.assign_add(delta * np.ones((4, 1), np.float32))
        return {"sum": v.value.sum()}

    assert float(strategy.run(step, args=(2.0,))["sum"]) == 8.0
    assert strategy.cluster.now > 0.0  # variables have come over the network
    assert float(strategy.reduce("sum", strategy.run(lambda: v.value.sum()), axis=None)) == 8.0
    assert float(step(np.float32(1.0))["sum"]) == 12.0
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "was called on the coordinator" in caplog.text


def test_b043_an_error_of_a_step_on_the_coordinator_is_raised_there() -> None:
    strategy = servers()
    with strategy.scope():
        v = sd.Variable(-1.0)
    with pytest.raises(InvalidArgumentError, match="logarithm"):
        strategy.run(sd.function(lambda: sd.check_numerics(jax.numpy.log(v.value), "logarithm")))


def test_b044_a_value_is_read_once_in_the_scope() -> None:
    strategy = servers()
    with strategy.scope():
        v = sd.Variable(1.0)
    with strategy.cache_variable_reads():
        assert float(v) == 1.0
        v.assign(2.0)
        assert float(v.value) == float(v.numpy()) == 1.0
        with pytest.raises(ValueError, match="inside another one"), strategy.cache_variable_reads():
            pass
    assert float(v) == 2.0


def test_b044_in_a_step_each_variable_is_read_once() -> None:
    strategy = servers()
    with strategy.scope():
        v = sd.Variable(1.0)

    def step() -> Any:
        with strategy.cache_variable_reads():
            before = v.value
            v.assign(2.0)
            gradient = sd.value_and_grad(lambda: v.value**2, [v])()[1][0]
            inside = v.value
        return before, inside, v.value, gradient

    fetched = sd.ClusterCoordinator(strategy).schedule(sd.function(step)).fetch()
    assert [float(value) for value in fetched] == [1.0, 1.0, 2.0, 4.0]


def test_b045_each_worker_has_a_copy_of_its_own() -> None:
    strategy = servers(workers=3)
    with strategy.scope():
        v = sd.Variable(0.0, per_worker_variable=True, name="steps")
    assert isinstance(v, sd.PerWorkerVariable)
    assert v.device == "worker:0,worker:1,worker:2"
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(10):
        coordinator.schedule(sd.function(lambda: v.assign_add(1.0)))
    coordinator.join()
    assert float(sum(v.read_all())) == 10.0
    assert all(float(value) > 0 for value in v.read_all())
    assert not [span for span in strategy.cluster.trace.spans if span.category in ("read", "update")]  # no network
    with pytest.raises(FailedPreconditionError, match=r"steps.read_all\(\)"):
        v.numpy()
    v.assign(4.0)
    assert [float(value) for value in v.read_all()] == [4.0] * 3


def test_b045_a_plain_function_has_the_copy_of_its_worker() -> None:
    strategy = servers()
    with strategy.scope():
        v = sd.Variable(0.0, per_worker_variable=True)

    def work() -> float:
        v.assign(10.0 + sd.get_current_worker_index())
        return float(v)

    coordinator = sd.ClusterCoordinator(strategy)
    assert sorted(coordinator.fetch([coordinator.schedule(work) for _ in range(2)])) == [10.0, 11.0]
    assert [float(value) for value in v.read_all()] == [10.0, 11.0]


@pytest.mark.parametrize("coordinator_first", [True, False])
def test_b045_a_worker_that_restarts_begins_with_the_initial_value(coordinator_first: bool) -> None:
    strategy = servers()
    cluster = strategy.cluster
    coordinator = sd.ClusterCoordinator(strategy) if coordinator_first else None
    with strategy.scope():
        v = sd.Variable(7.0, per_worker_variable=True)
    coordinator = coordinator or sd.ClusterCoordinator(strategy)
    step = sd.function(lambda: (v.assign_add(1.0), sd.get_current_worker_index()))
    for _ in range(2):
        coordinator.schedule(step)
    coordinator.join()
    assert [float(value) for value in v.read_all()] == [8.0, 8.0]
    held = cluster.world.tasks["worker:1"].memory.in_use_bytes
    cluster.faults.crash("worker:1", at=cluster.now + 0.1, restart_after=1.0)
    sd.sleep(0.5, cluster)
    with pytest.raises(UnavailableError, match="worker:1"):
        v.read_all()
    sd.sleep(1.0, cluster)
    assert [float(value) for value in v.read_all()] == [8.0, 7.0]
    assert cluster.world.tasks["worker:1"].memory.in_use_bytes == held
    numbers = [coordinator.schedule(step) for _ in range(2)]
    coordinator.join()
    assert sorted(int(number.fetch()[1]) for number in numbers) == [0, 1]
    assert [float(value) for value in v.read_all()] == [9.0, 8.0]


def test_b045_only_workers_have_copies() -> None:
    with sd.MirroredStrategy(2).scope(), pytest.raises(InvalidArgumentError, match="MirroredStrategy does not know"):
        sd.Variable(0.0, per_worker_variable=True)
    strategy = servers()
    with strategy.scope():
        with pytest.raises(InvalidArgumentError, match="is trainable, and per_worker_variable=True"):
            sd.Variable(0.0, per_worker_variable=True, trainable=True)
        v = sd.Variable(0.0, per_worker_variable=True)
    with pytest.raises(FailedPreconditionError, match="runs on chief:0, which is no worker"):
        strategy.run(sd.function(lambda: v.value))


def test_the_index_of_the_worker_is_known_where_workers_run() -> None:
    strategy = servers(workers=3)
    coordinator = sd.ClusterCoordinator(strategy)

    def dataset() -> sd.Dataset:
        return sd.Dataset.from_tensors(sd.get_current_worker_index()).repeat()

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    step = sd.function(lambda iterator: (next(iterator), sd.get_current_worker_index()))
    pairs = [coordinator.schedule(step, args=(iterator,)).fetch() for _ in range(3)]
    assert all(int(made) == int(ran) for made, ran in pairs)
    found = coordinator.fetch([coordinator.schedule(sd.get_current_worker_index) for _ in range(3)])
    assert sorted(found) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="where no worker runs"):
        sd.get_current_worker_index()
    with pytest.raises(RuntimeError, match="where no worker runs"):
        strategy.run(sd.function(sd.get_current_worker_index))


def test_b066_colocation_needs_the_scope_and_a_variable_of_the_strategy() -> None:
    strategy, other = servers(), servers()
    with strategy.scope():
        mine = sd.Variable(0.0)
    with other.scope():
        foreign = sd.Variable(0.0)
    with strategy.scope(), pytest.raises(ValueError, match="not created by this strategy"), strategy.extended.colocate_vars_with(foreign):
        pass
    with pytest.raises(RuntimeError, match="outside the strategy's scope"), strategy.extended.colocate_vars_with(mine):
        pass


def test_c11_placement_by_bytes_balances_the_load() -> None:
    sizes = [8, 1, 1, 1, 8, 2]

    def loads(placement: str) -> list[int]:
        strategy = servers(placement=placement)
        with strategy.scope():
            for size in sizes:
                sd.Variable(np.zeros(size, np.float32))
        bytes_of = dict.fromkeys(["ps:0", "ps:1"], 0)
        for record in strategy.placements():
            bytes_of[record.task] += record.size_bytes
        return list(bytes_of.values())

    assert loads("round_robin") == [4 * (8 + 1 + 8), 4 * (1 + 1 + 2)]
    assert loads("bytes") == [4 * (8 + 2), 4 * (1 + 1 + 1 + 8)]
    with pytest.raises(ValueError, match="placement='size' is not known; use one of 'round_robin', 'bytes'"):
        servers(placement="size")


def test_c11_slots_count_with_their_shard() -> None:
    strategy = servers(placement="bytes")
    with strategy.scope():
        first, second = sd.Variable(np.zeros(4, np.float32)), sd.Variable(np.zeros(6, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.Adam())
    optimizer.build([first])
    with strategy.scope():
        third = sd.Variable(0.0)
    assert (first.device, second.device, third.device) == ("ps:0", "ps:1", "ps:1")


@pytest.mark.parametrize("optimizer", [lambda: keras.optimizers.SGD(0.1, momentum=0.9), lambda: optax.sgd(0.1, momentum=0.9)])
def test_slots_know_their_variable_and_their_part(optimizer: Any) -> None:
    strategy = servers(partitioner=lambda shape, dtype: [1, 2])
    with strategy.scope():
        table = sd.Variable(np.zeros((3, 5)), name="table")
    sd.Optimizer(optimizer()).build([table])
    slots = [record for record in strategy.placements() if record.slot_of == "table"]
    assert [(slot.task, slot.axis, slot.row_start, slot.row_stop, slot.shard, slot.num_shards, slot.shape) for slot in slots] == [
        ("ps:0", 1, 0, 3, 0, 2, (3, 5)),
        ("ps:1", 1, 3, 5, 1, 2, (3, 5)),
    ]


def test_a_distributed_dataset_lives_on_the_workers() -> None:
    strategy = servers()
    distributed = strategy.experimental_distribute_dataset(sd.Dataset.range(4).batch(2))
    with pytest.raises(ValueError, match="create_per_worker_dataset"):
        iter(distributed)
    coordinator = sd.ClusterCoordinator(strategy)
    iterator = iter(coordinator.create_per_worker_dataset(distributed))
    found = coordinator.schedule(sd.function(lambda iterator: next(iterator)), args=(iterator,)).fetch()
    assert found.tolist() == [0, 1]
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    rows = strategy.distribute_dataset(sd.Dataset.from_tensor_slices((np.ones((4, 1)), np.ones((4, 1)))).batch(2))
    assert len(model.fit(rows, epochs=3, steps_per_epoch=2, verbose=0).epoch) == 3
    with pytest.raises(TypeError, match=r"takes an sd\.Dataset; got list"):
        strategy.distribute_dataset([1, 2])  # pyright: ignore[reportArgumentType]
