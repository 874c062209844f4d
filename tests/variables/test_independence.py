"""Rules on several servers: those that take each variable by itself give the numbers of one device, all others are refused."""

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

VALUES = [np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([0.5, -1.0], np.float32), np.float32(2.0)]


class OfAll(keras.optimizers.SGD):
    """Takes the norm of all gradients."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        norm = keras.ops.sqrt(sum(keras.ops.sum(gradient * gradient) for gradient in grads))
        super().apply([gradient / norm for gradient in grads], trainable_variables)


class WithTotal(keras.optimizers.SGD):
    """Adds up what it has seen of all variables."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.total = self.add_variable(shape=(), name="total")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        super().update_step(gradient, variable, learning_rate)
        self.assign_add(self.total, keras.ops.sum(gradient))


TOGETHER: dict[str, Callable[[], Any]] = {
    "a norm": lambda: optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)),
    "a norm of updates": lambda: optax.chain(optax.normalize_by_update_norm(), optax.sgd(0.1)),
    "finite or not": lambda: optax.apply_if_finite(optax.sgd(0.1), 3),
    "random numbers": lambda: optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1)),
    "accumulated and clipped": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.5, gradient_accumulation_steps=2),
    "a rule of one's own": lambda: OfAll(0.1),
    "a total": lambda: WithTotal(0.1),
}

APART: dict[str, Callable[[], Any]] = {
    "optax.lamb": lambda: optax.lamb(0.1),
    "optax.adaptive_grad_clip": lambda: optax.chain(optax.adaptive_grad_clip(0.1), optax.adam(0.1)),
    "optax.MultiSteps": lambda: optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation(),
    "optax.masked": lambda: optax.chain(optax.masked(optax.trace(0.9), lambda given: [one.ndim > 1 for one in given]), optax.scale(-0.1)),
    "optax.inject_hyperparams": lambda: optax.inject_hyperparams(optax.adam)(0.1),
    "Nadam": lambda: keras.optimizers.Nadam(0.1),
    "Lamb": lambda: keras.optimizers.Lamb(0.1),
    "norms of variables, accumulated": lambda: keras.optimizers.SGD(0.1, clipnorm=0.5, gradient_accumulation_steps=2),
    "a norm on the worker": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.5),
    "averaged": lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1)),
}


def trained(make: Callable[[], Any], strategy: Any) -> list[np.ndarray]:
    """The variables after three steps."""
    with strategy.scope():
        variables, optimizer = [sd.Variable(value) for value in VALUES], sd.Optimizer(make())
    if isinstance(optimizer.wrapped, keras.optimizers.LossScaleOptimizer):
        optimizer.build(variables)
    scaled = getattr(optimizer.wrapped, "scale_loss", lambda gradient: gradient)
    step = sd.function(lambda number: optimizer.apply_gradients([(scaled(jnp.cos(number + v.value)), v) for v in variables]))
    coordinator = sd.ClusterCoordinator(strategy)
    for number in range(3):
        coordinator.schedule(step, args=(np.float32(number),)).fetch()
    return [variable.numpy() for variable in variables]


def alone(make: Callable[[], Any]) -> list[np.ndarray]:
    """The same by the optimizer alone."""
    optimizer = make()
    if isinstance(optimizer, optax.GradientTransformation):
        values: list[Any] = [jnp.asarray(value) for value in VALUES]
        state = optimizer.init(values)
        for number in range(3):
            updates, state = optimizer.update([jnp.cos(number + value) for value in values], state, values)
            values = optax.apply_updates(values, updates)
        return [np.asarray(value) for value in values]
    optimizer, variables = getattr(optimizer, "inner_optimizer", optimizer), [keras.Variable(value) for value in VALUES]
    optimizer.build(variables)
    for number in range(3):
        optimizer.apply([jnp.cos(number + variable.value) for variable in variables], variables)
    return [np.asarray(variable.value) for variable in variables]


def servers(count: int) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": count}))


