"""Stories of replicas that take steps of their own (`sync_every`): one or two models, trained, read, saved and evaluated in any order.

A script says what happens, drawn from a seed. It is played twice: by models of a strategy, which one program drives or launched mains,
and by lists of replicas in numpy.
"""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import simdist as sd
from simdist import keras
from tests.strategies.synchronous.plain_local_steps import (
    EMA,
    FEATURES,
    KEEP,
    MOMENTUM,
    OUTER_MOMENTUM,
    OUTER_RATE,
    PlainModel,
    PlainReplicas,
    outputs,
)

__all__ = ["Script", "Seen", "played", "played_by_numpy"]

ROWS = 4  # of a replica, in each step
Seen = list[Any]


class Script:
    """What happens: drawn from a seed.

    Attributes:
        events: each with its name, the number of a model, and what else it needs.
    """

    def __init__(self, seed: int) -> None:
        rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.workers, self.devices = rng.choice([(1, 3), (2, 1), (2, 2), (3, 1)])
        self.every = rng.choice([2, 3, 5])
        self.has_outer = rng.random() < 0.5
        self.new = self.rows(12)
        self.events: list[tuple[Any, ...]] = [("build", 0, *self._model(rng))]
        if rng.random() < 0.6 and self.has_outer:
            self.events.append(("build", 1, *self._model(rng)))
        for _ in range(rng.randint(8, 14)):
            self._add(rng)

    def rows(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        x = self.numbers.normal(0.5, 1.5, size=(count, FEATURES)).astype(np.float32)
        return x, (x @ [[1.0], [2.0], [-1.0]] + 0.1 * self.numbers.normal(size=(count, 1))).astype(np.float32)

    def _model(self, rng: random.Random) -> tuple[str, np.ndarray]:
        return rng.choice(["sgd", "ema", "adam"]), self.numbers.normal(size=(FEATURES, 1)).astype(np.float32)

    def _add(self, rng: random.Random) -> None:
        kinds = [event[2] for event in self.events if event[0] == "build"]
        number = rng.randrange(len(kinds))
        kind = rng.choice(["train"] * 6 + ["evaluate", "read", "assign", "rate", "save", "restore", "build"])
        if kind == "train":
            self.events.append((kind, number, self.rows(rng.choice([1, 2, 4]) * ROWS * self.workers * self.devices), rng.random() < 0.4))
        elif kind == "evaluate":
            has_averages = kinds[number] == "ema" and any(event[:2] == ("train", number) for event in self.events)
            self.events.append((kind, number, has_averages and rng.random() < 0.7))
        elif kind == "restore":
            saved = [place for place, event in enumerate(self.events) if event[0] == "save"]
            if saved and not any(event[0] == "build" for event in self.events[saved[-1] :]):
                self.events.append((kind, number))
        elif kind != "build":
            self.events.append((kind, number, rng.choice([0.5, 0.8])))
        elif len(kinds) < 2 and not self.has_outer:
            self.events.append((kind, 1, *self._model(rng)))


class Player(NamedTuple):
    """A strategy with the models that it has so far."""

    script: Script
    strategy: sd.MultiWorkerMirroredStrategy
    path: Path
    models: list[Any]

    def build(self, _: int, kind: str, kernel: np.ndarray) -> Seen:
        normal = keras.layers.BatchNormalization(momentum=KEEP, center=False, scale=False)
        with self.strategy.scope():
            model = keras.Sequential([keras.Input((FEATURES,)), normal, keras.layers.Dense(1)])
            model.layers[1].set_weights([kernel, np.zeros(1, np.float32)])
            averages: dict[str, Any] = {"use_ema": True, "ema_momentum": EMA} if kind == "ema" else {}
            sgd = keras.optimizers.SGD(0.05, momentum=MOMENTUM, **averages)
            model.compile(keras.optimizers.Adam(0.05) if kind == "adam" else sgd, "mse")
        self.models.append(model)
        return []

    def train(self, number: int, rows: Any, validates: bool) -> Seen:
        size = ROWS * self.script.workers * self.script.devices
        data: dict[str, Any] = {"validation_data": self.script.new, "validation_batch_size": 12} if validates else {}
        logs = self.models[number].fit(*rows, batch_size=size, shuffle=False, verbose=0, **data).history
        return [np.asarray(value[0]) for _, value in sorted(logs.items())]

    def evaluate(self, number: int, with_averages: bool) -> Seen:
        callbacks = [keras.callbacks.SwapEMAWeights()] if with_averages else []
        return [np.asarray(self.models[number].evaluate(*self.script.new, batch_size=12, verbose=0, callbacks=callbacks))]

    def read(self, number: int, _: float = 0.0) -> Seen:
        (average, variance), (kernel, bias) = (layer.get_weights() for layer in self.models[number].layers)
        return [kernel, bias, average, variance]

    def assign(self, number: int, factor: float) -> Seen:
        self.models[number].set_weights([factor * weight for weight in self.models[number].get_weights()])
        return []

    def rate(self, number: int, factor: float) -> Seen:
        optimizer = self.models[number].optimizer
        optimizer.learning_rate = factor * float(optimizer.learning_rate)
        return []

    def save(self, *_: Any) -> Seen:
        self._checkpoint().write(self.path)
        return []

    def restore(self, *_: Any) -> Seen:
        self._checkpoint().read(self.path)
        return []

    def _checkpoint(self) -> sd.Checkpoint:
        return sd.Checkpoint(models=list(self.models), optimizers=[model.optimizer for model in self.models])

    def ending(self) -> Seen:
        """What each replica of this program has, and what all read."""
        found = [variable for model in self.models for layer in reversed(model.layers) for variable in layer.variables]
        own = [np.asarray(value) for variable in found for value in self.strategy.local_results(variable.simdist_variable)]
        return own + [value for number in range(len(self.models)) for value in self.read(number)]


class PlainPlayer:
    """The same in numpy; `ranks` are those of the program that evaluates, None for all."""

    def __init__(self, script: Script, ranks: range | None) -> None:
        self.script, self.ranks = script, ranks
        self.replicas = self.saved = PlainReplicas(script.workers, script.devices, script.every, script.has_outer)

    def model(self, number: int) -> PlainModel:
        return self.replicas.models[number]

    def loss(self, weights: Seen) -> Any:
        return np.mean((outputs(weights, self.script.new[0]) - self.script.new[1]) ** 2)

    def build(self, _: int, kind: str, kernel: np.ndarray) -> Seen:
        self.replicas.models.append(PlainModel(kind, [kernel, np.zeros(1)], self.script.workers * self.script.devices))
        return []

    def train(self, number: int, rows: Any, validates: bool) -> Seen:
        model, (x, y) = self.model(number), rows
        count = len(x) // (ROWS * self.script.workers * self.script.devices)
        losses = [self.replicas.step(model, *batch) for batch in zip(np.split(x, count), np.split(y, count), strict=True)]
        found = [np.mean(losses), *([self.loss(model.seen())] if validates else [])]
        if model.kind == "ema":  # at the end of a fit
            model.assign(model.averages()[:2])
        return found

    def evaluate(self, number: int, with_averages: bool) -> Seen:
        model = self.model(number)
        return [self.loss(model.averages(self.ranks) if with_averages else model.seen(self.ranks))]

    def read(self, number: int, _: float = 0.0) -> Seen:
        return self.model(number).seen()

    def assign(self, number: int, factor: float) -> Seen:
        self.model(number).assign([factor * weight for weight in self.read(number)])
        return []

    def rate(self, number: int, factor: float) -> Seen:
        self.model(number).rate *= factor
        return []

    def save(self, *_: Any) -> Seen:
        self.saved = copy.deepcopy(self.replicas)
        return []

    def restore(self, *_: Any) -> Seen:
        self.replicas = copy.deepcopy(self.saved)
        return []

    def ending(self) -> Seen:
        models = self.replicas.models
        ranks = range(self.script.workers * self.script.devices) if self.ranks is None else self.ranks
        own = [[model.replicas[rank].weights + model.replicas[rank].moving for rank in ranks] for model in models]
        values = [value for replicas in own for of_replicas in zip(*replicas, strict=True) for value in of_replicas]
        return values + [value for model in models for value in model.seen()]


def played(script: Script, path: Path, cluster: sd.Cluster | None) -> Seen:
    """Play a script; without a cluster, as one of several launched mains."""
    outer = keras.optimizers.SGD(OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True) if script.has_outer else None
    given: dict[str, Any] = {"sync_every": script.every, "devices_per_worker": script.devices, "outer_optimizer": outer}
    player = Player(script, sd.MultiWorkerMirroredStrategy(cluster, **given), path, [])
    return [value for name, *event in script.events for value in getattr(player, name)(*event)] + player.ending()


def played_by_numpy(script: Script, worker: int | None) -> Seen:
    """Play it with lists of replicas, as the main of this worker, or as the program that drives all (None)."""
    plain = PlainReplicas(script.workers, script.devices, script.every, script.has_outer)
    player = PlainPlayer(script, None if worker is None else plain.ranks_of(worker))
    return [value for name, *event in script.events for value in getattr(player, name)(*event)] + player.ending()
