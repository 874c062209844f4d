"""Golden runs of synchronous strategies that one program drives, in loops of one's own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist import keras
from simdist.collectives.compression import TopK
from tests.golden.problems import ROWS, TARGETS, Golden, Linear, Outcome, batches

__all__ = ["TOGETHER"]

NOTHING = sd.hardware.Network(bandwidth=1e18, latency=0.0)


def momentum() -> Any:
    return optax.sgd(0.05, momentum=0.9)


def trained(strategy: Any, dataset: Any = None, epochs: int = 2, units: int = 1, optimizer: Any = None) -> Outcome:
    """A linear model, two epochs of batches of seven, so that the last is uneven."""
    linear = Linear(strategy, momentum() if optimizer is None else optimizer, units)
    return strategy.cluster, linear.train(batches(7) if dataset is None else dataset, epochs)


def workers(count: int = 3, *, seed: int = 0, **options: Any) -> Any:
    """One program that drives several workers; hardware, network and numerics go to the cluster, the rest to the strategy."""
    own = {name: options.pop(name) for name in ("hardware", "network", "numerics") if name in options}
    return sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": count}, seed=seed, **own), **options)


def one_device() -> Outcome:
    return trained(sd.OneDeviceStrategy("gpu:0"))


def mirrored_nccl() -> Outcome:
    return trained(sd.MirroredStrategy(4, cross_device_ops=sd.NcclAllReduce(num_packs=2)))


def mirrored_hierarchical() -> Outcome:
    return trained(sd.MirroredStrategy(8, cross_device_ops=sd.HierarchicalCopyAllReduce()), batches(8), units=3)


def mirrored_to_one_device() -> Outcome:
    cluster = sd.Cluster({"worker": 1}, hardware=sd.hardware.a100, network=sd.hardware.dgx_a100)
    return trained(sd.MirroredStrategy(3, cross_device_ops=sd.ReductionToOneDevice(), cluster=cluster))


def mirrored_vmap() -> Outcome:
    return trained(sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics="vmap")), batches(8))


def central_storage() -> Outcome:
    return trained(sd.CentralStorageStrategy(3))


def tpu() -> Outcome:
    return trained(sd.TPUStrategy(sd.TPUClusterResolver("v4-8")), batches(8), optimizer=keras.optimizers.Adam(0.05))


def workers_ring() -> Outcome:
    return trained(workers(3, communication_options=sd.CommunicationOptions(implementation="RING")))


def workers_in_racks() -> Outcome:
    network = sd.hardware.ethernet_25g.in_racks(2, oversubscription=4.0).within_host(sd.hardware.nvlink3)
    strategy = workers(4, network=network, hardware=sd.hardware.v100, devices_per_worker=2)
    return trained(strategy, batches(8), units=5)


def backup_workers() -> Outcome:
    hardware = sd.hardware.Device(jitter=sd.hardware.Exponential())
    return trained(workers(5, seed=4, hardware=hardware, backup_workers=2), batches(8))


def local_steps() -> Outcome:
    strategy = workers(4, sync_every=2, outer_optimizer=keras.optimizers.SGD(0.7, momentum=0.9))
    return trained(strategy, batches(8), epochs=3, optimizer=keras.optimizers.Adam(0.05))


def survivors_go_on() -> Outcome:
    strategy = workers(4, on_failure="continue")
    strategy.cluster.faults.crash("worker:2", after_steps=3, restart_after=5e-4)
    strategy.cluster.faults.crash("worker:1", at=0.0012)
    outcome = trained(strategy, epochs=4)
    return outcome[0], [*outcome[1], np.array(strategy.num_replicas_in_sync)]


def crash_that_is_raised() -> Outcome:
    strategy = workers(3)
    strategy.cluster.faults.crash("worker:1", at=0.0006, restart_after=1e-3)
    linear, ends = Linear(strategy, momentum()), list[float]()
    for _ in range(3):
        try:
            linear.train(batches())
        except sd.errors.UnavailableError:
            ends.append(strategy.cluster.now)
        sd.sleep(6e-4, strategy.cluster)
    return strategy.cluster, [np.array(ends)]


def compressed() -> Outcome:
    return trained(workers(3, communication_options=sd.CommunicationOptions(compression=TopK(0.25))), units=4)


def slow_input() -> Outcome:
    options = sd.Options()
    options.seconds_per_element = 4e-4
    cluster = sd.Cluster({"worker": 3}, hardware=sd.hardware.Device(jitter=sd.hardware.Uniform(0.5, 2.0)), seed=9)
    cluster.faults.slow("worker:1", 4.0, after_steps=3)
    return trained(sd.MultiWorkerMirroredStrategy(cluster), batches(8).prefetch(2).with_options(options))


def embedding() -> Outcome:
    """Two towers and a dense variable: gradients of rows are gathered, and Adagrad changes these rows; the last batch is uneven."""
    rng = np.random.default_rng(5)
    strategy = workers(3)
    with strategy.scope():
        towers = [sd.Variable(rng.normal(size=(rows, 4)).astype(np.float32)) for rows in (60, 90)]
        scale = sd.Variable(np.ones(4, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.Adagrad(0.2))

    def replica(ids: Any, stars: Any) -> Any:
        def loss() -> Any:
            left, right = sd.embedding_lookup(towers[0], ids[:, 0]), sd.embedding_lookup(towers[1], ids[:, 1])
            return (((left * right) @ scale.value - stars) ** 2).sum()

        value, gradients = sd.value_and_grad(loss, [*towers, scale])()
        optimizer.apply_gradients(zip(gradients, [*towers, scale], strict=True))
        return value

    step = sd.function(lambda batch: strategy.reduce("sum", strategy.run(replica, args=batch), axis=None))
    pairs, stars = rng.integers(0, 20, (22, 2)).astype(np.int32), rng.normal(size=22).astype(np.float32)
    dataset = strategy.experimental_distribute_dataset(sd.Dataset.from_tensor_slices((pairs, stars)).batch(9))
    losses = [step(batch) for _ in range(3) for batch in dataset]
    return strategy.cluster, [np.asarray(losses), *(variable.numpy() for variable in (*towers, scale))]


def timing_only() -> Outcome:
    strategy = workers(16, numerics="off", hardware=sd.hardware.a100, network=sd.hardware.dgx_a100, devices_per_worker=2)
    with strategy.scope():
        large = sd.Variable(np.zeros((64, 64), np.float32))
        optimizer = sd.Optimizer(momentum())

    @sd.function(seconds=2e-3)
    def step() -> None:
        def replica() -> None:
            _, gradients = sd.value_and_grad(lambda: jnp.sum(large.value**2), [large])()
            optimizer.apply_gradients(zip(gradients, [large], strict=True))

        strategy.run(replica)

    for _ in range(4):
        step()
    return strategy.cluster, []


def conversations() -> Outcome:
    """What replicas say to each other: reduce, gather, merge, keys of their own, and collectives between steps."""
    strategy = sd.MirroredStrategy(3)
    with strategy.scope():
        mean = sd.Variable(np.ones(2, np.float32), aggregation=sd.VariableAggregation.MEAN)
        first = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA)
        on_read = sd.VariableSynchronization.ON_READ
        seen = sd.Variable(np.float32(0.0), synchronization=on_read, aggregation=sd.VariableAggregation.SUM)

    def merge(own: Any, value: Any) -> Any:
        return own.reduce("mean", value, axis=None) * 2.0

    @sd.function
    def step(x: Any, key: Any) -> Any:
        def replica(own: Any) -> Any:
            context = sd.get_replica_context()
            rank = context.replica_id_in_sync_group
            noise = jax.random.normal(jax.random.fold_in(key, rank), (2,))
            total = context.all_reduce("sum", own * (rank + 1.0))
            joined = context.all_gather(own[None] + noise, axis=0)
            merged = context.merge_call(merge, args=(jnp.sum(noise),))
            mean.assign_add(own * 0.1)
            first.assign_add(merged)
            seen.assign_add(1.0)
            return total, joined, merged

        return strategy.run(replica, args=(x,))

    found = list[Any]()
    for number in range(3):
        x = strategy.distribute_values_from_function(
            lambda context, number=number: np.full(2, number + context.replica_id_in_sync_group, np.float32)
        )
        results = step(x, jax.random.PRNGKey(number))
        found += [np.asarray(part) for result in results for part in strategy.local_results(result)]
        found.append(np.asarray(strategy.gather(results[0], axis=0)))
        found.append(np.asarray(strategy.reduce("mean", results[2], axis=None)))
    return strategy.cluster, [*found, mean.numpy(), first.numpy(), seen.numpy()]


def two_strategies() -> Outcome:
    """Workers that train together, then asynchronously, in one cluster; a checked step, and arrays as arguments."""
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    together = Linear(sd.MultiWorkerMirroredStrategy(cluster), momentum()).train(batches(8), 1)
    strategy = sd.ParameterServerStrategy(cluster)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = sd.Variable(together[1], name="again")

    @sd.function
    def step(x: Any, y: Any) -> Any:
        loss, (gradient,) = sd.value_and_grad(lambda: jnp.mean((x @ weights.value - y) ** 2), [weights])()
        weights.assign_sub(0.05 * sd.check_numerics(gradient, "the gradient"))
        return loss

    values = [coordinator.schedule(step, args=(ROWS[first : first + 8], TARGETS[first : first + 8])) for first in range(0, 24, 8)]
    coordinator.join()
    again = Linear(sd.MultiWorkerMirroredStrategy(cluster), momentum()).train(batches(8), 1)
    return cluster, [*together, *coordinator.fetch(values), weights.numpy(), *again]


def between_steps() -> Outcome:
    """What a program does with the copies itself: collectives under a derivative, updates, broadcasts, datasets of each pipeline."""
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3}))
    with strategy.scope():
        equal = sd.Variable(np.arange(4, dtype=np.float32))
        apart = sd.Variable(np.ones(2, np.float32))
    iterator = iter(strategy.distribute_datasets_from_function(lambda own: batches(2).shard(3, own.input_pipeline_id)))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(batch: Any) -> Any:
            own = sd.get_replica_context()
            x, _ = batch

            def loss(weights: Any) -> Any:
                total = own.all_reduce("sum", x @ weights)
                return jnp.sum(total**2) + jnp.sum(own.all_gather(weights * x.sum(), axis=0) ** 3)

            return jax.grad(loss)(equal.value)

        return strategy.run(replica, args=(next(iterator),))

    found = [np.asarray(part) for _ in range(2) for part in strategy.local_results(step(iterator))]
    extended = strategy.extended
    moved = strategy.distribute_values_from_function(lambda own: np.full(2, own.replica_id_in_sync_group, np.float32))
    extended.update(apart, lambda variable, value: variable.assign_add(value), args=(moved,))
    equal.assign_sub(np.ones(4, np.float32))
    total = extended.reduce_to("sum", moved, equal)
    found += [np.asarray(part) for value in (apart, total) for part in strategy.local_results(value)]
    optional = iterator.get_next_as_optional()
    found.append(np.array(optional.has_value()))
    return strategy.cluster, [*found, equal.numpy(), apart.numpy()]


TOGETHER: dict[str, Golden] = {
    "together: one device": one_device,
    "together: mirrored, NCCL in two packs": mirrored_nccl,
    "together: mirrored, hierarchical copy": mirrored_hierarchical,
    "together: mirrored, reduction to one device": mirrored_to_one_device,
    "together: mirrored, vmap": mirrored_vmap,
    "together: central storage": central_storage,
    "together: TPU": tpu,
    "together: workers in a ring": workers_ring,
    "together: workers in racks, two devices each": workers_in_racks,
    "together: backup workers": backup_workers,
    "together: local steps, outer optimizer": local_steps,
    "together: survivors go on": survivors_go_on,
    "together: crash that is raised": crash_that_is_raised,
    "together: compressed": compressed,
    "together: slow input": slow_input,
    "together: embedding": embedding,
    "together: timing only": timing_only,
    "together: conversations": conversations,
    "together: two strategies": two_strategies,
    "together: between steps": between_steps,
}
