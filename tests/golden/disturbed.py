"""Golden runs of what rarely happens: deaths at awkward moments, long silence, exits, and programs that do not agree."""

from __future__ import annotations

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from tests.golden.mains import train
from tests.golden.problems import Golden, Linear, Outcome, batches
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

    try:
        cluster.launch(main).join()
    except sd.errors.InvalidArgumentError:
        return cluster, [np.array(cluster.now)]
    raise AssertionError("two shapes were added")


def mains_crash_in_a_long_exchange() -> Outcome:
    """The first crash falls into transfers that are on their way, and the second into the back-off of the others."""
    cluster = sd.Cluster({"worker": 3}, network=SLOW)
    cluster.faults.crash("worker:2", at=0.0123, restart_after=0.3)
    cluster.faults.crash("worker:0", at=0.7, restart_after=0.1)

    def main() -> list[Any]:
        strategy = sd.MultiWorkerMirroredStrategy(devices_per_worker=2)
        return Linear(strategy, optax.sgd(0.05), units=300).train(batches(12), 2)

    run = cluster.launch(main, restart="always")
    run.join()
    return cluster, [number for task in sorted(run.results) for number in run.results[task]]


def survivors_of_long_exchanges() -> Outcome:
    """Deaths in an exchange, and of one that is just coming back, whose variables are on their way."""
    cluster = sd.Cluster({"worker": 4}, network=SLOW)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue", devices_per_worker=2)
    linear = Linear(strategy, optax.adam(0.05), units=200)
    for number, at in enumerate((0.006, 0.03, 0.06, 0.1, 0.115)):
        cluster.faults.crash(f"worker:{1 + number % 3}", at=at, restart_after=0.009)
    numbers = linear.train(batches(8), 6)
    return cluster, [*numbers, np.array(strategy.num_replicas_in_sync)]


DISTURBED: dict[str, Golden] = {
    "disturbed: server crashes at many moments": server_crashes_at_many_moments,
    "disturbed: long silence": long_silence,
    "disturbed: chief crash": chief_crash,
    "disturbed: closures that end badly": closures_that_end_badly,
    "disturbed: mains that exit": mains_that_exit,
    "disturbed: main that never comes back": main_that_never_comes_back,
    "disturbed: mains that disagree": mains_that_disagree,
    "disturbed: mains crash in a long exchange": mains_crash_in_a_long_exchange,
    "disturbed: survivors of long exchanges": survivors_of_long_exchanges,
}
