"""Golden runs of launched mains, which meet in collectives."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist import keras
from tests.golden.problems import Golden, Linear, Outcome, batches, fitted, perceptron

__all__ = ["MAINS"]


def joined(cluster: sd.Cluster, main: Any, restart: str = "never") -> Outcome:
    """Launch, wait, and give what the mains returned, in the order of their tasks."""
    run = cluster.launch(main, restart=restart)
    run.join()
    return cluster, [number for task in sorted(run.results) for number in run.results[task]]


def train(epochs: int = 2, **options: Any) -> list[Any]:
    """A linear model in a main."""
    strategy = sd.MultiWorkerMirroredStrategy(**options)
    return Linear(strategy, optax.sgd(0.05, momentum=0.9)).train(batches(7), epochs)


def in_a_loop() -> Outcome:
    return joined(sd.Cluster({"worker": 3}), train)


def two_devices_each() -> Outcome:
    cluster = sd.Cluster({"worker": 2}, hardware=sd.hardware.Device(jitter=sd.hardware.LogNormal(0.2)), seed=6)
    return joined(cluster, lambda: train(devices_per_worker=2, communication_options=sd.CommunicationOptions(num_packs=2)))


def fit() -> Outcome:
    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(bytes_per_pack=32))
        with strategy.scope():
            model = perceptron(keras.optimizers.Adam(0.02), metrics=["mae"], steps_per_execution=2)
        history = model.fit(batches(6), epochs=2, verbose=0)
        return [*fitted(model, history), np.array(model.evaluate(batches(8), verbose=0))]

    return joined(sd.Cluster({"worker": 2}), main)


def crash_and_restart() -> Outcome:
    cluster = sd.Cluster({"worker": 3})
    cluster.faults.crash("worker:1", after_steps=4, restart_after=0.5)
    return joined(cluster, train, restart="always")


def crash_without_restart() -> Outcome:
    cluster = sd.Cluster({"worker": 3})
    cluster.faults.crash("worker:2", after_steps=4)
    run = cluster.launch(train)
    try:
        run.join()
    except (sd.errors.UnavailableError, sd.errors.AbortedError, sd.errors.DeadlineExceededError):
        return cluster, [np.array(cluster.now)]
    raise AssertionError("a main died, and nobody said so")


def late_for_a_collective() -> Outcome:
    cluster = sd.Cluster({"worker": 3})

    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(timeout_seconds=1.0))
        rank, late = strategy.cluster_resolver.task_id, 0.0
        if rank == 1:
            sd.sleep(5.0)
        try:
            strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(1.0)))
        except sd.errors.DeadlineExceededError:
            late = cluster.now
        sd.sleep(6.0 - cluster.now)
        value = strategy.run(lambda: sd.get_replica_context().all_reduce("sum", jnp.float32(rank)))
        return [np.array(late), strategy.local_results(value)[0]]

    return joined(cluster, main)


def values_of_all() -> Outcome:
    """Variables of each kind, uneven parts that are gathered, local steps, and a nap that makes one late."""

    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy()
        rank = strategy.cluster_resolver.task_id
        with strategy.scope():
            summed = sd.Variable(np.float32(rank), aggregation=sd.VariableAggregation.SUM)
            on_read = sd.VariableSynchronization.ON_READ
            counted = sd.Variable(np.float32(0.0), synchronization=on_read, aggregation=sd.VariableAggregation.SUM)

        def replica() -> Any:
            summed.assign_add(jnp.float32(rank + 1))
            counted.assign_add(jnp.float32(rank))
            return sd.get_replica_context().all_gather(jnp.full((2, 2), float(rank)), axis=0)

        found = list[Any]()
        for number in range(3):
            sd.sleep(1e-3 * ((number + rank) % 3))
            found.append(np.asarray(strategy.local_results(strategy.run(replica))[0]))
        total = strategy.reduce("sum", jnp.float32(rank + 1), axis=None)
        joint = strategy.gather(jnp.arange(rank + 1.0), axis=0)
        return [*found, np.asarray(total), np.asarray(joint), summed.numpy(), counted.numpy()]

    return joined(sd.Cluster({"worker": 3}), main)


def local_steps() -> Outcome:
    return joined(sd.Cluster({"worker": 2}), lambda: train(sync_every=2, outer_optimizer=keras.optimizers.SGD(0.7)))


def beside_a_coordinator() -> Outcome:
    """Mains of workers, an evaluator that looks on, and a coordinator that uses the same workers."""
    cluster = sd.Cluster({"worker": 2, "ps": 1, "evaluator": 1})
    strategy = sd.ParameterServerStrategy(cluster)
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = sd.Variable(np.zeros(3, np.float32))
    add = sd.function(lambda: weights.assign_add(jnp.ones(3)))
    looks = list[Any]()

    def look() -> None:
        for _ in range(3):
            sd.sleep(3e-4)
            looks.append(weights.numpy())

    evaluator = cluster.launch(look, job="evaluator")
    mains = cluster.launch(lambda: train(1))
    for _ in range(8):
        coordinator.schedule(add)
    coordinator.join()
    for run in (evaluator, mains):
        run.join()
    return cluster, [*looks, weights.numpy(), *mains.results["worker:0"], *mains.results["worker:1"]]


MAINS: dict[str, Golden] = {
    "mains: in a loop": in_a_loop,
    "mains: two devices each": two_devices_each,
    "mains: fit": fit,
    "mains: crash and restart": crash_and_restart,
    "mains: crash without restart": crash_without_restart,
    "mains: late for a collective": late_for_a_collective,
    "mains: values of all": values_of_all,
    "mains: local steps": local_steps,
    "mains: beside a coordinator": beside_a_coordinator,
}
