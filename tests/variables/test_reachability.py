"""Variables that nobody can reach any more: their numbers are given up, and their bytes where a device is full; else nothing changes."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import Any
from weakref import ref

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import ResourceExhaustedError
from simdist.hardware import Device

MANY = 1 << 19  # numbers of four bytes: enough that they are given up


def large(name: str) -> sd.Variable:
    return sd.Variable(np.ones(MANY, np.float32), name=name)


def real_bytes(strategy: sd.Strategy) -> int:
    """The memory that the numbers of all groups take, as far as they are known."""
    arrays = [array for bundle in strategy.cluster.world.states.bundles if bundle is not None for array in bundle.arrays or ()]
    return sum(array.nbytes for array in arrays if not isinstance(array, np.ndarray) or 0 not in array.strides)


def test_numbers_of_unreachable_variables_are_given_up_when_the_next_one_is_made_and_nothing_else_changes() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        kept = large("kept")
        large("dropped")
        seen = strategy.placements(), repr(strategy), strategy.cluster.engine.memory("worker:0/gpu:0").in_use_bytes
        assert real_bytes(strategy) == 2 * 4 * MANY
        last = sd.Variable(1.0, name="last")
    assert real_bytes(strategy) == 4 * MANY + 4
    assert [record.variable for record in strategy.placements()][: len(seen[0])] == [record.variable for record in seen[0]]
    assert (repr(strategy), strategy.cluster.engine.memory("worker:0/gpu:0").in_use_bytes) == (seen[1].replace("2 v", "3 v"), seen[2] + 4)
    assert [variable.name for variable in strategy.variables] == ["kept", "last"]
    assert (float(kept.numpy().sum()), float(last.numpy())) == (MANY, 1.0)


def test_numbers_stay_while_a_variable_of_their_group_or_a_step_that_has_not_been_computed_needs_them() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        total, beside = sd.Variable(0.0), sd.Variable(2.0)

    def take_a_step() -> None:
        with strategy.scope():
            source = large("source")

        @sd.function
        def step() -> None:
            total.assign(source.value.sum())
            beside.assign(beside * 2.0)
            source.assign_add(np.ones(MANY, np.float32))

        strategy.run(step)

    take_a_step()
    gc.collect()
    with strategy.scope():
        large("another")
        large("last")
    assert [variable.name for variable in strategy.variables] == ["Variable", "Variable"]
    assert (float(total.numpy()), float(beside.numpy())) == (MANY, 4.0)


@pytest.mark.parametrize("memory", [100 * MANY, 14 * MANY], ids=["room", "full"])
def test_a_group_stays_while_one_of_its_variables_can_be_reached(memory: int) -> None:
    strategy = sd.OneDeviceStrategy(cluster=sd.Cluster({"worker": 1}, hardware={"worker": Device(memory=memory)}))
    with strategy.scope():
        shared, last = sd.Variable(1.0), sd.Optimizer(optax.sgd(0.25))

    def train(optimizer: sd.Optimizer, *variables: sd.Variable) -> None:
        strategy.run(lambda: optimizer.apply_gradients([(variable.value, variable) for variable in variables]))

    def train_with_another() -> None:
        with strategy.scope():
            another, first = large("another"), sd.Optimizer(optax.sgd(0.25))
        train(first, shared, another)
        assert shared.placement.cells[0].group is another.placement.cells[0].group

    train_with_another()
    gc.collect()
    with strategy.scope():
        for _ in range(2):  # where the device is full, the second one comes in the place of the first
            sd.Variable(np.ones(2 * MANY, np.float32))
    train(last, shared)
    assert float(shared.numpy()) == 0.5625  # each update takes a quarter


def test_full_device_drops_what_nobody_can_reach_and_refuses_what_still_does_not_fit() -> None:
    cluster = sd.Cluster({"worker": 1}, hardware={"worker": Device(memory=10 * MANY)})
    strategy = sd.OneDeviceStrategy(cluster=cluster)
    with strategy.scope():
        for number in range(5):
            cycle = [large(str(number))]
            cycle.append(cycle)  # type: ignore[arg-type]
        assert [record.variable for record in strategy.placements()] in (["3", "4"], ["4"])
        with pytest.raises(ResourceExhaustedError, match="as long as something refers to it"):
            sd.Variable(np.ones(2 * MANY, np.float32), name="too large")
    assert [(record.variable, cluster.engine.memory(record.task).in_use_bytes) for record in strategy.placements()] == [("4", 4 * MANY)]
    assert repr(strategy).startswith("OneDeviceStrategy(1 in sync, 1 variables")


@pytest.mark.parametrize("servers", [False, True])
def test_a_step_that_finds_no_memory_gets_that_of_what_nobody_can_reach(servers: bool) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1}, hardware={"worker": Device(memory=10 * MANY)})
    alone = sd.OneDeviceStrategy(cluster=cluster)
    with alone.scope():
        small = sd.Variable(1.0)
        cycle: list[Any] = [large("dead")]
        cycle.append(cycle)
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    step, args = sd.function(lambda x: x.sum()), (np.ones(2 * MANY, np.float32),)

    def total() -> float:
        return float(coordinator.schedule(step, args).fetch() if servers else alone.run(step, args))

    with pytest.raises(ResourceExhaustedError, match="a step of"):
        total()
    with pytest.raises(ResourceExhaustedError) if servers else nullcontext():  # a coordinator says it to the next call, too
        coordinator.join()
    del cycle
    assert total() == 2 * MANY
    assert float(small.numpy()) == 1.0


def test_model_that_was_trained_is_not_kept_by_devices_that_have_run_its_steps() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    rows = np.ones((4, 2), np.float32)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("adam", loss="mse")
    model.fit(rows, rows[:, :1], batch_size=4, verbose=0)
    known = [ref(variable) for variable in strategy.variables]
    assert len(known) > 2
    del model
    assert (strategy.variables, [variable() for variable in known if variable() is not None]) == ([], [])


@pytest.mark.parametrize("options", [{}, {"mode": "sync"}, {"mode": "bounded", "staleness": 2}], ids=str)
@pytest.mark.sample(2)
def test_model_that_was_trained_by_workers_is_not_kept_by_tasks_that_have_sent_its_updates(options: dict[str, Any]) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), **options)
    rows = np.ones((8, 2), np.float32)
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Embedding(9, 3), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.compile("adam", loss="mse")
    dataset = sd.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(4).repeat()
    model.fit(dataset, steps_per_epoch=6, verbose=0)
    assert len(strategy.variables) > 2
    del model
    assert strategy.variables == []
