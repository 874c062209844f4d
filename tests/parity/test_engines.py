"""One program, three engines: with a clock, without, and without memory that tasks share. The same bits, wherever the order of updates does
not depend on time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.collectives.compression import OneBit, TopK
from tests.golden.problems import Linear, batches, fitted, perceptron

Make = Callable[..., sd.Cluster]
"""Makes a cluster on the engine that is to be tried."""

Program = Callable[[Make], list[Any]]


ENGINES: dict[str, dict[str, Any]] = {
    "simulated": {"engine": "simulated"},
    "in process": {"engine": "in_process"},
    "isolated": {"engine": "in_process", "isolated": True},
}


@functools.cache  # what a program gives in process is compared with both other engines
def results(program: Program, engine: str) -> list[np.ndarray]:
    return [np.asarray(one) for one in program(lambda spec, **own: sd.Cluster(spec, seed=3, **ENGINES[engine], **own))]


def assert_same_bits(program: Program, other: str) -> None:
    found, expected = results(program, "in process"), results(program, other)
    assert len(found) == len(expected) > 0
    for one, another in zip(found, expected, strict=True):
        assert (one.shape, one.dtype, one.tobytes()) == (another.shape, another.dtype, another.tobytes())


# -- synchronous strategies ----------------------------------------------------------------------------------------------


def trained(strategy: Any, size: int = 7, **options: Any) -> list[Any]:
    """A linear model in a loop of one's own; batches of seven are uneven parts, and the last one is short."""
    return Linear(strategy, options.pop("optimizer", None) or optax.sgd(0.05, momentum=0.9), **options).train(batches(size))


def mirrored(devices: int, operations: Any = None) -> Program:
    return lambda make: trained(sd.MirroredStrategy(devices, operations, make({"worker": 1})), units=3)


def workers(count: int, *, size: int = 7, **options: Any) -> Program:
    return lambda make: trained(sd.MultiWorkerMirroredStrategy(make({"worker": count}), **options), size, units=3)


def communicating(**options: Any) -> sd.CommunicationOptions:
    return sd.CommunicationOptions(**options)


def in_racks(make: Make) -> list[Any]:
    network = sd.hardware.ethernet_25g.in_racks(2, oversubscription=4.0).within_host(sd.hardware.nvlink3)
    return trained(sd.MultiWorkerMirroredStrategy(make({"worker": 4}, network=network), devices_per_worker=2), 8, units=5)


def on_a_torus(make: Make) -> list[Any]:
    return trained(sd.MultiWorkerMirroredStrategy(make({"worker": 4}, network=sd.hardware.Network().as_torus((2, 2)))), 8)


def steps_of_their_own(make: Make) -> list[Any]:
    return workers(4, size=8, sync_every=2, outer_optimizer=keras.optimizers.SGD(0.7, momentum=0.9))(make)


def fit_with_everything_that_draws_and_counts(make: Make, devices: int = 2) -> list[Any]:
    """Dropout of unseeded keys, moments of each replica's own, metrics, and an initialiser that the strategy seeds."""
    strategy = sd.MirroredStrategy(devices, cluster=make({"worker": 1}))
    with strategy.scope():
        layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
        model = perceptron(keras.optimizers.Adam(0.02), layers=layers, metrics=["mae"])
    return [*fitted(model, model.fit(batches(7), epochs=2, verbose=0)), *model.evaluate(batches(7), verbose=0)]


def what_replicas_say_to_each_other(make: Make) -> list[Any]:
    strategy = sd.MultiWorkerMirroredStrategy(make({"worker": 3}))
    with strategy.scope():
        mean = sd.Variable(np.ones(2, np.float32), aggregation=sd.VariableAggregation.MEAN)
        first = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA)
        seen = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        apart = sd.Variable(np.ones(2, np.float32))
        noise = keras.layers.GaussianNoise(1.0)

    def merge(own: Any, value: Any) -> Any:
        return own.reduce("mean", value, axis=None) * 2.0

    @sd.function
    def step(x: Any) -> Any:
        def replica(own: Any) -> Any:
            context = sd.get_replica_context()
            assert context is not None
            rank = context.replica_id_in_sync_group
            own = noise(own, training=True)
            joined = context.all_gather(own[None], axis=0)
            merged = context.merge_call(merge, args=(jnp.sum(own),))
            mean.assign_add(own * 0.1)
            first.assign_add(merged + rank)
            seen.assign_add(1.0 + rank)
            apart.assign(apart.value * own)
            slope = jax.grad(lambda w: jnp.sum(context.all_reduce("sum", w * own) ** 2))(mean.value)
            return joined, merged, slope

        return strategy.run(replica, args=(x,))

    found = list[Any]()
    for number in range(3):
        x = strategy.distribute_values_from_function(
            lambda one, number=number: np.full(2, 0.1 + number + one.replica_id_in_sync_group, np.float32)
        )
        joined, merged, slope = step(x)
        found += [part for result in (joined, merged, slope) for part in strategy.local_results(result)]
        found += [strategy.gather(slope, axis=0), strategy.reduce("mean", merged, axis=None)]
    return [*found, mean.numpy(), first.numpy(), seen.numpy(), *strategy.local_results(apart)]


