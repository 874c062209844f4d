"""How often to save: a job that fails and comes back, and the formulas of Young and Daly for it.

A checkpoint costs C seconds, failures come M seconds apart on average, at random, and a restart costs R. With a checkpoint after every tau
seconds of work, a job takes M e^(R/M) (e^((tau + C)/M) - 1) / tau times as long as its work; tau = sqrt(2 C M) is nearly the best.

`job` is that of the notebook, word for word.

Sources: Young, A first order approximation to the optimum checkpoint interval, 1974; Daly, A higher order estimate of the optimum
checkpoint interval for restart dumps, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np

import simdist as sd
from classroom.seeds import checked_seed
from simdist.errors import InvalidArgumentError
from simdist.hardware import DiskModel

__all__ = [
    "INTERVALS_S",
    "InFiles",
    "OnDisk",
    "Saved",
    "best_interval",
    "expected_stretch",
    "failing_cluster",
    "job",
    "lowest_of_parabola",
    "moments_of_failure",
]

SAVE_S = 5.0
BETWEEN_FAILURES_S = 1000.0
RESTART_S = 10.0
WORK_S = 20_000.0  # of a job: a multiple of all intervals
UNTIL_S = 20 * WORK_S  # up to which failures are planned: a job with a bad interval takes many times as long as its work
INTERVALS_S = (25, 50, 100, 200, 400)
SIZE_BYTES = 8  # of a checkpoint with one number and Orbax's count of saves


# -- the formulas -------------------------------------------------------------------------------------------------------


def best_interval(save_s: float = SAVE_S, between_failures_s: float = BETWEEN_FAILURES_S) -> float:
    """Young's interval, in seconds of work between two checkpoints.

    Example:
        >>> best_interval(5.0, 1000.0)
        100.0
    """
    return math.sqrt(2 * save_s * between_failures_s)


def expected_stretch(
    interval_s: float, save_s: float = SAVE_S, between_failures_s: float = BETWEEN_FAILURES_S, restart_s: float = RESTART_S
) -> float:
    """Daly's expectation of how many times as long as its work a job takes.

    Example:
        >>> [round(expected_stretch(interval_s), 3) for interval_s in (50, 100, 200)]
        [1.142, 1.118, 1.149]
    """
    mean_s = between_failures_s
    return mean_s * math.exp(restart_s / mean_s) * math.expm1((interval_s + save_s) / mean_s) / interval_s


def lowest_of_parabola(intervals_s: Sequence[float], stretches: Sequence[float]) -> float:
    """The interval at the lowest point of the parabola, over the logarithm of the interval, through the least stretch and its neighbours.

    Example:
        >>> round(lowest_of_parabola(INTERVALS_S, [expected_stretch(interval_s) for interval_s in INTERVALS_S]), 1)
        95.7
    """
    least = min(range(1, len(stretches) - 1), key=lambda number: stretches[number])
    around = slice(least - 1, least + 2)
    second, first, _ = np.polyfit(np.log(intervals_s[around]), stretches[around], 2)
    return math.exp(-first / (2 * second))


# -- the job ------------------------------------------------------------------------------------------------------------


planned_until_s: WeakKeyDictionary[sd.Cluster, float] = WeakKeyDictionary()  # up to when each cluster's failures are planned


class Saved(Protocol):
    """The number of seconds of work that are done, saved and restored; both take virtual time."""

    def save(self, done_s: float, /) -> None: ...
    def restore(self) -> float: ...


class InFiles:
    """Keeps it with a `CheckpointManager`: files that Orbax writes, which take the time of the task's disk.

    Args:
        cluster: with one worker, which runs the job.
    """

    def __init__(self, cluster: sd.Cluster) -> None:
        self.cluster = cluster
        self.directory = cluster.directory("saved")

    def restore(self) -> float:
        with sd.MultiWorkerMirroredStrategy().scope():
            self.done = sd.Variable(np.float32(0))
        self.manager = sd.CheckpointManager(sd.Checkpoint(done=self.done), self.directory, max_to_keep=1)
        self.manager.restore_or_initialize()
        return float(self.done.numpy())

    def save(self, done_s: float) -> None:
        check_that_failures_are_planned(self.cluster)
        self.done.assign(done_s)
        self.manager.save()


class OnDisk:
    """Keeps it with the same disk in the same way, without files: a hundred times as quick to simulate.

    Args:
        cluster: with one worker, which runs the job.
    """

    def __init__(self, cluster: sd.Cluster) -> None:
        self.cluster = cluster
        self.engine = cluster.engine
        self.durable_s = 0.0

    def restore(self) -> float:
        return self.durable_s

    def save(self, done_s: float) -> None:
        check_that_failures_are_planned(self.cluster)
        over = self.engine.promise()

        def ended(error: BaseException | None) -> None:
            if error is None:
                self.durable_s = done_s
            over.open()

        self.engine.disk("worker:0").write("saved", SIZE_BYTES, ended)
        over.wait("the checkpoint to be written")


def moments_of_failure(seed: int, until_s: float, between_failures_s: float = BETWEEN_FAILURES_S) -> list[float]:
    """Virtual seconds of failures that know nothing of each other.

    Raises:
        InvalidArgumentError: `seed` is no whole number from 0.
    """
    stream = np.random.default_rng(checked_seed(seed))
    moments: list[float] = []
    while not moments or moments[-1] < until_s:
        moments.append(float(stream.exponential(between_failures_s)) + sum(moments[-1:]))
    return moments


def failing_cluster(seed: int, until_s: float = UNTIL_S) -> sd.Cluster:
    """A machine whose disk needs 5 s for a checkpoint, with its failures; it is back 10 s after each.

    Args:
        seed: of the failures.
        until_s: virtual second up to which they are planned; a job that is not over by then raises an error at its next save.

    Raises:
        InvalidArgumentError: `seed` is no whole number from 0.
    """
    moments = moments_of_failure(seed, until_s)
    disk = DiskModel(write_bandwidth=SIZE_BYTES / SAVE_S, read_bandwidth=1e15, latency=0.0, fsync=0.0)
    cluster = sd.Cluster({"worker": 1}, seed=seed, disks=disk)
    for moment_s in moments:
        cluster.faults.crash("worker:0", at=moment_s, restart_after=RESTART_S)
    planned_until_s[cluster] = until_s
    return cluster


def check_that_failures_are_planned(cluster: sd.Cluster) -> None:
    """A job beyond the last failure would end sooner than it should."""
    until_s = planned_until_s.get(cluster, math.inf)
    if cluster.now > until_s:
        raise InvalidArgumentError(
            f"the job is not over at {until_s:,.0f} s, and no failures are planned after that. Save more often, or plan more of them: "
            f"failing_cluster(seed, until_s={10 * until_s:.0f})."
        )


def job(cluster, saved, interval, work=20_000):
    """Do seconds of work, with a checkpoint after each interval; return how many times as long it took."""

    def main():
        done = saved.restore()
        while done < work:
            sd.sleep(interval)  # so many steps of a second
            done += interval
            saved.save(done)

    cluster.launch(main, restart="always").join()
    return cluster.now / work
