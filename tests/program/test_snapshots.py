"""Numbers are computed late, but they are those of the moment at which they were handed over."""

from __future__ import annotations

import numpy as np
import pytest

import simdist as sd
from simdist.program.values import snapshot


def strategy_with_variable() -> tuple[sd.ParameterServerStrategy, sd.Variable]:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    start = np.full(3, 2.0, np.float32)
    with strategy.scope():
        v = sd.Variable(start, name="v")
    start[:] = 9
    return strategy, v


def test_variable_keeps_its_first_value_when_the_array_changes() -> None:
    _, v = strategy_with_variable()
    np.testing.assert_array_equal(v.numpy(), [2, 2, 2])


def test_assignment_keeps_what_was_assigned_when_the_array_changes() -> None:
    _, v = strategy_with_variable()
    given = np.ones(3, np.float32)
    v.assign(given)
    given[:] = 7
    np.testing.assert_array_equal(v.numpy(), [1, 1, 1])


def test_arguments_of_a_closure_are_those_of_its_scheduling() -> None:
    strategy, v = strategy_with_variable()

    @sd.function
    def add(amount: np.ndarray) -> None:
        v.assign_add(amount)

    coordinator = sd.ClusterCoordinator(strategy)
    given = np.ones(3, np.float32)
    coordinator.schedule(add, args=(given,))
    given[:] = 5
    coordinator.join()
    given[:] = 7
    np.testing.assert_array_equal(v.numpy(), [3, 3, 3])


def test_arguments_of_a_local_step_are_those_of_its_call() -> None:
    with sd.OneDeviceStrategy().scope():
        v = sd.Variable(np.zeros(3, np.float32), name="v")
        given = np.ones(3, np.float32)

        @sd.function
        def add(amount: np.ndarray) -> None:
            v.assign_add(amount)

        add(given)
        given[:] = 7
        np.testing.assert_array_equal(v.numpy(), [1, 1, 1])


def test_arrays_of_an_iterator_are_kept_as_they_are_and_cannot_be_changed() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    batches = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(np.ones((6, 2), np.float32)).batch(6)))
    first, second = next(batches).values
    assert snapshot(first) is first and np.shares_memory(first.base, second.base)
    with pytest.raises(ValueError, match="read-only"):
        first[:] = 7


def test_a_view_of_memory_that_its_owner_may_change_is_copied() -> None:
    owner = np.ones(3, np.float32)
    view, foreign = owner[:2], np.frombuffer(bytearray(8), np.float32)
    view.flags.writeable = foreign.flags.writeable = False
    assert snapshot(view) is not view and snapshot(foreign) is not foreign
    owner.flags.writeable = False
    assert snapshot(view) is view
