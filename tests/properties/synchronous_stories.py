"""Stories of synchronous strategies: variables and steps of many kinds, all drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any

import jax.numpy as jnp
import numpy as np

import simdist as sd
from simdist import keras

__all__ = ["STRATEGIES", "WIDTH", "Story"]

WIDTH = 4
STRATEGIES: dict[str, Callable[[str], Any]] = {
    "one device": lambda numerics: sd.OneDeviceStrategy(cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "two devices": lambda numerics: sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "six devices": lambda numerics: sd.MirroredStrategy(6, cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "four workers": lambda numerics: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 4}, numerics=numerics)),
    "two workers of two": lambda numerics: sd.MultiWorkerMirroredStrategy(
        sd.Cluster({"worker": 2}, numerics=numerics), devices_per_worker=2
    ),
    "one that holds": lambda numerics: sd.CentralStorageStrategy(5, cluster=sd.Cluster({"worker": 1}, numerics=numerics)),
    "a slice": lambda numerics: sd.TPUStrategy(cluster=sd.TPUStrategy.make_cluster("v4-8", numerics=numerics)),
}


class StepError(Exception):
    """What a step fails with."""


class Story:
    """A strategy with variables and steps; all is drawn from a seed.

    Args:
        numerics: the plan.
        seed: of all that is drawn.
        without: kinds of steps that it does not have.
    """

    def __init__(self, numerics: str, seed: int, without: Container[str] = ()) -> None:
        self.rng, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.strategy = STRATEGIES[self.rng.choice(sorted(STRATEGIES))](numerics)
        rows, local = self.rng.choice([3, 90, 800]), {"trainable": False, "synchronization": "on_read"}
        with self.strategy.scope():
            self.w = self.variable((WIDTH, WIDTH))
            self.b = self.variable((WIDTH,))
            self.table = self.variable((rows, WIDTH))
            self.count = sd.Variable(np.int32(0), trainable=False, aggregation="only_first_replica")
            self.total = sd.Variable(np.zeros(WIDTH, np.float32), aggregation=self.rng.choice(["sum", "mean"]), **local)
            self.average = sd.Variable(np.ones(WIDTH, np.float32), trainable=False, aggregation="mean")
            self.mean = keras.metrics.MeanSquaredError()
            self.optimizer = sd.Optimizer(self.rng.choice([keras.optimizers.SGD, keras.optimizers.Adam])(0.01))
            self.dropout = keras.layers.Dropout(0.4, seed=3)
        self.optimizer.build([self.w, self.b, self.table])
        kinds = [name.removeprefix("step_") for name in dir(self) if name.startswith("step_")]
        if isinstance(self.strategy, sd.CentralStorageStrategy):
            kinds.remove("assign")  # no replica has a value of its own
        self.steps = {kind: self.step(kind) for kind in (*kinds, "several") if kind not in without}
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

    def step(self, kind: str) -> Callable[[Any], Any]:
        """What runs a step of a kind on all replicas."""
        run = self.strategy.run
        if kind != "several":
            return sd.function(lambda x: run(getattr(self, f"step_{kind}"), args=(x,)))

        @sd.function
        def several(x: Any) -> Any:
            for _ in range(2):
                run(self.step_train, args=(x,))
                run(self.step_count, args=(run(self.step_differ, args=(x,)),))
            return run(self.step_train_one, args=(x,))

        return several

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

    def step_average(self, x: Any) -> Any:
        self.average.assign(self.average.value * 0.5 + x.sum(0))
        return self.average.value.sum()

    def step_merge(self, x: Any) -> Any:
        def change(strategy: Any, value: Any) -> None:
            strategy.extended.update(
                self.average, lambda v, by: v.assign_add(by), args=(strategy.extended.reduce_to("sum", value, self.average),)
            )

        sd.get_replica_context().merge_call(change, args=(x.mean() + self.b.value,))
        return x.sum()

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

    def reduced(self, value: Any, how: str) -> Any:
        """The sum or the mean of what the replicas have."""
        return np.asarray(self.strategy.reduce(how, value, axis=None))

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
            if self.rng.random() < 0.05 and results and kind not in ("differ", "fail"):  # of parts of different sizes there is no sum
                self.seen.append(self.reduced(results[-1], self.rng.choice(["sum", "mean"])))
        for result in results[:: 1 + len(results) // 3] if self.rng.random() < 0.5 else ():
            self.see(result)

    def told(self) -> list[Any]:
        for _ in range(self.rng.choice([2, 4, 6])):
            self.phase()
        return [*self.seen, *self.ending()]

    def ending(self) -> list[Any]:
        """The values at the end: of the variables, the metric and the optimizer."""
        variables = [self.w, self.b, self.table, self.count, self.total, self.average]
        optimizer = [variable.numpy() for variable in self.optimizer.wrapped.variables]
        return [*(variable.numpy() for variable in variables), np.asarray(self.mean.result()), *optimizer]
