"""A strategy that lives on keeps no step that its user has dropped, nor what the step knows: a model, an array, a dataset."""

from __future__ import annotations

import copy
import gc
import types
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import simdist as sd
from simdist import keras

X = np.ones((8, 2), np.float32)
SYNCHRONOUS: dict[str, Callable[[], Any]] = {
    "one": sd.OneDeviceStrategy,
    "mirrored": lambda: sd.MirroredStrategy(2),
    "central": lambda: sd.CentralStorageStrategy(2),
    "workers": lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})),
    "in process": lambda: sd.MirroredStrategy(2, cluster=sd.Cluster({"worker": 1}, engine="in_process")),
}
SERVED: dict[str, dict[str, Any]] = {"one": {}, "devices": {"devices_per_worker": 2}, "rounds": {"mode": "sync"}}


class Data:
    """What a step closes over."""


def is_gone(known: weakref.ref[Any]) -> bool:
    while gc.collect():
        pass
    return known() is None


def step_of(strategy: Any, data: Data) -> Any:
    with strategy.scope():
        v = sd.Variable(0.0, aggregation=sd.VariableAggregation.MEAN)

    @sd.function
    def step() -> Any:
        assert data is not None
        return v.assign_add(1.0)

    return step


@pytest.mark.parametrize("make", SYNCHRONOUS.values(), ids=SYNCHRONOUS)
def test_a_strategy_keeps_no_step_that_is_dropped(make: Callable[[], Any]) -> None:
    strategy, data = make(), Data()
    step = step_of(strategy, data)
    for _ in range(2):
        strategy.run(step)
    assert step.traces == 1
    known = weakref.ref(data)
    del step, data
    assert is_gone(known)


@pytest.mark.parametrize("options", SERVED.values(), ids=SERVED)
def test_workers_keep_no_step_that_is_dropped(options: dict[str, Any]) -> None:
    strategy, data = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), **options), Data()
    coordinator = sd.ClusterCoordinator(strategy)
    step = step_of(strategy, data)
    for _ in range(4):
        coordinator.schedule(step)
    coordinator.join()
    known = weakref.ref(data)
    del step, data
    coordinator.schedule(step_of(strategy, Data()))  # a worker has the closure that it ran last
    coordinator.schedule(step_of(strategy, Data()))
    coordinator.join()
    assert is_gone(known)


def test_where_no_strategy_is_chosen_a_step_that_fails_is_not_kept() -> None:
    def failed() -> list[weakref.ref[Any]]:
        data, strategy = Data(), sd.MirroredStrategy(2)
        with strategy.scope():
            v = sd.Variable(0.0)

        @sd.function
        def step() -> Any:
            raise ValueError(f"{data} {v.name}")

        with pytest.raises(ValueError, match="Data"):
            step()
        return [weakref.ref(data), weakref.ref(strategy)]

    assert all(map(is_gone, failed()))


@pytest.mark.parametrize("name", ["mirrored", "workers"])
def test_a_strategy_keeps_no_model_that_is_dropped(name: str) -> None:
    strategy = SYNCHRONOUS[name]()
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(X, X[:, :1], batch_size=4, verbose=0)
    model.evaluate(X, X[:, :1], verbose=0)
    model.predict(X, verbose=0)
    known = weakref.ref(model)
    del model
    assert is_gone(known)


class Trainer:
    """Has a step, and data."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @sd.function
    def step(self, x: Any) -> Any:
        return x * self.factor


class Slotted:
    """The same without a dictionary."""

    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @sd.function
    def step(self, x: Any) -> Any:
        return x * self.factor


@pytest.mark.parametrize("kind", [Trainer, Slotted])
def test_a_method_is_traced_once_for_each_object_though_nobody_holds_its_step(kind: type[Any]) -> None:
    strategy = sd.MirroredStrategy(2)
    two, three = kind(2.0), kind(3.0)
    for _ in range(2):
        gc.collect()
        for trainer, expected in ((two, 2.0), (three, 3.0)):
            assert set(map(float, strategy.local_results(strategy.run(trainer.step, args=(np.float32(1),))))) == {expected}
    assert two.step.traces == three.step.traces == 1


class Doubling:
    """Has a step that is a method of the class."""

    factor = 2.0
    traced: ClassVar[list[float]] = []

    @classmethod
    @sd.function
    def step(cls, x: Any) -> Any:
        cls.traced.append(cls.factor)
        return x * cls.factor


class Tripling(Doubling):
    factor = 3.0


def test_a_class_method_is_traced_once_for_each_class() -> None:
    strategy = sd.MirroredStrategy(2)
    steps: list[Any] = [Doubling, Tripling, Tripling()]
    for _ in range(2):
        gc.collect()
        for owner, expected in zip(steps, (2.0, 3.0, 3.0), strict=True):
            assert set(map(float, strategy.local_results(strategy.run(owner.step, args=(np.float32(1),))))) == {expected}
    assert Doubling.traced == [2.0, 3.0]


def test_a_step_that_is_bound_as_any_function_is_traced_once() -> None:
    """As class methods are from Python 3.13 on, whatever they wrap."""
    traced: list[float] = []

    @sd.function
    def step(owner: Any, x: Any) -> Any:
        traced.append(owner.factor)
        return x * owner.factor

    servers = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    coordinator, strategy = sd.ClusterCoordinator(servers), sd.MirroredStrategy(2)
    for _ in range(3):
        bound: Any = types.MethodType(step, Doubling)
        assert set(map(float, strategy.local_results(strategy.run(bound, args=(np.float32(1),))))) == {2.0}
        assert float(coordinator.schedule(bound, args=(np.float32(2),)).fetch()) == 4.0
    assert traced == [2.0, 2.0]


def test_an_object_with_a_step_goes_and_its_copy_has_a_step_of_its_own() -> None:
    strategy = sd.MirroredStrategy(2)
    trainer = Trainer(2.0)
    strategy.run(trainer.step, args=(np.float32(1),))
    for copied in (copy.copy(trainer), copy.deepcopy(trainer)):
        copied.factor = 5.0
        assert set(map(float, strategy.local_results(strategy.run(copied.step, args=(np.float32(1),))))) == {5.0}
    known = weakref.ref(trainer)
    del trainer
    assert is_gone(known)
