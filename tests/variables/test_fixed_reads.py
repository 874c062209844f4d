"""Rules that read variables: a rule is traced once, and what it reads would be a constant of all later steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """A rate that is that of a variable."""

    def __init__(self, rate: Any) -> None:
        self.rate = rate

    def __call__(self, step: Any) -> Any:
        return self.rate.value

    def get_config(self) -> dict[str, Any]:
        return {"rate": self.rate}


RULES: dict[str, Callable[[Any], Any]] = {
    "a schedule of Optax": lambda rate: optax.sgd(lambda count: rate.value),
    "a decay of Optax": lambda rate: optax.chain(optax.add_decayed_weights(rate), optax.sgd(0.5)),
    "a momentum of Optax": lambda rate: optax.sgd(0.5, momentum=rate),
    "a function of Keras": lambda rate: keras.optimizers.SGD(lambda: rate.value),
    "a schedule of Keras": lambda rate: keras.optimizers.SGD(Schedule(rate)),
}


def servers() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), servers], ids=["device", "replicas", "servers"])
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_steps_that_reads_a_variable_is_refused(make: Callable[[], Any], rule: str) -> None:
    strategy = make()
    with strategy.scope():
        v, rate = sd.Variable([1.0, 2.0]), sd.Variable(0.5, trainable=False, name="rate")
        optimizer = sd.Optimizer(RULES[rule](rate))
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.ones(2), v)])))
    with pytest.raises(InvalidArgumentError, match=r"reads the variable 'rate'.*inject_hyperparams"):
        step() if not isinstance(strategy, sd.ParameterServerStrategy) else sd.ClusterCoordinator(strategy).schedule(step).fetch()
    assert v.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("rule", ["a schedule of Optax", "a function of Keras", "a schedule of Keras"])
def test_outside_of_steps_a_rule_reads_the_present_value(rule: str) -> None:
    with sd.OneDeviceStrategy().scope():
        v, rate = sd.Variable([1.0]), sd.Variable(0.5, trainable=False)
        optimizer = sd.Optimizer(RULES[rule](rate))
    for present in (0.5, 0.1):
        rate.assign(present)
        optimizer.apply_gradients([(jnp.ones(1), v)])
    np.testing.assert_allclose(v.numpy(), [1.0 - 0.5 - 0.1], rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="inject_hyperparams"):
        sd.function(lambda: optimizer.apply_gradients([(jnp.ones(1), v)]))()


def test_a_model_whose_learning_rate_reads_a_variable_is_refused_in_fit() -> None:
    with sd.MirroredStrategy(2).scope():
        rate = sd.Variable(0.5, trainable=False)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(lambda: rate.value), "mse")
    with pytest.raises(InvalidArgumentError, match=r"to optimizer\.learning_rate"):
        model.fit(np.ones((4, 1)), np.ones((4, 1)), batch_size=2, verbose=0)


def test_a_rate_that_is_assigned_between_steps_is_that_of_the_next_one() -> None:
    with sd.OneDeviceStrategy().scope():
        v, w = sd.Variable([1.0]), sd.Variable([1.0])
        of_optax, of_keras = sd.Optimizer(optax.inject_hyperparams(optax.sgd)(learning_rate=0.5)), keras.optimizers.SGD(0.5)
        in_keras = sd.Optimizer(of_keras)

    @sd.function
    def step() -> None:
        of_optax.apply_gradients([(jnp.ones(1), v)])
        in_keras.apply_gradients([(jnp.ones(1), w)])

    step()
    (rate,) = [variable for variable in of_optax.saved_state().values() if variable.dtype == "float32"]
    rate.assign(0.1)
    of_keras.learning_rate.assign(0.1)
    step()
    np.testing.assert_allclose([v.numpy()[0], w.numpy()[0]], [0.4, 0.4], rtol=1e-6)
