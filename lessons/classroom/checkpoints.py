"""A training of lesson 09 that can be saved at every step, and the clusters on which it is.

The next step of `Training` depends on all that a checkpoint may hold: the weights, the slots of Adam, which rows come next, and the random
numbers of Dropout. So whatever is not restored shows in the losses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import simdist as sd
from classroom.rounds import images, labels
from simdist import keras
from simdist.hardware import Device, DiskModel, Network

__all__ = ["Progress", "StepLog", "Training", "make_model", "names_in", "slow_cluster", "wide_cluster"]

BATCH = 64
ROWS = 1280  # of the digits to train with; the rest is for the loss that is shown
x_train, y_train, x_test, y_test = images[:ROWS], labels[:ROWS], images[ROWS:], labels[ROWS:]


def make_model(strategy: Any) -> tuple[Any, Any]:
    """A small model with Dropout, and Adam for it, under a strategy."""
    with strategy.scope():
        layers = [keras.layers.Dense(32, "relu", kernel_initializer=keras.initializers.GlorotUniform(1))]
        layers += [keras.layers.Dropout(0.3, seed=2), keras.layers.Dense(10, kernel_initializer=keras.initializers.GlorotUniform(3))]
        model = keras.Sequential([keras.Input((64,)), *layers])
        optimizer = sd.Optimizer(keras.optimizers.Adam(0.02))
        optimizer.build(model.trainable_variables)
    return model, optimizer


class Training:
    """A training of the digits, step by step, on synchronous replicas.

    Args:
        strategy: whose replicas; default two on one machine.

    Attributes:
        model, optimizer, rows: what a checkpoint may hold.
        losses: of the rows that are not trained with, after each step.
    """

    def __init__(self, strategy: Any = None) -> None:
        self.strategy = strategy or sd.MirroredStrategy(devices=2)
        self.model, self.optimizer = make_model(self.strategy)
        rows = sd.Dataset.from_tensor_slices((x_train, y_train)).shuffle(ROWS, seed=9).repeat().batch(BATCH)
        self.rows = iter(self.strategy.distribute_dataset(rows))
        self.step = sd.function(self._step)
        self.losses: list[float] = []

    def train(self, steps: int) -> list[float]:
        """Take steps; the losses after each of them."""
        for _ in range(steps):
            self.step(next(self.rows))
            self.losses.append(self.loss())
        return self.losses[-steps:]

    def forget_random_streams(self) -> None:
        """Let the next step draw the random numbers of the first one, as in a program that restores none of that."""
        for task in self.strategy.engine.task_names:
            self.strategy.engine.set_draws(task, 0)

    def _step(self, batch: Any) -> None:
        self.strategy.run(self._replica, args=(batch,))

    def _replica(self, batch: Any) -> None:
        x, y = batch

        def loss() -> Any:
            losses = keras.losses.sparse_categorical_crossentropy(y, self.model(x, training=True), from_logits=True)
            return keras.ops.sum(losses) / BATCH

        _, gradients = sd.value_and_grad(loss, self.model.trainable_variables)()
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def loss(self) -> float:
        """The mean loss of the rows that are not trained with."""
        kernel, bias, last_kernel, last_bias = (np.asarray(v.value, np.float64) for v in self.model.trainable_variables)
        scores = np.maximum(x_test @ kernel + bias, 0) @ last_kernel + last_bias
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y_test)), y_test]))


@dataclass
class StepLog:
    """How far a training was, and when, over all its restarts.

    Attributes:
        points: pairs of virtual second and steps that are done.
        begun: how many steps have begun; one that was taken twice counts twice.
    """

    points: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    begun: int = 0


class Progress(keras.callbacks.Callback):
    """Notes how many steps of `fit` are done, whenever one begins and at the end of an epoch. (At the end of a step it would ask for logs.)

    Args:
        cluster: whose time it is.
        log: where it notes that.
    """

    def __init__(self, cluster: sd.Cluster, log: StepLog) -> None:
        super().__init__()
        self.cluster = cluster
        self.log = log
        self.before = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.before = epoch * self.params["steps"]

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.log.begun += 1
        self.log.points.append((self.cluster.now, self.before + batch))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.log.points.append((self.cluster.now, self.before + self.params["steps"]))


def names_in(tree: Any, prefix: str = "") -> dict[str, Any]:
    """The arrays of nested dicts by their paths.

    Example:
        >>> names_in({"model": {"0": 1, "1": 2}})
        {'model/0': 1, 'model/1': 2}
    """
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found.update(names_in(value, f"{prefix}{name}/") if isinstance(value, dict) else {prefix + name: value})
    return found


def slow_cluster(workers: int = 3) -> sd.Cluster:
    """Machines that need about two seconds for a step of 64 rows each, and about one for a small checkpoint."""
    return sd.Cluster(
        {"worker": workers},
        seed=9,
        hardware={"worker": Device(flops=1e5, memory_bandwidth=1e30, launch_overhead=0.0)},
        network=Network(bandwidth=1e9, latency=1e-3),
        disks=DiskModel(write_bandwidth=2e4, read_bandwidth=2e4, latency=0.0, fsync=0.0),
    )


def wide_cluster() -> sd.Cluster:
    """Two workers and four servers, on which 4 MB take two seconds to one machine, two to its disk, and one back from it."""
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    return sd.Cluster(
        {"worker": 2, "ps": 4},
        seed=9,
        hardware={"worker": Device(launch_overhead=0.0), "ps": quick, "chief": quick},
        network=Network(bandwidth=2e6, latency=1e-3),
        disks=DiskModel(write_bandwidth=2e6, read_bandwidth=4e6, latency=0.0, fsync=0.0),
    )
