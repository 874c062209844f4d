"""Saving anywhere, and going on in a new cluster, is the same as never having stopped.

A training is drawn: a strategy, a model, an optimizer, the moment of the save, and a strategy for the rest. Where the rest runs on as many
replicas, all bits are those of the training that was not interrupted: weights, slots, metrics, counters, random numbers, and the rows that
come next. That also holds for other numbers of servers and of shards, where the optimizer takes no root. On another number of replicas sums
are added in another order, so the numbers are the same but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.checkpoint.files import read

STEPS, ROWS, BATCH = 6, 48, 12
RNG = np.random.default_rng(0)
X, Y = RNG.random((ROWS, 4)).astype("float32"), RNG.integers(0, 3, ROWS).astype("int32")
WORDS = RNG.integers(0, 20, (ROWS, 2)).astype("int32")


def workers(count: int) -> Any:
    return sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": count}, seed=1))


def servers(count: int, shards: int, num_workers: int = 1) -> Any:
    cluster = sd.Cluster({"worker": num_workers, "ps": count}, seed=1)
    return sd.ParameterServerStrategy(cluster, sd.FixedShardsPartitioner(shards), mode="sync", exactly_once=True)


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": lambda: sd.OneDeviceStrategy("cpu:0"),
    "two replicas": lambda: sd.MirroredStrategy(2),
    "three replicas": lambda: sd.MirroredStrategy(3),
    "central storage": lambda: sd.CentralStorageStrategy(["gpu:0", "gpu:1"]),
    "two workers": lambda: workers(2),
    "four workers": lambda: workers(4),
    "one server": lambda: servers(1, 1),
    "two servers, three shards": lambda: servers(2, 3),
    "three servers, two shards": lambda: servers(3, 2, 2),
}
FAMILIES = [("one device",), ("two replicas",), ("three replicas",), ("central storage",), ("two workers",), ("four workers",)]
FAMILIES += [("one server", "two servers, three shards", "three servers, two shards")]
SYNCHRONOUS = [name for names in FAMILIES[:-1] for name in names]
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.05),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    # RMSprop takes a reciprocal root, which XLA rounds otherwise in shards of other lengths: on some processors, or versions of JAX.
    "schedule": lambda: keras.optimizers.RMSprop(keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)),
    "optax": lambda: optax.adam(0.05),
}
INITIALIZER = keras.initializers.GlorotUniform


def dense(units: int, seed: int, **options: Any) -> Any:
    return keras.layers.Dense(units, kernel_initializer=INITIALIZER(seed), **options)


def words() -> list[Any]:
    return [keras.layers.Embedding(20, 4, embeddings_initializer=INITIALIZER(2)), keras.layers.Flatten(), dense(3, 3)]


MODELS: dict[str, tuple[np.ndarray, Callable[[], list[Any]]]] = {
    "linear": (X, lambda: [dense(3, 1)]),
    "dropout": (X, lambda: [dense(8, 1, activation="relu"), keras.layers.Dropout(0.4, seed=3), dense(3, 2)]),
    "statistics": (X, lambda: [dense(8, 1, use_bias=False), keras.layers.BatchNormalization(synchronized=True), dense(3, 2)]),
    "embedding": (WORDS, words),
}


@dataclass(frozen=True)
class Kind:
    """Which training: names of a strategy, a model and an optimizer."""

    strategy: str
    model: str
    optimizer: str


class Training:
    """A loop of one's own, with everything that has state in one checkpoint."""

    def __init__(self, kind: Kind) -> None:
        self.strategy = STRATEGIES[kind.strategy]()
        self.coordinator = sd.ClusterCoordinator(self.strategy) if isinstance(self.strategy, sd.ParameterServerStrategy) else None
        features, layers = MODELS[kind.model]
        with self.strategy.scope():
            inputs = keras.Input(features.shape[1:], dtype=str(features.dtype))
            self.model = keras.Sequential([inputs, *layers()])
            self.optimizer: Any = sd.Optimizer(OPTIMIZERS[kind.optimizer]())
            self.accuracy = keras.metrics.SparseCategoricalAccuracy()
            self.done = sd.Variable(0, trainable=False, aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA)
        data = sd.Dataset.from_tensor_slices((features, Y)).shuffle(ROWS, seed=5).repeat().batch(BATCH)
        self.rows: Any = iter(data if self.coordinator else self.strategy.distribute_dataset(data))
        self.step = sd.function(self._step)
        state = {"model": self.model, "optimizer": self.optimizer, "accuracy": self.accuracy, "done": self.done, "rows": self.rows}
        self.checkpoint = sd.Checkpoint(**state)

    def _step(self, batch: Any) -> None:
        self.strategy.run(self._replica, args=batch)
        self.done.assign_add(1)

    def _replica(self, x: Any, y: Any) -> None:
        def loss() -> Any:
            scores = self.model(x, training=True)
            self.accuracy.update_state(y, scores)
            return jnp.sum(keras.losses.sparse_categorical_crossentropy(y, scores, from_logits=True)) / BATCH

        _, gradients = sd.value_and_grad(loss, self.model.trainable_variables)()
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))

    def take(self, steps: int) -> None:
        for _ in range(steps):
            if self.coordinator is None:
                self.step(next(self.rows))
            else:
                self.coordinator.schedule(self.step, args=(tuple(map(np.asarray, next(self.rows))),))
                self.coordinator.join()

    def state(self, directory: Path) -> dict[str, Any]:
        """All numbers, by the paths that they have in a checkpoint, and the rows that come next."""
        _, numbers = read(Path(self.checkpoint.save(directory / "state")))
        del numbers["simdist/saves"]  # one save more
        return {**numbers, "accuracy in all": np.asarray(self.accuracy.result()), "next rows": self._next_rows()}

    def _next_rows(self) -> list[np.ndarray]:
        parts = (self.strategy.local_results(part) if self.coordinator is None else (part,) for part in next(self.rows))
        return [np.concatenate([np.asarray(piece) for piece in pieces]) for pieces in parts]


