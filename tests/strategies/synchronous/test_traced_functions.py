"""`strategy.run` of a function under ``@sd.function``: one trace for each signature, on any number of replicas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError

STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "one replica": lambda: sd.MirroredStrategy(1),
    "two replicas": lambda: sd.MirroredStrategy(2),
    "two workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "central storage": lambda: sd.CentralStorageStrategy(2),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_python_runs_at_the_trace_only(name: str) -> None:
    strategy, rate, calls = STRATEGIES[name](), 1.0, 0
    with strategy.scope():
        variable = sd.Variable(1.0)

    @sd.function
    def scaled(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return variable.value * rate * x

    def first(x: Any) -> float:
        return float(strategy.local_results(strategy.run(scaled, args=(x,)))[0])

    assert first(np.float32(1.0)) == 1.0
    rate = 2.0
    assert [first(np.float32(1.0)), first(np.float32(3.0))] == [1.0, 3.0]
    assert (scaled.traces, calls) == (1, 1)
    assert first(np.ones((), np.int32)) == 2.0  # another dtype is another signature
    assert (scaled.traces, calls) == (2, 2)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_plain_function_runs_in_each_call(name: str) -> None:
    strategy, rates = STRATEGIES[name](), [1.0]
    with strategy.scope():
        variable = sd.Variable(1.0)

    def scaled() -> Any:
        return variable.value * rates[-1]

    assert float(strategy.local_results(strategy.run(scaled))[0]) == 1.0
    rates.append(2.0)
    assert float(strategy.local_results(strategy.run(scaled))[0]) == 2.0


def test_each_replica_gets_its_value_of_an_argument() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        total = sd.Variable(0.0, aggregation=sd.VariableAggregation.SUM)

    @sd.function
    def add(x: Any, factor: float = 1.0) -> Any:
        total.assign_add(x * factor)
        return x

    parts = strategy.experimental_distribute_values_from_function(lambda replica: np.float32(replica.replica_id_in_sync_group + 1))
    for _ in range(2):
        results = strategy.local_results(strategy.run(add, args=(parts,), kwargs={"factor": 10.0}))
        assert [float(value) for value in results] == [1.0, 2.0]
    assert float(total.numpy()) == 60.0
    assert add.traces == 1


def test_its_variables_are_made_once() -> None:
    strategy = sd.MirroredStrategy(2)
    made: list[Any] = []

    @sd.function
    def count() -> Any:
        if not made:
            made.append(sd.Variable(0.0, aggregation=sd.VariableAggregation.ONLY_FIRST_REPLICA))
        made[0].assign_add(1.0)

    for _ in range(3):
        strategy.run(count)
    assert (len(made), float(made[0].numpy())) == (1, 3.0)


def test_batches_of_other_shapes_are_other_signatures() -> None:
    strategy = sd.MirroredStrategy(2)
    data = strategy.experimental_distribute_dataset(sd.Dataset.from_tensor_slices(np.arange(10, dtype=np.float32)).batch(4))
    added = sd.function(lambda x: x.sum())
    sums = [float(strategy.reduce("sum", strategy.run(added, args=(batch,)), axis=None)) for batch in data]
    assert sums == [6.0, 22.0, 17.0]
    assert added.traces == 2


def test_a_declared_duration_is_that_of_the_step() -> None:
    strategy = sd.MirroredStrategy(2)
    step = sd.function(seconds=2.0)(lambda: 1.0)
    before = strategy.cluster.now
    strategy.run(step)
    assert strategy.cluster.now - before == pytest.approx(2.0, abs=1e-3)


@pytest.mark.parametrize("call", ["in a step", "in strategy.run"])
def test_a_declared_duration_inside_another_step_is_refused(call: str) -> None:
    strategy = sd.MirroredStrategy(2)
    part = sd.function(seconds=2.0)(lambda: 1.0)
    with pytest.raises(FailedPreconditionError, match="has seconds=2, and is called inside another step"):
        if call == "in a step":
            sd.function(lambda: strategy.run(part))()
        else:
            strategy.run(lambda: part())
    whole = sd.function(seconds=3.0)(lambda: strategy.run(part))
    before = strategy.cluster.now
    with strategy.scope():
        whole()
    assert strategy.cluster.now - before == pytest.approx(3.0, abs=1e-3)


def fitted(scale: np.ndarray) -> list[float]:
    class Scale(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return x * scale

    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((2,)), Scale(), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    return model.fit(np.ones((8, 2), "f"), np.zeros((8, 1), "f"), batch_size=4, epochs=2, verbose=0, shuffle=False).history["loss"]


def test_a_number_that_a_step_captured_may_change_in_place_without_any_effect_on_other_models() -> None:
    scale = np.array(1.0, "f")
    first = fitted(scale)
    scale[...] = 0.5
    second = fitted(scale)
    assert second == fitted(np.array(0.5, "f")) != first
    assert fitted(np.array(1.0, "f")) == first