@pytest.mark.parametrize("name", TOGETHER)
def test_what_needs_all_variables_at_once_is_refused_on_several_servers(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"different servers.*on the worker"):
        trained(TOGETHER[name], servers(2))


@pytest.mark.parametrize("name", ["a norm", "accumulated and clipped", "a rule of one's own", "a total"])
def test_what_needs_all_variables_at_once_has_them_on_one_server(name: str) -> None:
    for one, other in zip(trained(TOGETHER[name], servers(1)), alone(TOGETHER[name]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", APART)
def test_what_takes_each_variable_by_itself_gives_the_numbers_of_one_device_on_several_servers(name: str) -> None:
    for one, other in zip(trained(APART[name], servers(2)), alone(APART[name]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_norm_over_values_of_replicas_is_one_replica_s() -> None:
    strategy = sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), sync_every=4)
    with strategy.scope():
        variables, optimizer = [sd.Variable(value) for value in VALUES], sd.Optimizer(TOGETHER["a norm"]())
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(jnp.cos(v.value), v) for v in variables])))
    step()
    norm = np.sqrt(sum(np.sum(np.cos(value) ** 2) for value in VALUES))
    for variable, value in zip(variables, VALUES, strict=True):
        np.testing.assert_allclose(variable.numpy(), value - 0.1 * np.cos(value) * 0.5 / norm, rtol=1e-5)


def test_a_rule_that_knows_the_shapes_of_large_variables_is_asked_for_these() -> None:
    zeros, factor = np.zeros((1024, 1024), np.float32), np.full((1024, 1024), -2.0, np.float32)
    rule = optax.GradientTransformation(lambda given: (), lambda given, state, params=None: ([factor * one for one in given], state))
    strategy = servers(2)
    with strategy.scope():
        variables, optimizer = [sd.Variable(zeros), sd.Variable(zeros)], sd.Optimizer(rule)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: optimizer.apply_gradients([(v.value + 1.0, v) for v in variables])))
    coordinator.join()
    assert all(np.all(v.numpy() == -2.0) for v in variables)


def by_position(given: list[Any]) -> list[bool]:
    return [number < 2 for number in range(len(given))]


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (by_position, "something else with 'v2' among all variables than among those of ps:0"),
        ([True, False], r"cannot be used for v0, v1, v2, v3: .* a list of their arrays, in this order"),
        ([True, True, False, False], "which is what ps:0 holds of 4 variables"),
    ],
)
def test_masks_by_position_are_refused_where_each_server_has_some_of_the_variables(mask: Any, error: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        variables = [sd.Variable(np.ones(2, np.float32), name=f"v{number}") for number in range(4)]
        optimizer = sd.Optimizer(optax.masked(optax.scale(-1.0), mask))
    with pytest.raises(InvalidArgumentError, match=error):
        optimizer.build(variables)


@pytest.mark.parametrize("servers", [1, 2])
def test_masks_by_position_are_refused_where_a_server_has_several_shards_of_a_variable(servers: int) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": servers})
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2 * servers))
    with strategy.scope():
        variables = [sd.Variable(np.ones(8, np.float32), name=f"v{number}") for number in range(2)]
        by_number = sd.Optimizer(optax.masked(optax.scale(-1.0), lambda given: [number == 0 for number in range(len(given))]))
        by_shape = sd.Optimizer(optax.masked(optax.scale(-1.0), lambda given: [array.ndim == 1 for array in given]))
    with pytest.raises(
        InvalidArgumentError, match=r"something else with 'v0' .* ps:0, which applies it to a list of v0, v0, v1, v1: its mask"
    ):
        by_number.build(variables)
    by_shape.build(variables)


def test_what_needs_two_variables_is_refused_where_both_are_in_shards_on_all_servers() -> None:
    rule = optax.stateless(lambda updates, _: [updates[1], updates[0]])
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        variables = [sd.Variable(np.ones(8, np.float32), name=f"v{number}") for number in range(2)]
        optimizer = sd.Optimizer(rule)
    with pytest.raises(InvalidArgumentError, match=r"changes 'v0' by what it knows of 'v1', but these variables are .* in shards"):
        optimizer.build(variables)


