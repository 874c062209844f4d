"""A single replica changes the rows of a table that it has looked up, where its optimizer leaves the others alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras

RNG = np.random.default_rng(0)
ROWS, WIDTH, BATCH = 50, 3, 5
TABLE = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
IDS = RNG.integers(0, ROWS, (4, BATCH)).astype(np.int32)
IDS[1] = 7  # five times the same row

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(devices=1),
    "in process": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 1}, engine="in_process")),
    "isolated": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 1}, engine="in_process", isolated=True)),
    "vmap": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 1}, numerics="vmap")),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: sd.Optimizer(keras.optimizers.SGD(0.1)),
    "adagrad": lambda: sd.Optimizer(optax.adagrad(0.1)),
    "adam": lambda: sd.Optimizer(keras.optimizers.Adam(0.1)),
    "clipped sgd": lambda: sd.Optimizer(keras.optimizers.SGD(0.1, clipvalue=0.05)),
}
Lookup = Callable[[sd.Variable, Any], Any]


def rows_of(table: sd.Variable, ids: Any) -> Any:
    return sd.embedding_lookup(table, ids)


def whole(table: sd.Variable, ids: Any) -> Any:
    return table.value[ids]


class Training:
    """Steps that look up rows of a table, and what they leave."""

    def __init__(self, strategy: Any, optimizer: Callable[[], Any], lookup: Lookup = rows_of, table: Any = TABLE, **change: Any) -> None:
        with strategy.scope():
            self.table, self.optimizer = sd.Variable(table, name="table"), optimizer()
        self.strategy, self.lookup, self.clip = strategy, lookup, change.get("clip")
        self.step = sd.function(self._step)

    def _step(self, ids: Any) -> Any:
        return self.strategy.run(self._replica, args=(ids,))

    def _replica(self, ids: Any) -> Any:
        def loss() -> Any:
            twice = self.lookup(self.table, ids) * 2.0 + self.lookup(self.table, (ids * 3) % ROWS)
            return (twice**2).sum()

        value, (gradient,) = sd.value_and_grad(loss, [self.table])()
        if self.clip is not None:
            gradient = jnp.clip(gradient, -self.clip, self.clip)
        self.optimizer.apply_gradients([(gradient, self.table)])
        return value

    def run(self, batches: Any = IDS) -> np.ndarray:
        for ids in batches:
            self.step(ids)
        return self.table.numpy()


@pytest.mark.sample(at_most=3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_numbers_are_those_of_the_gradient_of_the_whole_table(strategy: str, optimizer: str) -> None:
    by_rows, dense = (Training(STRATEGIES[strategy](), OPTIMIZERS[optimizer], lookup).run() for lookup in (rows_of, whole))
    np.testing.assert_allclose(by_rows, dense, rtol=1e-5, atol=1e-6)
    assert (by_rows != TABLE).any(axis=1).sum() == len(np.unique([IDS, (IDS * 3) % ROWS]))


def seconds_of_a_step(strategy: Any, rows: int, lookup: Lookup = rows_of, optimizer: str = "sgd") -> float:
    training = Training(strategy, OPTIMIZERS[optimizer], lookup, np.zeros((rows, 64), np.float32))
    training.run(IDS[:1])
    return strategy.cluster.now


def test_seconds_follow_the_rows_that_were_looked_up_and_not_the_table() -> None:
    small, large = (seconds_of_a_step(sd.OneDeviceStrategy(), rows) for rows in (1_000, 20_000))
    assert large < 1.1 * small
    assert seconds_of_a_step(sd.OneDeviceStrategy(), 20_000, whole) > 5 * large
    assert seconds_of_a_step(sd.MirroredStrategy(devices=2), 20_000) > large  # these communicate, too


def test_a_rule_that_changes_all_rows_takes_the_time_of_a_dense_gradient() -> None:
    by_rows, dense = (seconds_of_a_step(sd.OneDeviceStrategy(), 2_000, lookup, "adam") for lookup in (rows_of, whole))
    assert by_rows == pytest.approx(dense, rel=0.01)


def test_a_gradient_that_the_step_changes_is_a_table() -> None:
    by_rows, dense = (Training(sd.OneDeviceStrategy(), OPTIMIZERS["sgd"], lookup, clip=0.05).run() for lookup in (rows_of, whole))
    np.testing.assert_allclose(by_rows, dense, rtol=1e-5, atol=1e-6)
    assert np.abs(by_rows - TABLE).max() < 0.1 * 0.05 * 4 + 1e-6


def test_a_batch_that_asks_for_most_rows_and_one_without_any() -> None:
    strategy, batches = sd.OneDeviceStrategy(), [np.arange(ROWS, dtype=np.int32), np.zeros(0, np.int32), IDS[0]]
    by_rows, dense = (Training(strategy, OPTIMIZERS["sgd"], lookup).run(batches) for lookup in (rows_of, whole))
    np.testing.assert_allclose(by_rows, dense, rtol=1e-5, atol=1e-6)


def test_steps_go_on_by_rows_when_groups_of_variables_were_joined_between_them() -> None:
    training = Training(sd.OneDeviceStrategy(), OPTIMIZERS["sgd"])
    training.run(IDS[:2])
    with training.strategy.scope():
        other = sd.Variable(np.ones(3, np.float32), name="other")

    def of_both() -> None:
        _, gradients = sd.value_and_grad(lambda: (other.value * rows_of(training.table, np.array([1]))).sum(), [other, training.table])()
        sd.Optimizer(optax.sgd(0.0)).apply_gradients(zip(gradients, [other, training.table], strict=True))

    training.strategy.run(of_both)
    dense = Training(sd.OneDeviceStrategy(), OPTIMIZERS["sgd"], whole)
    np.testing.assert_allclose(training.run(IDS[2:]), dense.run(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["by run", "alone"])
@pytest.mark.sample(2)
def test_a_step_that_run_is_given_or_that_runs_alone_changes_rows_too(how: str) -> None:
    usual, other = [Training(sd.OneDeviceStrategy(), lambda: sd.Optimizer(optax.adam(0.1), lazy_rows=True)) for _ in range(2)]
    step = sd.function(other._replica)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ids in IDS:
            if how == "by run":
                other.strategy.run(step, args=(ids,))
            else:
                with other.strategy.scope():
                    step(ids)
    np.testing.assert_array_equal(other.table.numpy(), usual.run())
    assert other.strategy.cluster.now == usual.strategy.cluster.now