SYNCHRONOUS: dict[str, Program] = {
    "one device": lambda make: fit_with_everything_that_draws_and_counts(make, 1),
    "two devices": mirrored(2),
    "four devices, hierarchical copy": mirrored(4, sd.HierarchicalCopyAllReduce()),
    "three devices, reduction to one": mirrored(3, sd.ReductionToOneDevice()),
    "four devices, NCCL in two packs": mirrored(4, sd.NcclAllReduce(num_packs=2)),
    "central storage": lambda make: trained(sd.CentralStorageStrategy(3, cluster=make({"worker": 1}))),
    "workers in a ring": workers(3, communication_options=communicating(algorithm="ring")),
    "workers, small packs": workers(4, communication_options=communicating(bytes_per_pack=8)),
    "workers, the largest gradients": workers(3, communication_options=communicating(compression=TopK(0.25))),
    "workers, signs": workers(3, communication_options=communicating(compression=OneBit())),
    "workers in racks, two devices each": in_racks,
    "workers on a torus": on_a_torus,
    "steps of their own": steps_of_their_own,
    "workers that would go on": workers(3, on_failure="continue"),
    "fit": fit_with_everything_that_draws_and_counts,
    "conversations": what_replicas_say_to_each_other,
}


# CI leaves out, on each pair of engines, what compiles longest and is like something that it tries.
SIMILAR = ("one device", "two devices", "three devices, reduction to one", "workers, small packs", "workers, signs", "workers on a torus")
SIMILAR_ON_SIMULATED = (*SIMILAR, "workers that would go on", "four devices, NCCL in two packs")
SIMILAR_ON_ISOLATED = (*SIMILAR, "four devices, NCCL in two packs", "four devices, hierarchical copy", "workers, the largest gradients")
QUICK_ON_ISOLATED = ("central storage", "workers in racks, two devices each", "workers that would go on", "conversations")


def marked(name: str, similar: tuple[str, ...], quick: Container[str]) -> Any:
    marks = pytest.mark.exhaustive if name in similar else () if name in quick else pytest.mark.slow
    return pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", [marked(name, SIMILAR_ON_SIMULATED, SYNCHRONOUS) for name in SYNCHRONOUS])
def test_synchronous_program_has_the_bits_of_the_simulated_engine(name: str) -> None:
    assert_same_bits(SYNCHRONOUS[name], "simulated")


@pytest.mark.parametrize("name", [marked(name, SIMILAR_ON_ISOLATED, QUICK_ON_ISOLATED) for name in SYNCHRONOUS])
@pytest.mark.sample(2)
def test_synchronous_program_has_the_same_bits_where_tasks_share_no_memory(name: str) -> None:
    pytest.importorskip("flatbuffers")
    assert_same_bits(SYNCHRONOUS[name], "isolated")


# -- parameter servers ---------------------------------------------------------------------------------------------------


