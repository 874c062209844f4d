"""The examples, the cluster and the model of lesson 10, and what a training with an evaluation of each kind comes to.

Computing takes time and servers do not: 80 batches of training take one worker 41 s, 10,007 examples of evaluation half of that.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import simdist as sd
from classroom.rounds import images, labels
from classroom.values import described, plain
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, Network

__all__ = [
    "BATCH",
    "EPOCHS",
    "ROWS",
    "WAYS",
    "Outcome",
    "batches",
    "busy_seconds",
    "count_right",
    "evaluate_beside",
    "make_cluster",
    "make_model",
    "on_the_chief",
    "outcome",
    "plain_keras",
    "quiet_log",
    "updates_between",
    "x_test",
    "x_train",
    "y_test",
    "y_train",
]

plain_keras: Any = import_module("keras")  # after simdist, which chooses JAX: Keras by itself takes TensorFlow

ROWS = 10_007  # a prime, so no number of workers and no size of batches divides it
BATCH = 500
EPOCHS = 6
WAYS = ("chief", "workers", "evaluator")
PATIENCE_S = 70.0  # of an evaluator that finds no new file: longer than the training

_rng = np.random.default_rng(10)


def _noisy(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """So many digits, drawn at random, with noise on every pixel."""
    drawn = _rng.integers(0, len(images), rows)
    return (images[drawn] + _rng.normal(0, 0.35, (rows, 64))).astype("float32"), labels[drawn]


x_train, y_train = _noisy(10_240)
x_test, y_test = _noisy(ROWS)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    """The batches of the evaluation: twenty of 500 examples, and one of 7."""
    return [(x_test[first : first + BATCH], y_test[first : first + BATCH]) for first in range(0, ROWS, BATCH)]


def make_cluster(workers: int = 4, evaluators: int = 0) -> sd.Cluster:
    """Make a cluster of equal machines with a quick server, in which a message takes 10 ms."""
    machine = Device(flops=8e5, memory_bandwidth=1e30, launch_overhead=0.0)
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=1e-4)
    beside = {"evaluator": evaluators} if evaluators else {}
    return sd.Cluster(
        {"worker": workers, "ps": 1, **beside},
        seed=10,
        hardware={**dict.fromkeys(["worker", "chief", *beside], machine), "ps": quick},
        network=Network(bandwidth=1e9, latency=0.01),
    )


def make_model(namespace: Any = keras) -> Any:
    """Make and compile a linear model of the digits, with the layers of simdist or of plain Keras."""
    layer = namespace.layers.Dense(10, kernel_initializer="zeros")
    model = namespace.Sequential([namespace.Input((64,)), layer])
    loss = namespace.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(namespace.optimizers.SGD(0.3), loss, metrics=["accuracy"])
    return model


@contextmanager
def quiet_log() -> Iterator[None]:
    """Keep the warning back with which simdist says that a step runs on the chief and no worker helps."""
    log = logging.getLogger("simdist")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def count_right(model: Any) -> Any:
    """A step that returns how many examples of a batch a model gets right."""

    @sd.function
    def right(x: Any, y: Any) -> Any:
        return jnp.sum(jnp.argmax(model(x, training=False), axis=-1) == y)

    return right


def on_the_chief(model: Any) -> float:
    """The accuracy, from a loop over all batches that the chief runs by itself."""
    right = count_right(model)
    with quiet_log():
        return sum(int(right(x, y)) for x, y in batches()) / ROWS


# -- what the tables show of a run --------------------------------------------------------------------------------------


def busy_seconds(cluster: sd.Cluster, start_s: float, end_s: float) -> dict[str, float]:
    """For how many seconds of a period each task has computed."""
    found: dict[str, float] = {}
    for span in cluster.trace.spans.where(category="compute"):
        seconds = min(span.end_s, end_s) - max(span.start_s, start_s)
        if seconds > 0:
            found[span.lane] = found.get(span.lane, 0.0) + seconds
    return dict(sorted(found.items()))


def updates_between(cluster: sd.Cluster, start_s: float, end_s: float) -> int:
    """How many updates the server has applied in a period."""
    return sum(span.lane == "ps:0" and start_s < span.end_s <= end_s for span in cluster.trace.spans.where(category="apply"))


# -- a training with an evaluation of each kind -------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a training of six epochs with evaluations came to.

    Attributes:
        end_s: when the training ended, in virtual seconds.
        stood_still_s: for how long no worker trained, because of evaluations.
        numbers: how many accuracies there are in the end.
        updates_behind: the most updates that the model has had, when an accuracy was known, since its weights were saved.
    """

    end_s: float
    stood_still_s: float
    numbers: int
    updates_behind: int


