"""`sd.Optimizer` on variables: its count of steps, its slots, and gradients that are not there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError


def servers() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))


def servers_of_whole() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), servers], ids=["device", "replicas", "shards"])
@pytest.mark.parametrize("transformation", [lambda: optax.sgd(0.25), lambda: optax.adam(0.25)], ids=["sgd", "adam"])
def test_updates_of_an_optax_transformation_are_counted(make: Callable[[], Any], transformation: Callable[[], Any]) -> None:
    strategy = make()
    with strategy.scope():
        v, w = sd.Variable([1.0, 2.0, 3.0]), sd.Variable(1.0)
        optimizer = sd.Optimizer(transformation())
    assert optimizer.iterations == 0

    def replica() -> None:
        optimizer.apply_gradients([(jnp.ones(3), v), (1.0, w)])

    step = sd.function(lambda: strategy.run(replica))
    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    for _ in range(3):
        step() if coordinator is None else coordinator.schedule(step)
    if coordinator is not None:
        coordinator.join()
    assert optimizer.iterations == 3


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), servers], ids=["device", "replicas", "shards"])
def test_a_schedule_of_keras_is_followed_from_step_to_step(make: Callable[[], Any]) -> None:
    strategy = make()
    halved = keras.optimizers.schedules.ExponentialDecay(1.0, decay_steps=1, decay_rate=0.5)
    with strategy.scope():
        v = sd.Variable(np.zeros(4, np.float32))
        optimizer = sd.Optimizer(keras.optimizers.SGD(halved))
    gradient = jnp.ones(4) / strategy.num_replicas_in_sync
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(gradient, v)])))
    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    for _ in range(3):
        step() if coordinator is None else coordinator.schedule(step).fetch()
    np.testing.assert_allclose(v.numpy(), -(1.0 + 0.5 + 0.25) * np.ones(4))


def of_keras(value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    variable, optimizer = keras.Variable(value), keras.optimizers.ScheduleFreeAdamW(0.1)
    optimizer.build([variable])
    for _ in range(4):
        optimizer.apply([gradient], [variable])
    return np.asarray(variable.value)


def of_optax(value: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    transformation, values = optax.contrib.schedule_free_sgd(0.1), [value]
    state = transformation.init(values)
    for _ in range(4):
        updates, state = transformation.update([gradient], state, values)
        values = optax.apply_updates(values, updates)
    return np.asarray(values[0])


RULES: dict[str, Any] = {
    "Keras": (lambda: keras.optimizers.ScheduleFreeAdamW(0.1), of_keras),
    "Optax": (lambda: optax.contrib.schedule_free_sgd(0.1), of_optax),
}


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2), servers], ids=["device", "replicas", "shards"])
@pytest.mark.parametrize("rule", RULES)
def test_slots_that_begin_with_the_values_of_variables_do(make: Callable[[], Any], rule: str) -> None:
    value, gradient = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), np.array([[0.1, -0.2], [0.3, 0.05]], np.float32)
    made, expected = RULES[rule]
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable(np.zeros((2, 2), np.float32)), sd.Optimizer(made())
    v.assign(value)
    part = gradient / strategy.num_replicas_in_sync
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(part, v)])))
    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    for _ in range(4):
        step() if coordinator is None else coordinator.schedule(step).fetch()
    np.testing.assert_allclose(v.numpy(), expected(value, gradient), rtol=1e-6)


def test_a_step_that_asks_for_the_count_of_an_optax_transformation_gets_that_of_the_moment() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v, optimizer = sd.Variable(1.0), sd.Optimizer(optax.sgd(0.5))

    @sd.function
    def step() -> Any:
        strategy.run(lambda: optimizer.apply_gradients([(1.0, v)]))
        return optimizer.iterations

    with pytest.raises(sd.errors.FailedPreconditionError, match="build"):
        step()
    optimizer.build([v])
    assert [int(step()) for _ in range(3)] == [1, 2, 3]


def test_a_variable_without_a_gradient_in_the_first_step_gets_its_slots_with_the_others() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v, w = sd.Variable([1.0]), sd.Variable([1.0])
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.5, momentum=0.5))
    half = jnp.ones(1) / 2
    first = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(half, v), (None, w)])))
    second = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(half, v), (half, w)])))
    first()
    second()
    np.testing.assert_allclose([v.numpy()[0], w.numpy()[0]], [1.0 - 0.5 - 0.75, 1.0 - 0.5])
    assert int(optimizer.iterations) == 2
    momenta = [np.asarray(variable.value).tolist() for variable in optimizer.wrapped.variables[2:]]
    assert momenta == [[-0.75], [-0.5]]


NOISE = optax.chain(optax.add_noise(0.1, 0.5, 0), optax.sgd(0.1))


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, lambda: sd.MirroredStrategy(2)], ids=["device", "replicas"])
def test_a_transformation_that_draws_random_numbers_has_its_key_among_its_slots(make: Callable[[], Any], tmp_path: Path) -> None:
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable(np.ones(4, np.float32)), sd.Optimizer(NOISE)
    gradient = np.full(4, 0.5, np.float32) / strategy.num_replicas_in_sync
    expected, state = jnp.ones(4), NOISE.init([jnp.ones(4)])
    checkpoint, saved, seen = sd.Checkpoint(v=v, optimizer=optimizer), "", list[Any]()
    step = sd.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(gradient, v)])))
    for number in range(4):
        step()
        updates, state = NOISE.update([jnp.full(4, 0.5)], state, [expected])
        expected = expected + updates[0]
        seen.append(v.numpy())
        np.testing.assert_allclose(seen[-1], expected, rtol=1e-6)
        if number == 1:
            saved = checkpoint.save(tmp_path / "p")
    checkpoint.restore(saved).assert_consumed()
    step()
    np.testing.assert_array_equal(v.numpy(), seen[2])


def test_random_numbers_are_not_drawn_shard_by_shard() -> None:
    strategy = servers()
    with strategy.scope():
        v, optimizer = sd.Variable(np.ones(4, np.float32)), sd.Optimizer(NOISE)
    coordinator = sd.ClusterCoordinator(strategy)
    coordinator.schedule(sd.function(lambda: optimizer.apply_gradients([(jnp.ones(4), v)])))
    with pytest.raises(InvalidArgumentError, match="draws random numbers"):
        coordinator.join()


@pytest.mark.parametrize("make", [sd.OneDeviceStrategy, servers], ids=["device", "shards"])
def test_a_rule_that_puts_a_constant_into_its_state_is_that_of_optax(make: Callable[[], Any]) -> None:
    rule, value = optax.optimistic_gradient_descent(0.05), jnp.asarray([1.0, -2.0])
    strategy = make()
    with strategy.scope():
        v, optimizer = sd.Variable(np.asarray(value)), sd.Optimizer(rule)
    state = rule.init([value])
    step = sd.function(lambda gradient: optimizer.apply_gradients([(gradient, v)]))
    coordinator = sd.ClusterCoordinator(strategy) if isinstance(strategy, sd.ParameterServerStrategy) else None
    for number in range(3):
        gradient = jnp.asarray([1.0, 0.5]) * (number + 1)
        step(gradient) if coordinator is None else coordinator.schedule(step, args=(gradient,)).fetch()
        updates, state = rule.update([gradient], state, [value])
        value = value + updates[0]
    np.testing.assert_allclose(v.numpy(), value, rtol=1e-6)


NEEDY: dict[str, tuple[Callable[[], Any], str]] = {
    "polyak": (optax.polyak_sgd, "needs 'value' in each update"),
    "plateau": (lambda: optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau()), "needs 'value' in each update"),
    "line search": (optax.lbfgs, "needs 'value', 'grad', and 'value_fn' in each update"),
    "lookahead": (lambda: optax.lookahead(optax.sgd(0.1), 5, 0.5), "values in a structure of its own.*optax.lookahead"),
}


@pytest.mark.parametrize("name", NEEDY)
@pytest.mark.parametrize("make", [lambda: sd.MirroredStrategy(2), servers, servers_of_whole], ids=["mirrored", "shards", "servers"])
def test_a_rule_of_optax_that_needs_more_than_gradients_is_refused_by_what_it_needs(make: Callable[[], Any], name: str) -> None:
    (rule, what), strategy = NEEDY[name], make()
    with strategy.scope():
        variables, optimizer = [sd.Variable([1.0, 2.0]), sd.Variable([1.0, 2.0])], sd.Optimizer(rule())
    step = sd.function(lambda: optimizer.apply_gradients([(v.value, v) for v in variables]))
    with pytest.raises(InvalidArgumentError, match=rf"(?s)^(?!.*labels and masks).*{what}"):
        if isinstance(strategy, sd.ParameterServerStrategy):
            sd.ClusterCoordinator(strategy).schedule(step).fetch()
        else:
            strategy.run(step)
    assert [v.numpy().tolist() for v in variables] == [[1.0, 2.0]] * 2
