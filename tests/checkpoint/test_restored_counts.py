"""What an optimizer says of itself between a restore and its first step: what the checkpoint has, though its slots do not exist yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError

STEPS = 5
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "Adam": lambda: keras.optimizers.Adam(0.1),
    "schedule": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), initial_scale=8.0, dynamic_growth_steps=3),
    "optax sgd": lambda: optax.sgd(0.1),
    "optax adam": lambda: optax.adam(0.1),
}
OWNERS: dict[str, Callable[[], Any]] = {
    "replicas": lambda: sd.MirroredStrategy(2),
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


def made(optimizer: str, owner: str) -> tuple[Any, Any, Any]:
    strategy = OWNERS[owner]()
    with strategy.scope():
        v: Any = sd.Variable(np.ones(4, np.float32), name="v")
        return strategy, v, sd.Optimizer(OPTIMIZERS[optimizer]())


def train(strategy: Any, v: Any, optimizer: Any, steps: int) -> None:
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(np.full(4, 0.5, np.float32), v)])))
    for _ in range(steps):
        if isinstance(strategy, sd.ParameterServerStrategy):
            sd.ClusterCoordinator(strategy).schedule(step).fetch()
        else:
            step()


def saved(path: Path, optimizer: str, owner: str) -> str:
    """A checkpoint after some steps."""
    strategy, v, trained = made(optimizer, owner)
    trained.build([v])
    train(strategy, v, trained, STEPS)
    return sd.Checkpoint(v=v, optimizer=trained).save(path / "ckpt")


@pytest.mark.sample
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_count_is_that_of_the_checkpoint_before_the_first_step(optimizer: str, owner: str, tmp_path: Path) -> None:
    path = saved(tmp_path, optimizer, owner)
    strategy, v, other = made(optimizer, owner)
    checkpoint = sd.Checkpoint(v=v, optimizer=other)
    status = checkpoint.restore(path)
    assert int(other.iterations) == STEPS
    again = checkpoint.save(tmp_path / "before the first step")
    other.build([v])
    assert int(other.iterations) == STEPS
    train(strategy, v, other, 2)
    assert int(other.iterations) == STEPS + 2
    status.assert_consumed()
    third = made(optimizer, owner)
    sd.Checkpoint(v=third[1], optimizer=third[2]).restore(again).expect_partial()
    assert int(third[2].iterations) == STEPS


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("is_built", [False, True], ids=["not built", "built"])
@pytest.mark.sample
def test_a_loop_that_is_resumed_takes_the_steps_that_are_left(is_built: bool, owner: str, tmp_path: Path) -> None:
    def run(total: int) -> Any:
        strategy, v, optimizer = made("optax sgd", owner)
        if is_built:
            optimizer.build([v])
        manager = sd.CheckpointManager(sd.Checkpoint(v=v, optimizer=optimizer), tmp_path, max_to_keep=2)
        manager.restore_or_initialize()
        for _ in range(int(optimizer.iterations), total):
            train(strategy, v, optimizer, 1)
            manager.save()
        return v.numpy(), strategy.num_replicas_in_sync

    run(6)
    found, replicas = run(10)
    np.testing.assert_allclose(found, 1.0 - 10 * 0.1 * 0.5 * replicas, atol=1e-5)


def test_the_counts_of_two_sets_of_variables_are_added_whichever_waits(tmp_path: Path) -> None:
    def two() -> tuple[Any, Any, Any, Any]:
        strategy, v, optimizer = made("optax adam", "replicas")
        with strategy.scope():
            return strategy, v, sd.Variable(np.ones(4, np.float32), name="w"), optimizer

    strategy, v, w, optimizer = two()
    train(strategy, v, optimizer, 3)
    train(strategy, w, optimizer, 4)
    path = sd.Checkpoint(v=v, w=w, optimizer=optimizer).save(tmp_path / "ckpt")
    strategy, v, w, optimizer = two()
    sd.Checkpoint(v=v, w=w, optimizer=optimizer).restore(path).expect_partial()
    found = [optimizer.iterations]
    for of in (w, v):
        train(strategy, of, optimizer, 1)
        found.append(optimizer.iterations)
    assert found == [7, 8, 9]


def test_the_last_of_two_restores_counts(tmp_path: Path) -> None:
    strategy, v, optimizer = made("optax sgd", "replicas")
    checkpoint = sd.Checkpoint(v=v, optimizer=optimizer)
    paths = []
    for _ in range(2):
        train(strategy, v, optimizer, 2)
        paths.append(checkpoint.save(tmp_path / "ckpt"))
    for first, second in (paths, paths[::-1]):
        _, v, optimizer = made("optax sgd", "replicas")
        checkpoint = sd.Checkpoint(v=v, optimizer=optimizer)
        checkpoint.restore(first).expect_partial()
        checkpoint.restore(second).expect_partial()
        expected = 2 * (1 + paths.index(second))
        assert optimizer.iterations == expected
        optimizer.build([v])
        assert optimizer.iterations == expected


def test_a_step_that_asks_for_a_count_that_waits_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path, "optax sgd", "replicas")
    strategy, v, optimizer = made("optax sgd", "replicas")
    sd.Checkpoint(v=v, optimizer=optimizer).restore(path).expect_partial()
    step = sd.function(lambda: strategy.run(lambda: v.assign(v * optimizer.iterations)))
    with pytest.raises(FailedPreconditionError, match=r"restored \(5\).*Call its build"):
        step()
    optimizer.build([v])
    before = v.numpy()
    step()
    np.testing.assert_allclose(v.numpy(), before * STEPS)
