"""Numbers are computed late, but they are those of the moment at which they were handed over."""

from __future__ import annotations

import numpy as np

import simdist as sd


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
