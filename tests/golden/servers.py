"""Golden runs of parameter servers: closures of a coordinator on workers, with faults at awkward moments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist import keras
from tests.golden.problems import Golden, Outcome, batches, fitted, perceptron

__all__ = ["SERVERS"]

SLOW = sd.hardware.Network(bandwidth=1e6, latency=1e-4)


class Loop:
    """The user's loop: a regression with a metric, and whatever else is scheduled.

    Args:
        cluster: on which.
        optimizer: None: plain descent.
        rows: of the weights, 4 or a multiple; many make long messages.
        partitioner: of the strategy.
    """

    def __init__(self, cluster: sd.Cluster, optimizer: Any = None, rows: int = 4, partitioner: Any = None, seed: int = 0) -> None:
        self.cluster = cluster
        self.strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=partitioner)
        self.coordinator = sd.ClusterCoordinator(self.strategy)
        with self.strategy.scope():
            self.weights = weights = sd.Variable(np.full((rows, 1), 0.25, np.float32), name="weights")
            self.bias = bias = sd.Variable(np.zeros(1, np.float32), name="bias")
            on_read = sd.VariableSynchronization.ON_READ
            self.seen = seen = sd.Variable(0.0, synchronization=on_read, aggregation=sd.VariableAggregation.SUM, name="seen")
            self.optimizer = own = sd.Optimizer(optax.sgd(0.02) if optimizer is None else optimizer)
        self.losses = list[Any]()

        @sd.function
        def step(iterator: Any) -> Any:
            x, y = next(iterator)
            wide = jnp.tile(x, (1, rows // 4)) / (rows // 4)
            loss, gradients = sd.value_and_grad(lambda: jnp.mean((wide @ weights.value + bias.value - y) ** 2), [weights, bias])()
            own.apply_gradients(zip(gradients, [weights, bias], strict=True))
            seen.assign_add(1.0)
            return loss

        self.step = step

    def iterator(self, size: int = 4) -> Any:
        """An endless one on each worker."""
        return iter(self.coordinator.create_per_worker_dataset(lambda: batches(size).repeat()))

    def train(self, steps: int) -> Loop:
        """Schedule so many steps and wait for them."""
        iterator = self.iterator()
        self.losses += [self.coordinator.schedule(self.step, args=(iterator,)) for _ in range(steps)]
        self.coordinator.join()
        return self

    def outcome(self, *more: Any) -> Outcome:
        """Losses, variables and more."""
        losses = np.array([float(loss.fetch()) for loss in self.losses])
        return self.cluster, [losses, self.weights.numpy(), self.bias.numpy(), self.seen.numpy(), *more]


def one_worker() -> Outcome:
    return Loop(sd.Cluster({"worker": 1, "ps": 1})).train(6).outcome()


def three_workers_adam() -> Outcome:
    loop = Loop(sd.Cluster({"worker": 3, "ps": 2}, seed=3), keras.optimizers.Adam(0.05)).train(15)
    return loop.outcome(*[variable.numpy() for variable in loop.strategy.variables])


def ten_workers_sharded() -> Outcome:
    loop = Loop(sd.Cluster({"worker": 10, "ps": 3}), optax.adam(0.05), rows=12, partitioner=sd.FixedShardsPartitioner(3))
    return loop.train(30).outcome()


def worker_crash_and_restart() -> Outcome:
    cluster = sd.Cluster({"worker": 3, "ps": 1})
    cluster.faults.crash("worker:1", after_steps=3, restart_after=5e-4)
    return Loop(cluster).train(24).outcome()


def worker_crash_in_read_and_push() -> Outcome:
    cluster = sd.Cluster({"worker": 2, "ps": 2}, network=SLOW)
    loop = Loop(cluster, rows=400, partitioner=sd.FixedShardsPartitioner(2))
    # A read of 1,600 bytes takes about 2 ms, and so does a push; the times fall into one each.
    cluster.faults.crash("worker:0", at=0.0021, restart_after=0.003)
    cluster.faults.crash("worker:1", at=0.0051, restart_after=0.003)
    return loop.train(8).outcome()


def many_crashes() -> Outcome:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, network=SLOW)
    loop = Loop(cluster, rows=400)
    for number in range(6):
        cluster.faults.crash(f"worker:{number % 2}", at=0.0022 + 0.0047 * number, restart_after=0.002)
    return loop.train(10).outcome()


def server_crash() -> Outcome:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    loop = Loop(cluster)
    cluster.faults.crash("ps:0", after_steps=5, restart_after=0.001)
    try:
        loop.train(20)
    except (sd.errors.UnavailableError, sd.errors.AbortedError) as error:
        return cluster, [np.array([len(type(error).__name__), cluster.now])]
    raise AssertionError("the variables died with their server, and nobody said so")


def straggler_and_jitter() -> Outcome:
    hardware = {"worker": sd.hardware.Device(jitter=sd.hardware.LogNormal(0.3)), "ps": sd.hardware.server_cpu}
    cluster = sd.Cluster({"worker": 4, "ps": 1}, seed=11, hardware=hardware)
    cluster.faults.slow("worker:2", 8.0, after_steps=2)
    cluster.faults.slow("worker:0", 3.0, at=0.0005, until=0.002)
    return Loop(cluster).train(24).outcome()


def closures_of_all_kinds() -> Outcome:
    """Plain functions, resources, arrays, keys, a nap, one that raises, and steps between them."""
    cluster = sd.Cluster({"worker": 3, "ps": 1}, seed=5)
    loop = Loop(cluster)
    coordinator, iterator = loop.coordinator, loop.iterator()
    resource = coordinator.create_per_worker_resource(lambda: {"scale": np.float32(2.0)})
    weights = loop.weights

    @sd.function
    def noisy(key: Any, scale: Any) -> Any:
        noise = scale * jax.random.normal(key, weights.shape)
        weights.assign_add(0.01 * noise)
        return {"noise": noise, "norm": jnp.sum(noise**2)}

    def plain(scale: Any, own: Any) -> Any:
        return float(scale) * float(own["scale"])

    def raises() -> None:
        sd.sleep(1e-4)
        raise ValueError("on purpose")

    values = list[Any]()
    for number in range(6):
        values.append(coordinator.schedule(noisy, args=(jax.random.PRNGKey(number), np.float32(number))))
        values.append(coordinator.schedule(plain, args=(number,), kwargs={"own": resource}))
        values.append(coordinator.schedule(loop.step, args=(iterator,)))
        coordinator.schedule(sd.sleep, args=(2e-4 * number,))
    coordinator.join()
    read = coordinator.schedule(lambda: float(weights.numpy().sum()))
    found = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(coordinator.fetch([*values, read]))]
    for _ in range(4):
        coordinator.schedule(raises)
    try:
        coordinator.join()
    except ValueError:
        found.append(np.array(cluster.now))
    assert coordinator.done()
    return loop.train(3).outcome(*found)


def exhausted_dataset() -> Outcome:
    loop = Loop(sd.Cluster({"worker": 2, "ps": 1}))
    iterator = iter(loop.coordinator.create_per_worker_dataset(lambda: batches(6)))
    ended = 0
    for _ in range(12):
        try:
            loop.coordinator.schedule(loop.step, args=(iterator,))
            loop.coordinator.join()
        except (StopIteration, sd.errors.OutOfRangeError):
            ended += 1
    return loop.outcome(np.array(ended))


def checks_that_fail() -> Outcome:
    loop = Loop(sd.Cluster({"worker": 2, "ps": 1}, numerics="eager"))
    weights = loop.weights

    @sd.function
    def checked(x: Any) -> Any:
        value = sd.check_numerics(jnp.log(x) + weights.value, "the logarithm")
        weights.assign_sub(0.1 * value)
        return value

    values = [loop.coordinator.schedule(checked, args=(np.float32(x),)) for x in (1.0, 2.0, 3.0)]
    loop.coordinator.join()
    loop.coordinator.schedule(checked, args=(np.float32(-1.0),))
    caught = 0
    try:
        loop.coordinator.join()
    except sd.errors.InvalidArgumentError:
        caught = 1
    return loop.outcome(*[value.fetch() for value in values], np.array(caught))


def timing_only() -> Outcome:
    cluster = sd.Cluster({"worker": 10, "ps": 2}, numerics="off", network=sd.hardware.ethernet_25g.in_racks(4, oversubscription=4.0))
    cluster.faults.crash("worker:7", after_steps=3, restart_after=1e-3)
    Loop(cluster).train(60)
    return cluster, []


def replayed() -> Outcome:
    return Loop(sd.Cluster({"worker": 3, "ps": 2}, numerics="replay"), optax.sgd(0.02, momentum=0.9)).train(9).outcome()


def computed_at_once() -> Outcome:
    with sd.debug():
        return Loop(sd.Cluster({"worker": 3, "ps": 2}), optax.sgd(0.02, momentum=0.9)).train(9).outcome()


def fit_in_packs_of_steps() -> Outcome:
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=2)
    cluster.faults.crash("worker:1", after_steps=7, restart_after=1e-3)
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.MinSizePartitioner(8, max_shards=2))

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        dataset = batches(1).unbatch().shard(context.num_input_pipelines, context.input_pipeline_id)
        return dataset.shuffle(24, seed=0).repeat().batch(4).prefetch(2)

    with strategy.scope():
        layers = [
            keras.layers.Dense(4, "relu", kernel_initializer="ones"),
            keras.layers.Dropout(0.3, seed=4),
            keras.layers.GaussianNoise(0.1),
        ]
        model = perceptron(keras.optimizers.Adam(0.02), layers=layers, metrics=["mae"], steps_per_execution=5)
    history = model.fit(sd.DatasetCreator(dataset_fn), epochs=2, steps_per_epoch=20, verbose=0)
    return cluster, [*fitted(model, history), np.array(model.evaluate(batches(8), verbose=0))]


def two_devices_per_worker() -> Outcome:
    """Fit, with a worker that crashes and one that is paused."""
    cluster = sd.Cluster({"worker": 2, "ps": 2}, network=SLOW, hardware=sd.hardware.v100)
    with sd.ParameterServerStrategy(cluster, devices_per_worker=2).scope():
        model = perceptron(keras.optimizers.Adam(0.01), metrics=["mae"])
    cluster.faults.crash("worker:0", at=0.004, restart_after=0.02)
    cluster.faults.pause("worker:1", at=0.008, until=0.012)
    data = batches(5)  # parts of 3 and 2 rows
    return cluster, fitted(model, model.fit(data, epochs=3, verbose=0))


SERVERS: dict[str, Golden] = {
    "servers: one worker": one_worker,
    "servers: three workers, adam": three_workers_adam,
    "servers: ten workers, sharded": ten_workers_sharded,
    "servers: worker crash and restart": worker_crash_and_restart,
    "servers: crashes in a read and a push": worker_crash_in_read_and_push,
    "servers: many crashes": many_crashes,
    "servers: server crash": server_crash,
    "servers: straggler and jitter": straggler_and_jitter,
    "servers: closures of all kinds": closures_of_all_kinds,
    "servers: exhausted dataset": exhausted_dataset,
    "servers: checks that fail": checks_that_fail,
    "servers: timing only": timing_only,
    "servers: replayed": replayed,
    "servers: computed at once": computed_at_once,
    "servers: fit in packs of steps": fit_in_packs_of_steps,
    "servers: two devices per worker": two_devices_per_worker,
}
