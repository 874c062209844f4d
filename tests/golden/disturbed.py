"""Golden runs of what rarely happens: deaths at awkward moments, long silence, exits, and programs that do not agree."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist import keras
from tests.golden.mains import train
from tests.golden.problems import Golden, Linear, Outcome, batches, perceptron
from tests.golden.servers import SLOW, Loop

__all__ = ["DISTURBED"]

LOSSES = (sd.errors.UnavailableError, sd.errors.AbortedError)


def server_crashes_at_many_moments() -> Outcome:
    """Before a read, on the way there, on the way back, in a push, and before the next one; each time with new variables."""
    cluster = sd.Cluster({"worker": 2, "ps": 2}, network=SLOW)
    ends = list[float]()
    for moment_s in (0.0, 1.5e-4, 0.0012, 0.0025, 0.0041, 0.0052):
        sd.sleep(0.01, cluster)
        loop = Loop(cluster, rows=400, partitioner=sd.FixedShardsPartitioner(2)).train(1)
        cluster.faults.crash("ps:1", at=cluster.now + moment_s, restart_after=1.0 if moment_s < 0.004 else 0.002)
        for _ in range(2):
            try:
                loop.train(6)
            except LOSSES:
                ends.append(cluster.now)
        sd.sleep(1.0, cluster)
    return cluster, [np.array(ends)]


def deaths_around_a_long_computation() -> Outcome:
    """Of workers whose requests are under way, of servers that nobody asks just now, and what those who come back have forgotten."""
    cluster = sd.Cluster({"worker": 2, "ps": 2}, network=sd.hardware.Network(bandwidth=1e9, latency=0.1))
    strategy = sd.ParameterServerStrategy(cluster)
    coordinator = sd.ClusterCoordinator(strategy)
    found = list[Any]()
    for target, at_s, restart_after_s in (
        ("worker:0", 0.15, 0.1),
        ("worker:1", 1.35, 0.1),
        ("ps:0", 0.8, 3.0),
        ("ps:1", 0.7, 0.2),
        ("ps:1", 1.45, 0.01),
    ):
        sd.sleep(5.0, cluster)
        with strategy.scope():
            first, second = sd.Variable(np.ones(2, np.float32)), sd.Variable(np.zeros((0, 2), np.float32))
            third = sd.Variable(np.ones(3, np.float32))

        @sd.function(seconds=1.0)
        def step(first: Any = first, second: Any = second, third: Any = third) -> Any:
            total = jnp.sum(first.value) + jnp.sum(third.value) + jnp.sum(second.value)
            for variable in (first, second, third):
                variable.assign_add(0.01 * total * jnp.ones(variable.shape))
            return total

        cluster.faults.crash(target, at=cluster.now + at_s, restart_after=restart_after_s)
        values = [coordinator.schedule(step) for _ in range(4)]
        for _ in range(2):
            try:
                coordinator.join()
                found += coordinator.fetch(values)
                values = [coordinator.schedule(step)]
            except LOSSES:
                found.append(cluster.now)
                values = [coordinator.schedule(step)]
        with suppress(*LOSSES):
            coordinator.join()
    return cluster, [np.array(number) for number in found]


def long_silence() -> Outcome:
    """A worker dies while nobody works, one is back before its death was noticed, and one never comes back."""
    cluster = sd.Cluster({"worker": 4, "ps": 1}, network=sd.hardware.Network(bandwidth=1e9, latency=0.4))
    loop = Loop(cluster).train(4)
    began = np.ceil(cluster.now)
    cluster.faults.crash("worker:0", at=began + 30.25, restart_after=40.0)
    cluster.faults.crash("worker:1", at=began + 59.7, restart_after=1e-3)
    cluster.faults.crash("worker:2", at=began + 60.0)
    cluster.faults.crash("worker:3", when=lambda cluster: cluster.now > 100.0, restart_after=3.0)
    sd.sleep(100.0, cluster)
    return loop.train(8).outcome()


def chief_crash() -> Outcome:
    cluster = sd.Cluster({"worker": 2, "ps": 1})
    loop = Loop(cluster)
    cluster.faults.crash("chief", at=0.0013, restart_after=0.01)
    try:
        loop.train(20)
    except sd.errors.UnavailableError:
        sd.sleep(1.0, cluster)
        return cluster, [np.array(cluster.now)]
    raise AssertionError("the chief died, and its program went on")


def closures_that_end_badly() -> Outcome:
    """One that exits, one that is cancelled, two who join, and one that stops the notebook while debugging."""
    cluster = sd.Cluster({"worker": 2, "ps": 1, "evaluator": 1})
    loop = Loop(cluster)
    values = [loop.coordinator.schedule(function) for function in (lambda: sd.sleep(1e-3), lambda: sys.exit(3), *[lambda: 7] * 4)]
    other = cluster.launch(lambda: sd.sleep(1e-5) or loop.coordinator.join(), job="evaluator")
    ends = list[float]()
    for wait in (loop.coordinator.join, other.join, *[value.fetch for value in values]):
        try:
            wait()
        except (sd.errors.AbortedError, sd.errors.CancelledError) as error:
            ends += [cluster.now, len(type(error).__name__)]
    return loop.train(3).outcome(np.array(ends), np.array(loop.losses[0].get()))


def mains_that_exit() -> Outcome:
    """With status 0, with another and then again, by an error that is tried again, and on tasks that are down."""
    cluster = sd.Cluster({"worker": 4, "evaluator": 2})
    tries = {"worker:1": 0, "worker:2": 0}
    cluster.faults.crash("worker:3", at=0.5, restart_after=2.0)
    cluster.faults.crash("evaluator:1", at=0.25)
    sd.sleep(1.0, cluster)

    def main() -> float:
        rank = sd.TFConfigClusterResolver().task_id
        sd.sleep(0.1)
        if rank == 0:
            sys.exit(0)
        if rank in (1, 2):
            tries[f"worker:{rank}"] += 1
            if tries[f"worker:{rank}"] < 3:
                raise SystemExit(4) if rank == 1 else sd.errors.UnavailableError("not yet")
        return cluster.now

    run = cluster.launch(main, restart="always")
    run.join()
    failed = 0
    try:
        cluster.launch(sd.sleep, job="evaluator", args=(0.5,)).join()
    except sd.errors.UnavailableError:
        failed = 1
    ends = [run.results[task] or 0.0 for task in sorted(run.results)]
    return cluster, [np.array([*ends, *tries.values(), failed, cluster.now])]


def main_that_never_comes_back() -> Outcome:
    cluster = sd.Cluster({"worker": 3})
    cluster.faults.crash("worker:1", after_steps=3)
    run = cluster.launch(train, restart="always")
    try:
        run.join()
    except (*LOSSES, sd.errors.DeadlineExceededError):
        return cluster, [np.array(cluster.now)]
    raise AssertionError("a main was gone for good, and nobody said so")


def mains_that_disagree() -> Outcome:
    cluster = sd.Cluster({"worker": 2})

    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        given = jnp.ones(2 + strategy.cluster_resolver.task_id)
        return strategy.run(lambda: sd.get_replica_context().all_reduce("sum", given))

    def train_another_model() -> Any:
        rank = sd.TFConfigClusterResolver().task_id
        strategy = sd.MultiWorkerMirroredStrategy(communication_options=sd.CommunicationOptions(bytes_per_pack=8))
        with strategy.scope():
            layers = [keras.layers.Dense(3, name="hidden", kernel_initializer="ones")]
            model = perceptron(keras.optimizers.SGD(0.1), layers=layers, loss_weights=[1.0 + rank])
            if rank == 1:
                model.optimizer = keras.optimizers.Adam(0.1)
        model.fit(batches(6), verbose=0)

    ends = list[float]()
    for program in (main, train_another_model):
        try:
            cluster.launch(program).join()
        except sd.errors.InvalidArgumentError:
            ends.append(cluster.now)
    return cluster, [np.array(ends)]


def mains_crash_in_a_long_exchange() -> Outcome:
    """The first crash falls into transfers that are on their way, and the second into the back-off of the others."""
    return interrupted(SLOW, 0.0123)


def mains_crash_within_a_latency() -> Outcome:
    return interrupted(sd.hardware.Network(bandwidth=1e6, latency=0.01), 0.041)


def interrupted(network: sd.hardware.Network, at_s: float) -> Outcome:
    """Mains that train with long messages; worker:2 dies at that second, worker:0 later."""
    cluster = sd.Cluster({"worker": 3}, network=network)
    cluster.faults.crash("worker:2", at=at_s, restart_after=0.3)
    cluster.faults.crash("worker:0", at=0.7, restart_after=0.1)

    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=2)
        return Linear(strategy, optax.sgd(0.05), units=300).train(batches(12), 2)

    run = cluster.launch(main, restart="always")
    run.join()
    return cluster, [number for task in sorted(run.results) for number in run.results[task]]


def survivors_of_long_exchanges() -> Outcome:
    """Deaths in a collective, and of one that is just coming back, whose variables are on their way."""
    cluster = sd.Cluster({"worker": 4}, network=SLOW)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue", devices_per_worker=2)
    linear = Linear(strategy, optax.adam(0.05), units=200)
    # The first in a collective; the second and third of one that gets and of one that gives the variables, which take 12 ms.
    for task, at_s in (("worker:1", 0.006), ("worker:1", 0.04), ("worker:0", 0.063), ("worker:2", 0.1), ("worker:3", 0.115)):
        cluster.faults.crash(task, at=at_s, restart_after=0.009)
    numbers = linear.train(batches(8), 6)
    return cluster, [*numbers, np.array(strategy.num_replicas_in_sync)]


DISTURBED: dict[str, Golden] = {
    "disturbed: server crashes at many moments": server_crashes_at_many_moments,
    "disturbed: deaths around a long computation": deaths_around_a_long_computation,
    "disturbed: long silence": long_silence,
    "disturbed: chief crash": chief_crash,
    "disturbed: closures that end badly": closures_that_end_badly,
    "disturbed: mains that exit": mains_that_exit,
    "disturbed: main that never comes back": main_that_never_comes_back,
    "disturbed: mains that disagree": mains_that_disagree,
    "disturbed: mains crash in a long collective": mains_crash_in_a_long_exchange,
    "disturbed: mains crash within a latency": mains_crash_within_a_latency,
    "disturbed: survivors of long collectives": survivors_of_long_exchanges,
}
