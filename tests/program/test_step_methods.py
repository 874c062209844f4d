"""``@sd.function`` on methods: a step of each object."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import simdist as sd

ONE = np.float32(1)


class Trainer:
    """Has steps."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.v = sd.Variable(factor)

    @sd.function
    def step(self, x: Any) -> Any:
        return x * self.factor + self.v.value

    @sd.function(seconds=0.5)
    def slow(self, x: Any) -> Any:
        return x * self.factor

    @sd.function
    @staticmethod
    def successor(x: Any) -> Any:
        return x + 1


class Doubled(Trainer):
    """Calls the step of its base class."""

    @sd.function
    def step(self, x: Any) -> Any:
        return 2 * super().step(x)


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2)], ids=["one", "mirrored"])
def test_each_object_has_steps_of_its_own_that_are_traced_once(make: Any) -> None:
    strategy = make()
    with strategy.scope():
        two, three = Trainer(2.0), Trainer(3.0)
    for _ in range(2):
        for trainer, expected in ((two, 4.0), (three, 6.0)):
            assert set(map(float, strategy.local_results(strategy.run(trainer.step, args=(ONE,))))) == {expected}
    assert two.step.traces == three.step.traces == 1
    assert two.step is two.step
    assert two.step is not three.step


def test_duration_static_methods_and_base_classes() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        trainer = Doubled(2.0)
        assert float(trainer.step(ONE)) == 8
        assert float(trainer.successor(ONE)) == 2
        before_s = strategy.cluster.now
        assert float(trainer.slow(ONE)) == 2
    assert strategy.cluster.now - before_s == pytest.approx(0.5, rel=1e-3)
    assert isinstance(Trainer.step, type(trainer.step))


def test_a_coordinator_schedules_the_step_of_an_object() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)
    with strategy.scope():
        trainer = Trainer(7.0)
    values = [coordinator.schedule(trainer.step, args=(np.float32(number),)) for number in range(4)]
    assert list(map(float, coordinator.fetch(values))) == [7, 14, 21, 28]
    assert trainer.step.traces == 1


def test_an_object_whose_step_was_never_run_is_not_kept() -> None:
    trainer = Trainer(2.0)
    gone = weakref.ref(trainer)
    assert trainer.step.traces == 0
    del trainer
    gc.collect()
    assert gone() is None


def test_attributes_of_an_object_that_is_called_are_its_own() -> None:
    class Scaled:
        def __init__(self) -> None:
            self.owner, self.run_eagerly, self.factor = "alice", "never", 3.0

        def __call__(self, x: Any) -> Any:
            return x * self.factor

    step = sd.function(Scaled())
    assert [float(step(np.float32(2))) for _ in range(2)] == [6.0, 6.0]
    assert step.traces == 1 and not step.run_eagerly