class _AfterEpochs(keras.callbacks.Callback):
    """Does something after every so many epochs."""

    def __init__(self, every: int, action: Callable[[int], object]) -> None:
        super().__init__()
        self.every = every
        self.action = action

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch + 1) % self.every == 0:
            self.action(epoch + 1)


def _fit(cluster: sd.Cluster, every: int, action: Callable[[Any, int], object], **options: Any) -> float:
    """Train six epochs, with an action after every so many of them; the virtual second of the end."""
    with sd.ParameterServerStrategy(cluster).scope():
        model = make_model()
    after = _AfterEpochs(every, lambda epoch: action(model, epoch))
    model.fit(x_train, y_train, batch_size=128, epochs=EPOCHS, verbose=0, callbacks=[after], **options)
    return cluster.now


@cache
def outcome(way: str, every: int = 1) -> Outcome:
    """Train six epochs with four workers, and evaluate every so many epochs.

    Args:
        way: "chief" (a loop on the chief), "workers" (`validation_data` of fit) or "evaluator" (a task beside the training).
        every: how many epochs.

    Raises:
        InvalidArgumentError: there is no such way, or no such number of epochs.
    """
    if way not in WAYS:
        raise InvalidArgumentError(f"{described(way)} is no way to evaluate: give one of {', '.join(map(repr, WAYS))}.")
    if type(plain(every)) is not int or every < 1:
        raise InvalidArgumentError(f"{described(every)} is no number of epochs: give a whole number from 1.")
    if way == "evaluator":
        return _outcome_beside(every)
    cluster, undisturbed_s = make_cluster(), _undisturbed_s()
    if way == "chief":
        end_s = _fit(cluster, every, lambda model, _: on_the_chief(model))
    else:
        data = {"validation_data": (x_test, y_test), "validation_batch_size": BATCH, "validation_freq": every}
        end_s = _fit(cluster, every, lambda *_: None, **data)
    return Outcome(end_s, end_s - undisturbed_s, EPOCHS // every, 0)


def _outcome_beside(every: int) -> Outcome:
    cluster = make_cluster(evaluators=1)
    saved_s: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        run = cluster.launch(lambda: evaluate_beside(cluster, directory), job="evaluator")

        def save(model: Any, epoch: int) -> None:
            model.save_weights(f"{directory}/{epoch}.weights.h5")
            saved_s[f"{epoch}.weights.h5"] = cluster.now

        end_s = _fit(cluster, every, save)
        run.join()
    found = run.results["evaluator:0"]
    behind = [updates_between(cluster, saved_s[name], known_s) for name, _, known_s in found]
    return Outcome(end_s, end_s - _undisturbed_s(), len(found), max(behind, default=0))


@cache
def _undisturbed_s() -> float:
    return _fit(make_cluster(), 1, lambda *_: None)


def evaluate_beside(cluster: sd.Cluster, directory: str) -> list[tuple[str, float, float]]:
    """The main of an evaluator: the name of each file, its accuracy, and the virtual second in which that was known."""
    with sd.OneDeviceStrategy().scope():
        model = make_model()
    known_s: list[float] = []
    clock = keras.callbacks.LambdaCallback(on_test_end=lambda logs: known_s.append(cluster.now))
    data = sd.Dataset.from_tensor_slices((x_test, y_test)).batch(BATCH)
    evaluator = sd.SidecarEvaluator(model, data, directory, callbacks=[clock], timeout_s=PATIENCE_S)
    with suppress(sd.errors.DeadlineExceededError):  # the training has ended
        evaluator.start()
    return [(found.path.name, found.logs["accuracy"], at_s) for found, at_s in zip(evaluator.evaluations, known_s, strict=True)]