def test_a_list_of_masks_is_refused_where_one_server_has_a_part_of_each_variable_and_another_has_not() -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 2})
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        variables = [sd.Variable(np.ones(8, np.float32), name="cut"), sd.Variable(np.ones(1, np.float32), name="whole")]
        optimizer = sd.Optimizer(optax.masked(optax.scale(-1.0), [True, False]))
    with pytest.raises(InvalidArgumentError, match="cannot be used for cut, which is what ps:1 holds of 2 variables"):
        optimizer.build(variables)


def third(given: list[Any]) -> list[bool]:
    given[2]
    return [True for _ in given]


@pytest.mark.parametrize(
    ("mask", "error"),
    [(third, "list index out of range"), (lambda given: dict.fromkeys(given.keys(), True), "'list' object has no attribute 'keys'")],
)
@pytest.mark.parametrize("count", [1, 2])
def test_masks_of_numbers_and_names_that_are_not_there_are_refused_with_what_to_write(count: int, mask: Any, error: str) -> None:
    strategy = servers(count)
    with strategy.scope():
        variables = [sd.Variable(np.ones(2, np.float32), name=f"v{number}") for number in range(2)]
        optimizer = sd.Optimizer(optax.adamw(0.1, mask=mask))
    with pytest.raises(InvalidArgumentError, match=rf"cannot be used for v0.*: {error}\. .* Give labels and masks as a "):
        optimizer.build(variables)


RATES: list[Any] = [0.1, 0.01]


@pytest.mark.parametrize(
    "rule",
    [
        lambda mask: optax.adamw(0.1, weight_decay=0.1, mask=mask),
        lambda mask: optax.multi_transform(dict(zip([True, False], map(optax.sgd, RATES), strict=True)), mask),
        lambda mask: optax.multi_transform({label: optax.sgd(jnp.float32(RATES[label])) for label in (True, False)}, mask),
        lambda mask: optax.multi_transform({label: optax.inject_hyperparams(optax.sgd)(RATES[label]) for label in (True, False)}, mask),
        lambda mask: optax.multi_transform({label: optax.sgd(0.1, momentum=0.9, nesterov=label) for label in (True, False)}, mask),
    ],
    ids=["a decay of the rate", "numbers", "arrays", "numbers of the state", "order of operations"],
)
def test_masks_by_position_are_refused_whatever_the_rules_differ_in(rule: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        variables = [sd.Variable(np.ones(2, np.float32), name=f"v{number}") for number in range(4)]
        by_number = sd.Optimizer(rule(by_position))
        by_shape = sd.Optimizer(rule(lambda given: [array.ndim > 1 for array in given]))
    with pytest.raises(InvalidArgumentError, match="something else with 'v2'"):
        by_number.build(variables)
    by_shape.build(variables)


def test_error_of_a_keras_optimizer_is_not_said_to_be_one_of_optax() -> None:
    class Failing(keras.optimizers.SGD):
        def update_step(self, *_: Any) -> None:
            raise ValueError("a mistake in update_step")

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        variables = [sd.Variable(np.ones(2, np.float32), name=f"v{number}") for number in range(4)]
        optimizer = sd.Optimizer(Failing(0.1))
    with pytest.raises(ValueError, match=r"^a mistake in update_step"):
        optimizer.build(variables)


@pytest.mark.parametrize("mask", [{"kernel": True, "bias": False}, [True], lambda _: {"kernel": True}])
def test_masks_of_another_structure_are_refused_with_what_to_write(mask: Any) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        kernel, bias = sd.Variable([1.0, 2.0], name="kernel"), sd.Variable(0.0, name="bias")
        optimizer = sd.Optimizer(optax.adamw(0.1, mask=mask))
    with pytest.raises(InvalidArgumentError, match=r"cannot be used for kernel, bias: .* a list of that length, or as a function of it"):
        strategy.run(lambda: optimizer.apply_gradients([(kernel.value, kernel), (bias.value, bias)]))
