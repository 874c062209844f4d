"""The cluster, the job and the market of lesson 13: machines that are taken away, and trainings that survive it, each in its own way."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import simdist as sd
from classroom.bits import digest_of
from classroom.rounds import images, labels
from classroom.seeds import checked_seed
from classroom.values import described, plain
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, DiskModel, Network

__all__ = ["POLICIES", "Job", "Outcome", "make_cluster", "market", "outcome", "repeated"]

BATCH = 720  # rows of a step, of all workers together
NOTICE_S = 30.0
AWAY_S = 60.0
STEPS = 40
MARKET_STEP_S = 15.0
EVERY = 6  # steps between two checkpoints of a policy that has no notice
POLICIES = ("restart", "notice", "elastic")
LONGEST_S = 4000.0


def make_cluster(workers: int = 3, step_s: float = 2.0) -> sd.Cluster:
    """Machines that need two seconds for a checkpoint.

    Args:
        workers: how many.
        step_s: seconds that three of them need for a step of 720 rows; fewer need longer.
    """
    return sd.Cluster(
        {"worker": workers},
        seed=13,
        hardware={"worker": Device(flops=6.2e5 / step_s, memory_bandwidth=1e30, launch_overhead=0.0)},
        network=Network(bandwidth=1e9, latency=1e-3),
        disks=DiskModel(write_bandwidth=2.6e3, read_bandwidth=2.6e3, latency=0.0, fsync=0.0),
    )


class Job:
    """A training of the digits with a linear model, whose steps take as long as their rows.

    Args:
        strategy: a synchronous one; launched mains make one each.

    Attributes:
        done: how many steps are in the weights.
    """

    def __init__(self, strategy: Any) -> None:
        with strategy.scope():
            self.weights = sd.Variable(np.zeros((64, 10), np.float32), name="weights")
            self.optimizer = sd.Optimizer(keras.optimizers.SGD(0.5))
        rows = sd.Dataset.from_tensor_slices((images, labels)).shuffle(len(images), seed=0).repeat().batch(BATCH)
        self.rows = iter(strategy.distribute_dataset(rows))
        self.strategy = strategy
        self.done = 0
        self._step = sd.function(self._all_replicas)

    @property
    def checkpoint(self) -> sd.Checkpoint:
        """All of its state."""
        return sd.Checkpoint(weights=self.weights, optimizer=self.optimizer, rows=self.rows, count=self)

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: Any) -> None:
        self.done = int(state["done"])

    def step(self) -> None:
        """Take the next step."""
        self._step(self.rows)
        self.done += 1

    def digest(self) -> str:
        """Of the weights."""
        return digest_of([self.weights.numpy()])

    def _all_replicas(self, rows: Any) -> None:
        self.strategy.run(self._replica, args=(next(rows),))

    def _replica(self, batch: Any) -> None:
        x, y = batch

        def loss() -> Any:
            scores = keras.ops.matmul(x, self.weights.value)
            return keras.ops.sum(keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)) / BATCH

        _, gradients = sd.value_and_grad(loss, [self.weights])()
        self.optimizer.apply_gradients(zip(gradients, [self.weights], strict=True))


# -- a market -----------------------------------------------------------------------------------------------------------


def market(cluster: sd.Cluster, between_s: float | None, seed: int, notice_s: float = NOTICE_S) -> None:
    """Plan that each machine is taken away, at random, and another one comes a minute later.

    Args:
        cluster: whose workers.
        between_s: seconds on average until a machine that is there is taken, each for itself; None: never.
        seed: of the moments.
        notice_s: seconds from the notice to the end.

    Raises:
        InvalidArgumentError: `between_s` is no number of seconds, or `seed` no whole number from 0.
    """
    if between_s is None:
        return
    seconds = plain(between_s)
    if type(seconds) not in (int, float) or not 1 <= seconds < float("inf"):
        raise InvalidArgumentError(
            f"{described(between_s)} is no number of seconds between two machines: give one from 1, or None for never."
        )
    stream = np.random.default_rng(checked_seed(seed))
    for worker in [task for task in cluster.engine.task_names if task.startswith("worker:")]:
        moment_s = float(stream.exponential(between_s))
        while moment_s < LONGEST_S:
            cluster.faults.preempt(worker, at=moment_s, notice=notice_s, restart_after=AWAY_S)
            moment_s += notice_s + AWAY_S + float(stream.exponential(between_s))


@dataclass(frozen=True)
class Outcome:
    """What a run on a market came to.

    Attributes:
        end_s: when the last step had ended.
        paid_s: seconds of machines that were up, added up.
        repeated: steps that were taken twice.
        taken: how many machines were taken away.
        digest: of the weights.
        points: pairs of virtual second and steps that are done.
    """

    end_s: float
    paid_s: float
    repeated: int
    taken: int
    digest: str
    points: list[tuple[float, float]] = field(repr=False)


@cache
def outcome(policy: str, between_s: float | None = None, seed: int = 0, workers: int = 3, notice_s: float = NOTICE_S) -> Outcome:
    """Run the job on a market.

    Args:
        policy: "restart" saves every six steps and knows of no notice; "notice" saves when there is one; both begin again when all
            machines are there. "elastic" goes on with those that are left.
        between_s, seed, notice_s: as for `market`.
        workers: machines.

    Raises:
        InvalidArgumentError: there is no such policy, or `between_s` is no number of seconds.
    """
    if policy not in POLICIES:
        raise InvalidArgumentError(f"{described(policy)} is no policy: give one of {', '.join(map(repr, POLICIES))}.")
    cluster = make_cluster(workers, MARKET_STEP_S)
    market(cluster, between_s, seed, notice_s)
    points: list[tuple[float, float]] = []
    digest = elastic(cluster, points) if policy == "elastic" else launched(cluster, policy == "notice", points)
    down = [span for span in cluster.trace.spans.where(category="down") if span.lane.startswith("worker:")]
    away_s = sum(min(span.end_s, cluster.now) - span.start_s for span in down)
    taken = len(list(cluster.trace.instants.where(category="crash")))
    return Outcome(cluster.now, workers * cluster.now - away_s, repeated(points), taken, digest, points)


def repeated(points: list[tuple[float, float]]) -> int:
    """How many steps were done, and had to be done again.

    Example:
        >>> repeated([(0.0, 0), (2.0, 1), (4.0, 2), (9.0, 0), (11.0, 1)])
        2
    """
    falls = [before - after for (_, before), (_, after) in itertools.pairwise(points)]
    return int(sum(max(fall, 0) for fall in falls))


def elastic(cluster: sd.Cluster, points: list[tuple[float, float]]) -> str:
    """One program drives all workers, and goes on with the survivors."""
    job = Job(sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue"))
    return run_steps(job, job.step, cluster, points)


def launched(cluster: sd.Cluster, with_notice: bool, points: list[tuple[float, float]]) -> str:
    """A main for each worker; all of them begin again when one is taken."""
    directory = cluster.directory("saved")

    def main() -> str:
        job = Job(sd.MultiWorkerMirroredStrategy())
        manager = sd.CheckpointManager(job.checkpoint, directory, max_to_keep=1)
        mine = points if job.strategy.worker_index == 0 else []
        if with_notice:
            handler = sd.PreemptionCheckpointHandler(job.strategy.cluster_resolver, manager)
            return run_steps(job, lambda: handler.run(job.step), cluster, mine)

        def step_and_save() -> None:
            job.step()
            if job.done % EVERY == 0:
                manager.save()

        manager.restore_or_initialize()
        return run_steps(job, step_and_save, cluster, mine)

    run = cluster.launch(main, restart="always")
    run.join()
    return run.results["worker:0"]


def run_steps(job: Job, step: Callable[[], object], cluster: sd.Cluster, points: list[tuple[float, float]]) -> str:
    """Take the steps that are left; the digest of the weights."""
    while job.done < STEPS:
        points.append((cluster.now, job.done))
        step()
    digest = job.digest()
    points.append((cluster.now, job.done))
    return digest
