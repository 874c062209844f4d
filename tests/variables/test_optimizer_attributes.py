"""Optimizers of one's own: what they hold reaches the tasks that apply them, whatever their get_config returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

VALUES = [np.array([1.0, 2.0], np.float32), np.float32(4.0)]


class Scaled(keras.optimizers.SGD):
    """Has arguments and attributes that get_config does not return."""

    def __init__(self, learning_rate: Any = 0.1, power: float = 1.0, **rest: Any) -> None:
        super().__init__(learning_rate=learning_rate, **rest)
        self.power = power
        self.table = np.array([power, 2 * power], np.float32)
        self.squared = lambda x: x * x * self.power
        self.method = self.halved

    def halved(self, x: Any) -> Any:
        return x * 0.5 * self.power

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        factor = self.method(self.squared(1.0)) + float(self.table[1]) + getattr(self, "added", 0.0)
        super().update_step(gradient * factor, variable, learning_rate)


class OfNames(keras.optimizers.SGD):
    """Its build notes something of each variable."""

    def __init__(self, learning_rate: Any = 0.1, power: float = 1.0, **rest: Any) -> None:
        super().__init__(learning_rate=learning_rate, **rest)
        self.power, self.ranks, self.is_ready = power, [], False

    def build(self, variables: Any) -> None:
        super().build(variables)
        assert not self.is_ready
        self.ranks += [len(variable.shape) for variable in variables]
        self.is_ready = True

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        factor = self.power * (1.0 + self.ranks[self._get_variable_index(variable)])
        super().update_step(gradient * factor, variable, learning_rate)


class Begun(keras.optimizers.SGD):
    """Its constructor makes a variable."""

    def __init__(self, learning_rate: Any = 0.1, power: float = 1.0, **rest: Any) -> None:
        super().__init__(learning_rate=learning_rate, **rest)
        self.scale = self.add_variable(shape=(), initializer=keras.initializers.Constant(power), name="scale")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient * self.scale, variable, learning_rate)


class Named(keras.optimizers.Optimizer):
    """Gives the learning rate another name."""

    def __init__(self, lr: Any = 0.1, **rest: Any) -> None:
        super().__init__(learning_rate=lr, **rest)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign_sub(variable, gradient * keras.ops.cast(learning_rate, variable.dtype))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {"lr": config.pop("learning_rate"), **config}


class WithoutConfig(Named):
    """Cannot be made of what get_config returns."""

    def get_config(self) -> dict[str, Any]:
        return keras.optimizers.Optimizer.get_config(self)


class Clipping(keras.optimizers.SGD):
    """Clips in a way of its own."""

    def _clip_gradients(self, gradients: Any) -> Any:
        return [0.5 * gradient for gradient in gradients]


def with_attribute() -> Any:
    optimizer = Scaled(0.1)
    optimizer.added = 3.0
    return optimizer


def halving() -> Any:
    return keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)


MADE: dict[str, Callable[[], Any]] = {
    "an argument": lambda: Scaled(0.1, power=3.0),
    "an argument, and a schedule": lambda: Scaled(halving(), power=3.0),
    "an attribute": with_attribute,
    "what build notes": lambda: OfNames(0.1, power=3.0),
    "a variable": lambda: Begun(0.1, power=3.0),
    "a variable, and a schedule": lambda: Begun(halving(), power=3.0),
    "another name": lambda: Named(0.3),
    "another name, and a schedule": lambda: Named(halving()),
    "clipping": lambda: Clipping(0.1),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(Scaled(0.1, power=3.0), initial_scale=1.0),
}

STRATEGIES: dict[str, Callable[[], Any]] = {
    "device": sd.OneDeviceStrategy,
    "replicas": lambda: sd.MirroredStrategy(2),
    "servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}


def trained(optimizer: Any, strategy: Any) -> tuple[list[np.ndarray], Any]:
    """The variables after three steps."""
    with strategy.scope():
        variables, wrapped = [sd.Variable(value) for value in VALUES], sd.Optimizer(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        wrapped.build(variables)

    def replica(number: Any) -> None:
        wrapped.apply_gradients([(jnp.cos(number + v.value) / strategy.num_replicas_in_sync, v) for v in variables])

    step = sd.function(lambda number: strategy.run(replica, args=(number,)))
    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    for number in range(3):
        given = (np.float32(number),)
        step(*given) if coordinator is None else coordinator.schedule(step, args=given).fetch()
    return [variable.numpy() for variable in variables], optimizer


def alone(optimizer: Any) -> list[np.ndarray]:
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    variables = [keras.Variable(value) for value in VALUES]
    optimizer.build(variables)
    for number in range(3):
        optimizer.apply([jnp.cos(number + variable.value) for variable in variables], variables)
    return [np.asarray(variable.value) for variable in variables]


@pytest.mark.sample
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MADE)
def test_an_optimizer_of_one_s_own_trains_as_it_does_alone(name: str, strategy: str) -> None:
    found, _ = trained(MADE[name](), STRATEGIES[strategy]())
    for one, other in zip(found, alone(MADE[name]()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_variable_of_the_constructor_is_shown_beside_a_schedule() -> None:
    _, optimizer = trained(MADE["a variable, and a schedule"](), STRATEGIES["servers"]())
    assert float(optimizer.scale.numpy()) == 3.0


def test_an_optimizer_that_was_built_by_its_user_trains_as_it_does_alone() -> None:
    optimizer, strategy = OfNames(0.1, power=3.0), sd.OneDeviceStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
    optimizer.build(model.trainable_variables)
    wrapped = sd.Optimizer(optimizer)
    ones = [jnp.ones(variable.shape) for variable in model.trainable_variables]
    sd.function(lambda: wrapped.apply_gradients(zip(ones, model.trainable_variables, strict=True)))()
    np.testing.assert_allclose(model.get_weights()[0], np.full((2, 1), 1.0 - 0.1 * 3.0 * 3.0), rtol=1e-6)


def test_what_its_configuration_cannot_make_again_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"WithoutConfig cannot be copied.*get_config"):
        trained(WithoutConfig(0.3), sd.OneDeviceStrategy())


def test_a_variable_from_outside_is_refused() -> None:
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.outside = keras.Variable(2.0)
    with pytest.raises(InvalidArgumentError, match=r"holds variables in outside.*add_variable"):
        trained(optimizer, sd.OneDeviceStrategy())


def test_an_optimizer_of_several_is_refused() -> None:
    several = keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(keras.optimizers.SGD(0.1)))
    with pytest.raises(InvalidArgumentError, match="MultiOptimizer has several optimizers"):
        sd.Optimizer(several)
