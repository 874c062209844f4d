"""What a step returns: of a variable the value that it has at the end of the step, and not the variable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "replicas": lambda: sd.MirroredStrategy(2),
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


@pytest.mark.parametrize("eagerly", [False, True])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.filterwarnings("ignore:.*on the coordinator:UserWarning")
def test_a_variable_that_a_step_returns_is_its_value_then(strategy: str, eagerly: bool) -> None:
    with STRATEGIES[strategy]().scope():
        v = sd.Variable(np.zeros(2, np.float32))

    @sd.function
    def step() -> Any:
        v.assign_add(np.ones(2, np.float32))
        return {"v": [v, None], "text": "text"}

    step.run_eagerly = eagerly
    found = [step() for _ in range(2)]
    assert [each["v"][0].tolist() for each in found] == [[1.0, 1.0], [2.0, 2.0]]
    assert found[0]["v"][1] is None and found[0]["text"] == "text"


def test_replicas_return_their_values_of_a_variable() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(3.0)
    values = strategy.local_results(sd.function(lambda: strategy.run(lambda: v))())
    v.assign(4.0)
    assert [float(value) for value in values] == [3.0, 3.0]


def test_closures_return_the_values_of_their_moment() -> None:
    strategy = STRATEGIES["shards"]()
    with strategy.scope():
        v = sd.Variable(np.zeros(2, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> Any:
        v.assign_add(np.ones(2, np.float32))
        return v

    values = [coordinator.schedule(step) for _ in range(3)]
    coordinator.join()
    assert [value.fetch().tolist() for value in values] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_a_weight_of_keras_that_a_step_returns_is_an_array() -> None:
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
    kernel = sd.function(lambda: model.weights[0])()
    assert not isinstance(kernel, plain.Variable)
    np.testing.assert_array_equal(kernel, np.ones((2, 1)))


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_closure_that_ends_with_apply_gradients_reads_nothing_after_them(mode: Any) -> None:
    """Keras gives the count of updates, which a lambda passes on."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode=mode)
    with strategy.scope():
        v, optimizer = sd.Variable(np.zeros(2, np.float32)), plain.optimizers.SGD(0.5)
    coordinator = sd.ClusterCoordinator(strategy)
    closure = coordinator.schedule(sd.function(lambda: optimizer.apply_gradients([(v.value - 1.0, v)])))
    coordinator.join()
    assert closure.fetch() is None and v.numpy().tolist() == [0.5, 0.5]