def closures_of_all_kinds(make: Make, jobs: dict[str, int] | None = None, plain_functions: bool = True) -> list[Any]:
    """Shards, adam, a metric, keys, per-worker input and resources, plain functions, and layers that workers make."""
    strategy = sd.ParameterServerStrategy(make(jobs or {"worker": 1, "ps": 3}), variable_partitioner=sd.FixedShardsPartitioner(2))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = sd.Variable(np.full((4, 1), 0.25, np.float32))
        seen = sd.Variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM)
        optimizer = sd.Optimizer(keras.optimizers.Adam(0.05))
        noise = keras.layers.GaussianNoise(0.5)

    @sd.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        loss, gradients = sd.value_and_grad(lambda: jnp.mean((noise(x, training=True) @ weights.value - y) ** 2), [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))
        seen.assign_add(1.0)
        return {"loss": loss, "weights": weights.value}

    def plain(own: Any) -> Any:
        own.append(len(own))
        layer = keras.layers.Dense(2)
        layer.build((None, 2))
        assert sd.get_strategy() is strategy
        return len(own), np.asarray(layer.kernel.value)

    iterator = iter(coordinator.create_per_worker_dataset(lambda: batches(7).shuffle(4).repeat()))
    resource = coordinator.create_per_worker_resource(list)
    losses, calls = list[Any](), list[Any]()
    for _ in range(6):
        losses.append(coordinator.schedule(step, args=(iterator,)))
        if plain_functions:
            calls.append(coordinator.schedule(plain, args=(resource,)))
    coordinator.join()
    fetched = coordinator.fetch([losses, calls])
    return [*jax.tree_util.tree_leaves(fetched), weights.numpy(), seen.numpy(), optimizer.iterations.numpy()]


def fit_in_packs_of_steps(make: Make) -> list[Any]:
    strategy = sd.ParameterServerStrategy(make({"worker": 1, "ps": 2}))
    with strategy.scope():
        layers = [keras.layers.Dense(4, "relu"), keras.layers.Dropout(0.3)]
        model = perceptron(keras.optimizers.Adam(0.02), layers=layers, metrics=["mae"], steps_per_execution=4)
    creator = sd.DatasetCreator(lambda _: batches(5).shuffle(5).repeat())
    return [*fitted(model, model.fit(creator, epochs=2, steps_per_epoch=9, verbose=0)), *model.evaluate(batches(8), verbose=0)]


def shards_of_columns_and_copies_of_workers(make: Make) -> list[Any]:
    """Shards along axis 1, some items, rows, one shard; a copy and the number of each worker; a step on the chief."""
    strategy = sd.ParameterServerStrategy(
        make({"worker": 1, "ps": 2}), lambda shape, dtype: [*[1] * (len(shape) - 1), 3], placement="bytes"
    )
    with strategy.scope():
        table = sd.Variable(np.arange(15, dtype=np.float32).reshape(3, 5))
        steps = sd.Variable(0.0, per_worker_variable=True)
        optimizer = sd.Optimizer(keras.optimizers.Adam(0.05))
    assert isinstance(table, sd.ShardedVariable) and isinstance(steps, sd.PerWorkerVariable)

    @sd.function
    def step() -> Any:
        table[1:, 2:4] = 0.5
        table.scatter_mul([0, 2, 0], np.full((3, 5), 1.5))
        table.variables[0].assign_add(np.ones((3, 2)))
        steps.assign_add(2.0)
        loss, gradients = sd.value_and_grad(lambda: (table.value**2).mean(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return loss, table.value, steps.value, sd.get_current_worker_index()

    coordinator = sd.ClusterCoordinator(strategy)
    fetched = coordinator.fetch([coordinator.schedule(step) for _ in range(3)])
    on_chief = strategy.run(sd.function(lambda: table.value * 2.0))
    return [*jax.tree_util.tree_leaves(fetched), on_chief, table.numpy(), *steps.read_all()]


@pytest.mark.parametrize("program", [closures_of_all_kinds, fit_in_packs_of_steps, shards_of_columns_and_copies_of_workers])
def test_parameter_servers_with_one_worker_have_the_bits_of_the_simulated_engine(program: Program) -> None:
    assert_same_bits(program, "simulated")


@pytest.mark.parametrize(
    "program",
    [
        lambda make: closures_of_all_kinds(make, plain_functions=False),
        lambda make: closures_of_all_kinds(make, {"worker": 3, "ps": 2}, plain_functions=False),
        pytest.param(fit_in_packs_of_steps, marks=pytest.mark.slow),
        shards_of_columns_and_copies_of_workers,
    ],
    ids=["one worker", "three workers", "fit", "columns and copies"],
)
def test_parameter_servers_have_the_same_bits_where_tasks_share_no_memory(program: Program) -> None:
    pytest.importorskip("flatbuffers")
    assert_same_bits(program, "isolated")


def test_parameter_servers_with_three_workers_do_the_same_number_of_steps() -> None:
    def counts(make: Make) -> list[Any]:
        *_, seen, iterations = closures_of_all_kinds(make, {"worker": 3, "ps": 2})
        return [seen, iterations]

    assert_same_bits(counts, "simulated")
