"""Any story of a synchronous strategy has the bits of calls that are made at once, whatever the plan by which its numbers are computed.

Steps of many kinds come in turns: those that train all variables, one of them or rows of a table, count, draw random numbers, gather, give
each replica a value of its own, and those that fail. Results of some are arguments of others, and something is read in the middle.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from failed_scans import scans_from_few_entries
from sampling import sampled
from simdist import keras

WIDTH, TABLE_BYTES = 4, 1_024
STRATEGIES: dict[str, Callable[[str], Any]] = {
    "one device": lambda numerics: sd.OneDeviceStrategy(cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "two devices": lambda numerics: sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "six devices": lambda numerics: sd.MirroredStrategy(6, cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "four workers": lambda numerics: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 4}, numerics=numerics)),
    "a slice": lambda numerics: sd.TPUStrategy(cluster=sd.TPUStrategy.make_cluster("v4-8", numerics=numerics)),
}


@pytest.fixture(autouse=True)
def scans_from_few_entries_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with scans_from_few_entries(monkeypatch, TABLE_BYTES):
        yield


class StepError(Exception):
    """What a step fails with."""


class Story:
    """A strategy with variables and steps; all is drawn from a seed."""

    def __init__(self, numerics: str, seed: int) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.strategy = STRATEGIES[self.rng.choice(sorted(STRATEGIES))](numerics)
        rows, local = self.rng.choice([3, 90, 800]), {"trainable": False, "synchronization": "on_read"}
        with self.strategy.scope():
            self.w = self.variable((WIDTH, WIDTH))
            self.b = self.variable((WIDTH,))
            self.table = self.variable((rows, WIDTH))
            self.count = sd.Variable(np.int32(0), trainable=False, aggregation="only_first_replica")
            self.total = sd.Variable(np.zeros(WIDTH, np.float32), aggregation=self.rng.choice(["sum", "mean"]), **local)
            self.mean = keras.metrics.MeanSquaredError()
            self.optimizer = sd.Optimizer(self.rng.choice([keras.optimizers.SGD, keras.optimizers.Adam])(0.01))
            self.dropout = keras.layers.Dropout(0.4, seed=3)
        self.optimizer.build([self.w, self.b, self.table])
        kinds = {name.removeprefix("step_"): getattr(self, name) for name in dir(self) if name.startswith("step_")}
        self.steps = {kind: sd.function(lambda *args, step=step: self.strategy.run(step, args=args)) for kind, step in kinds.items()}
        rows_of_all = self.numbers.normal(size=(50, WIDTH)).astype(np.float32)
        dataset = sd.Dataset.from_tensor_slices(rows_of_all).shuffle(50, seed=1).batch(4 * self.replicas).repeat()
        self.iterator = iter(self.strategy.distribute_dataset(dataset))
        self.kept: list[Any] = []
        self.seen: list[Any] = []

    @property
    def replicas(self) -> int:
        return self.strategy.num_replicas_in_sync

    def variable(self, shape: tuple[int, ...]) -> sd.Variable:
        return sd.Variable(self.numbers.normal(size=shape).astype(np.float32))

    # -- the steps ------------------------------------------------------------------------------------------------

    def train(self, loss: Callable[[], Any], *variables: sd.Variable) -> Any:
        value, gradients = sd.value_and_grad(loss, list(variables))()
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    def step_train(self, x: Any) -> Any:
        return self.train(lambda: ((x @ self.w.value + self.b.value) ** 2).sum() / 100, self.w, self.b)

    def step_train_one(self, x: Any) -> Any:
        return self.train(lambda: (self.table.value[:3] * x.sum(0)).sum() / 100, self.table)

    def step_train_rows(self, x: Any) -> Any:
        ids = np.arange(7, dtype=np.int32) * 13 % self.table.shape[0]
        return self.train(lambda: (sd.embedding_lookup(self.table, ids) @ self.w.value).sum() / 100, self.table, self.w) + x.sum()

    def step_count(self, x: Any) -> Any:
        self.count.assign_add(1)
        self.total.assign_add(x.sum(0))
        self.mean.update_state(x, x @ self.w.value)
        return x.mean()

    def step_differ(self, x: Any) -> Any:
        return x * (1 + sd.get_replica_context().replica_id_in_sync_group) + self.b.value

    def step_collect(self, x: Any) -> Any:
        context = sd.get_replica_context()
        return context.all_reduce("sum", x.sum(0)) * context.all_gather(x.sum(0, keepdims=True), axis=0).mean(0)

    def step_draw(self, x: Any) -> Any:
        return self.dropout(x, training=True).sum() * self.w.value[0, 0]

    def step_assign(self, x: Any) -> Any:
        self.b.assign(jnp.clip(x.sum(0) / 10, -1, 1))
        return self.b.value.sum()

    def step_fail(self, x: Any) -> Any:
        self.total.assign_add(x.sum(0))
        raise StepError

    # -- the story ------------------------------------------------------------------------------------------------

    def argument(self, how: str) -> Any:
        """The same array for all replicas, one for each, the result of an earlier step, or the next element."""
        if how == "next":
            return next(self.iterator)
        if how == "kept" and self.kept:
            return self.rng.choice(self.kept)
        values = [self.numbers.normal(size=(4, WIDTH)).astype(np.float32) for _ in range(self.replicas)]
        return values[0] if how == "same" else self.strategy.distribute_values_from_function(lambda at: values[at.replica_id_in_sync_group])

    def see(self, value: Any) -> None:
        self.seen += [np.asarray(part) for part in self.strategy.local_results(value)]

    def phase(self) -> None:
        usual, how, results = self.rng.choice([*self.steps]), self.rng.choice(["same", "each", "kept", "next"]), list[Any]()
        for _ in range(self.rng.choice([2, 7, 30])):
            kind = usual if self.rng.random() < 0.9 else self.rng.choice([*self.steps])
            with suppress(StepError):
                results.append(self.steps[kind](self.argument(how)))
                if kind == "differ":
                    self.kept = [*self.kept[-3:], results[-1]]
            if self.rng.random() < 0.05:
                chosen = self.rng.choice([self.w, self.b, self.table])
                chosen.assign(chosen.numpy() * 0.5)
            if self.rng.random() < 0.05 and results:
                self.see(results[-1])
        for result in results[:: 1 + len(results) // 3] if self.rng.random() < 0.5 else ():
            self.see(result)

    def told(self) -> list[Any]:
        for _ in range(self.rng.choice([2, 4, 6])):
            self.phase()
        variables = [self.w, self.b, self.table, self.count, self.total, *self.optimizer.wrapped.variables]
        return [*self.seen, *(variable.numpy() for variable in variables), np.asarray(self.mean.result())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("numerics", "seed"),
    sampled([(numerics, seed) for numerics in ("deferred", "replay", "loop") for seed in range(100)], {("deferred", 5)}),
)
def test_any_story_has_the_bits_and_the_times_of_calls_at_once(numerics: str, seed: int) -> None:
    story, judge = Story(numerics, seed), Story("eager", seed)
    for found, expected in zip(story.told(), judge.told(), strict=True):
        assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()
    assert story.strategy.cluster.trace.digest() == judge.strategy.cluster.trace.digest()
