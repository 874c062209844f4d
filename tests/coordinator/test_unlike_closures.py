"""Closures of one round whose gradients are of different variables: they cannot be averaged, and are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras


class Two:
    """Two variables on one server, and closures that change both or one of them."""

    def __init__(self, **options: Any) -> None:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), **options)
        with strategy.scope():
            self.a, self.b = sd.Variable(0.0, name="a"), sd.Variable(0.0, name="b")
            self.optimizer = sd.Optimizer(keras.optimizers.SGD(1.0))
        self.optimizer.build([self.a, self.b])
        self.coordinator = sd.ClusterCoordinator(strategy)
        self.both = self._closure(lambda: [(2.0, self.a), (2.0, self.b)])
        self.one = self._closure(lambda: [(4.0, self.a)])
        self.twice = sd.function(self._both_and_then_one)

    def _both_and_then_one(self) -> None:
        self._apply([(2.0, self.a), (2.0, self.b)])
        self._apply([(4.0, self.a)])

    def _apply(self, pairs: list[tuple[float, sd.Variable]]) -> None:
        self.optimizer.apply_gradients(pairs)

    def _closure(self, pairs: Callable[[], list[tuple[float, sd.Variable]]]) -> Any:
        return sd.function(lambda: self._apply(pairs()))

    def run(self, *closures: Any) -> tuple[float, float]:
        for closure in closures:
            self.coordinator.schedule(closure)
        self.coordinator.join()
        return float(self.a), float(self.b)


@pytest.mark.parametrize("options", [{"mode": "sync"}, {"mode": "bounded", "staleness": 1}], ids=str)
def test_closures_of_a_round_with_gradients_for_different_variables_are_refused(options: dict[str, Any]) -> None:
    two = Two(**options)
    with pytest.raises(sd.errors.FailedPreconditionError, match="gradients for different variables among a, b, so they cannot be averaged"):
        two.run(two.both, two.one)
    a, b = float(two.a), float(two.b)
    assert (a, b) in [(-2.0, -2.0), (-4.0, 0.0)]  # the other closure counts
    assert two.run(two.both, two.both) == (a - 2.0, b - 2.0)


def test_rounds_may_change_different_variables_one_after_the_other() -> None:
    two = Two(mode="sync")
    assert two.run(two.both, two.both) == (-2.0, -2.0)
    assert two.run(two.one, two.one) == (-6.0, -2.0)


def test_closures_that_change_both_and_then_one_agree_with_each_other() -> None:
    two = Two(mode="sync")
    assert two.run(two.twice, two.twice) == (-6.0, -2.0)


@pytest.mark.parametrize("aggregation", [sd.VariableAggregation.NONE, sd.VariableAggregation.MEAN])
def test_a_step_that_assigns_the_variables_of_two_optimizers_leaves_their_rounds_as_they_are(aggregation: sd.VariableAggregation) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}), mode="sync")
    with strategy.scope():
        a, b = sd.Variable(0.0, name="a", aggregation=aggregation), sd.Variable(0.0, name="b", aggregation=aggregation)
        of_a, of_b = sd.Optimizer(keras.optimizers.SGD(1.0)), sd.Optimizer(keras.optimizers.SGD(1.0))
    change_a = sd.function(lambda gradient: of_a.apply_gradients([(gradient, a)]))
    change_b = sd.function(lambda gradient: of_b.apply_gradients([(gradient, b)]))

    @sd.function
    def assign(value: float) -> None:
        a.assign_add(value)
        b.assign_add(value)

    @sd.function
    def assign_a(value: float) -> None:
        a.assign(value)

    @sd.function
    def assign_both(value: float) -> None:
        a.assign(value)
        b.assign(value)

    coordinator = sd.ClusterCoordinator(strategy)
    rounds = [[change_a] * 3, [change_a, assign, change_a], [change_a, change_b, change_b]]
    for number, closure in enumerate(closure for round_ in rounds for closure in round_):
        coordinator.schedule(closure, (np.float32(number),))
    coordinator.join()
    assert (float(a), float(b)) == (4.0 - 1.0 - 4.0 - 6.0, 4.0 - 7.5)
    for closure, value in ((assign_both, 2.0), (assign_a, 4.0), (assign_both, 6.0)):
        coordinator.schedule(closure, (np.float32(value),))
    coordinator.join()
    assert (float(a), float(b)) == ((4.0, 4.0) if aggregation is sd.VariableAggregation.MEAN else (6.0, 6.0))


def test_asynchronous_closures_may_change_what_they_like() -> None:
    two = Two()
    assert two.run(two.both, two.one) == (-6.0, -2.0)