@cache
def uninterrupted(kind: Kind) -> dict[str, Any]:
    training = Training(kind)
    training.take(STEPS)
    return training.state(Path(mkdtemp()))


def bits(state: dict[str, Any]) -> dict[str, list[bytes]]:
    return {name: [np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(value)] for name, value in state.items()}


def drawn(number: int) -> tuple[Kind, str, int]:
    """A training, the strategy of the rest, and the steps before the save."""
    rng = np.random.default_rng(number)
    old, model, optimizer = (str(rng.choice(list(table))) for table in (STRATEGIES, MODELS, OPTIMIZERS))
    family = next(names for names in FAMILIES if old in names)
    # Replicas draw random numbers of their own. A coordinator's rows are not distributed, so they have another kind of position.
    others = SYNCHRONOUS if number % 2 and model != "dropout" and old in SYNCHRONOUS else family
    return Kind(old, model, optimizer), str(rng.choice(others)), int(rng.integers(0, STEPS))


# Of what is drawn: each model and optimizer, other replicas, other servers, other shards, and a save before the first step.
SAMPLE = (109, 113, 268, 323)


@pytest.mark.parametrize("number", sampled(range(400), SAMPLE))
def test_going_on_in_a_new_cluster_is_never_having_stopped(number: int, tmp_path: Path) -> None:
    kind, new, before = drawn(number)
    expected = uninterrupted(kind)
    first = Training(kind)
    first.take(before)
    path = first.checkpoint.save(tmp_path / "ckpt")
    second = Training(Kind(new, kind.model, kind.optimizer))
    status = second.checkpoint.restore(path)
    for one, other in zip(second.model.get_weights(), first.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)  # the mean of three equal copies may have another last bit
    second.take(STEPS - before)
    found = second.state(tmp_path)
    if before:
        status.assert_consumed()
    else:
        status.expect_partial()  # there were no slots yet
    are_of_one_family = any({kind.strategy, new} <= set(names) for names in FAMILIES)
    if kind.strategy == new or (are_of_one_family and kind.optimizer != "schedule"):
        assert bits(found) == bits(expected), (kind, new, before)
    else:
        for name in (name for name in found if not name.startswith("replica_values/")):  # one for each replica, of other numbers
            leaves = zip(jax.tree_util.tree_leaves(found[name]), jax.tree_util.tree_leaves(expected[name]), strict=True)
            for one, other in leaves:
                rtol, atol = (1e-5, 1e-6) if are_of_one_family else (2e-4, 1e-5)
                np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)


def test_a_checkpoint_without_the_slots_does_not_pass(tmp_path: Path) -> None:
    """What the test above compares is not the same anyway."""
    kind = Kind("two replicas", "linear", "adam")
    first, second = Training(kind), Training(kind)
    first.take(3)
    path = sd.Checkpoint(model=first.model, rows=first.rows, done=first.done).save(tmp_path / "ckpt")
    sd.Checkpoint(model=second.model, rows=second.rows, done=second.done).restore(path)
    second.take(STEPS - 3)
    assert bits(second.state(tmp_path)) != bits(uninterrupted(kind))
