"""Local steps as lists of replicas in numpy: each trains its model alone on its part of a batch, and every so many steps they average.

A model normalizes its batch, without parameters, and has a kernel and a bias: gradients are in closed form. SGD and Adam are as Keras
documents them, in float64; the outer optimizer is SGD with Nesterov momentum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

__all__ = ["FEATURES", "PlainModel", "PlainReplica", "PlainReplicas"]

Array = np.ndarray
FEATURES = 3
KEEP, EPSILON, EMA, MOMENTUM = 0.8, 1e-3, 0.7, 0.9
OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.5


@dataclass
class PlainReplica:
    """The model and the optimizer of one replica: kernel and bias, and the moving mean and variance of its batches."""

    weights: list[Array]
    moving: list[Array] = field(default_factory=lambda: [np.zeros(FEATURES), np.ones(FEATURES)])
    count: int = 0

    def __post_init__(self) -> None:
        self.first = [np.zeros_like(weight) for weight in self.weights]
        self.second = [np.zeros_like(weight) for weight in self.weights]
        self.ema = [np.zeros_like(weight) for weight in self.weights]

    def step(self, kind: str, rate: float, x: Array, y: Array) -> float:
        """Train on a part of a batch; the loss of it."""
        mean, variance = x.mean(0), x.var(0)
        normal = (x - mean) / np.sqrt(variance + EPSILON)
        self.moving = [KEEP * old + (1 - KEEP) * new for old, new in zip(self.moving, (mean, variance), strict=True)]
        error = normal @ self.weights[0] + self.weights[1] - y
        self.count += 1
        for number, gradient in enumerate((2 * normal.T @ error / len(x), 2 * error.mean(0))):
            self.weights[number] = self.weights[number] - self._change(number, kind, rate, gradient)
            old = self.weights[number] if self.count == 1 else self.ema[number]
            self.ema[number] = EMA * old + (1 - EMA) * self.weights[number]
        return float((error**2).mean())

    def _change(self, number: int, kind: str, rate: float, gradient: Array) -> Array:
        if kind == "adam":
            self.first[number] = 0.9 * self.first[number] + 0.1 * gradient
            self.second[number] = 0.999 * self.second[number] + 0.001 * gradient**2
            corrected = rate * np.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
            return corrected * self.first[number] / (np.sqrt(self.second[number]) + 1e-7)
        self.first[number] = MOMENTUM * self.first[number] + rate * gradient
        return self.first[number]


def mean(parts: Sequence[Sequence[Array]]) -> list[Array]:
    return [np.mean(values, axis=0) for values in zip(*parts, strict=True)]


def outputs(weights: Sequence[Array], x: Array) -> Array:
    """What the model with these weights, and these moving averages, gives."""
    kernel, bias, average, variance = weights
    return (x - average) / np.sqrt(variance + EPSILON) @ kernel + bias


class PlainModel:
    """A model of which each replica has its own.

    Args:
        kind: of its optimizer: "sgd" (with momentum), "ema" (the same, with averages of its weights) or "adam".
        weights: kernel and bias at the beginning.
        replicas: how many.
    """

    def __init__(self, kind: str, weights: Sequence[Array], replicas: int) -> None:
        self.kind, self.rate = kind, 0.05
        self.replicas = [PlainReplica([np.array(weight, np.float64) for weight in weights]) for _ in range(replicas)]
        self.began = list(self.replicas[0].weights)
        self.velocity = [np.zeros_like(weight) for weight in self.began]
        self.is_moved = False

    def seen(self, ranks: Sequence[int] | None = None) -> list[Array]:
        """Kernel, bias, moving mean and variance: the average of these replicas, or of all."""
        chosen = self.replicas if ranks is None else [self.replicas[rank] for rank in ranks]
        return mean([[*replica.weights, *replica.moving] for replica in chosen])

    def averages(self, ranks: Sequence[int] | None = None) -> list[Array]:
        """The same with the moving averages of the weights in their place."""
        chosen = self.replicas if ranks is None else [self.replicas[rank] for rank in ranks]
        return [*mean([replica.ema for replica in chosen]), *self.seen(ranks)[2:]]

    def assign(self, weights: Sequence[Array]) -> None:
        """All replicas begin anew with these: kernel and bias, and moving mean and variance where they are given."""
        for replica in self.replicas:
            replica.weights, replica.moving = list(weights[:2]), list(weights[2:]) or replica.moving
        self.began = list(weights[:2])

    def average(self, has_outer: bool) -> None:
        """The replicas go on from their average, or from where the outer optimizer moves to."""
        averaged = mean([replica.weights for replica in self.replicas])
        if has_outer and not self.is_moved:
            return
        if has_outer:
            ways = [OUTER_RATE * (old - new) for old, new in zip(self.began, averaged, strict=True)]
            self.velocity = [OUTER_MOMENTUM * speed - way for speed, way in zip(self.velocity, ways, strict=True)]
            moved = zip(self.began, self.velocity, ways, strict=True)
            averaged = self.began = [old + OUTER_MOMENTUM * speed - way for old, speed, way in moved]
        for replica in self.replicas:
            replica.weights = list(averaged)
        self.is_moved = False


class PlainReplicas:
    """Replicas that average all their models every so many steps, whichever of these they train.

    Args:
        workers, devices: each worker has so many replicas.
        every: steps between two averages.
        has_outer: whether an outer optimizer moves the average.
    """

    def __init__(self, workers: int, devices: int, every: int, has_outer: bool) -> None:
        self.workers, self.devices, self.every, self.has_outer = workers, devices, every, has_outer
        self.models: list[PlainModel] = []
        self.steps = 0

    def step(self, model: PlainModel, x: Array, y: Array) -> float:
        """Train on a global batch: of W workers, the d-th replica of worker w has the part w + W * d; the mean of the losses."""
        count = self.workers * self.devices
        parts = [worker + self.workers * device for worker in range(self.workers) for device in range(self.devices)]
        xs, ys = np.split(x, count), np.split(y, count)
        losses = [replica.step(model.kind, model.rate, xs[p], ys[p]) for replica, p in zip(model.replicas, parts, strict=True)]
        model.is_moved = True
        self.steps += 1
        if self.steps % self.every == 0:
            for one in self.models:
                one.average(self.has_outer)
        return float(np.mean(losses))

    def ranks_of(self, worker: int) -> range:
        """The replicas of a worker."""
        return range(worker * self.devices, (worker + 1) * self.devices)
