"""Functions that JAX remembers by their shapes: what they read of variables is what the variables are when they are called."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist.errors import ConstantReadWarning, InvalidArgumentError

X = np.random.default_rng(0).random((6, 4)).astype(np.float32)


class Holder:
    """A variable, and functions of it which are the same objects in every trace."""

    def __init__(self, strategy: Any, value: float = 2.0) -> None:
        with strategy.scope():
            self.w = sd.Variable(value)
        self.body = lambda h, _: (h * self.w.value, None)
        self.scaled = lambda x: self.w.value * x
        self.jitted = jax.jit(self.scaled)
        self.remembered = jax.checkpoint(self.scaled)  # type: ignore[attr-defined]

    def power(self, x: Any) -> Any:
        return jax.lax.scan(self.body, x, None, length=3)[0]

    def chosen(self, x: Any) -> Any:
        return jax.lax.cond(x > 0, self.scaled, self.scaled, x)

    def repeated(self, x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, h: self.jitted(h), x)


FUNCTIONS = {"scan": ("power", 3), "jit": ("jitted", 1), "checkpoint": ("remembered", 1), "cond": ("chosen", 1), "loop": ("repeated", 2)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_is_called_twice_in_a_step_sees_what_was_assigned_between(name: str) -> None:
    strategy = sd.OneDeviceStrategy()
    holder, (function, power) = Holder(strategy), FUNCTIONS[name]

    @sd.function
    def step(x: Any) -> Any:
        before = getattr(holder, function)(x)
        holder.w.assign(3.0)
        between = getattr(holder, function)(x)
        holder.w.assign_add(2.0)
        return before, between, getattr(holder, function)(x)

    assert [float(v) for v in strategy.run(step, args=(np.float32(1.0),))] == [2.0**power, 3.0**power, 5.0**power]


def test_a_function_that_was_called_outside_of_steps_reads_the_variable_in_them() -> None:
    strategy = sd.OneDeviceStrategy()
    holder = Holder(strategy)
    with pytest.warns(ConstantReadWarning, match="outside of every step"):
        assert float(holder.jitted(np.float32(1.0))) == 2.0
    step = sd.function(holder.jitted)
    first = float(strategy.run(step, args=(np.float32(1.0),)))
    holder.w.assign(10.0)
    assert (first, float(strategy.run(step, args=(np.float32(1.0),)))) == (2.0, 10.0)


def test_a_training_step_and_a_test_step_share_a_cell() -> None:
    def cell_of(read: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jnp.tanh(h * read() + x)
            return h, h

        return cell

    read: list[Any] = []
    cell = cell_of(lambda: read[-1]())

    def forward(x: Any) -> Any:
        return jax.lax.scan(cell, jnp.zeros(x.shape[0]), x.T)[0]

    def alone(w: Any) -> Any:
        h = jnp.zeros(6)
        for column in X.T:
            h = jnp.tanh(h * w + column)
        return (h**2).mean()

    expected, gradient = jax.value_and_grad(alone)(0.5)
    for strategy in (sd.MirroredStrategy(2), sd.MirroredStrategy(3)):
        with strategy.scope():
            w, optimizer = sd.Variable(0.5), sd.Optimizer(optax.sgd(0.1))
        read.append(lambda w=w: w.value)

        def loss(x: Any) -> Any:
            return sd.compute_average_loss(forward(x) ** 2)

        @sd.function
        def train(x: Any, strategy: Any = strategy, w: Any = w, optimizer: Any = optimizer) -> Any:
            def replica(x: Any) -> Any:
                value, gradients = sd.value_and_grad(loss, [w])(x)
                optimizer.apply_gradients(zip(gradients, [w], strict=True))
                return value

            return strategy.reduce("sum", strategy.run(replica, args=(x,)), axis=None)

        @sd.function
        def test(x: Any, strategy: Any = strategy) -> Any:
            return strategy.reduce("sum", strategy.run(loss, args=(x,)), axis=None)

        batch = next(iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(X).batch(6))))
        assert float(train(batch)) == pytest.approx(float(expected), rel=1e-6)
        assert float(test(batch)) == pytest.approx(float(alone(0.5 - 0.1 * gradient)), rel=1e-6)


def test_each_replica_has_its_own_rank_in_a_function_that_all_share() -> None:
    def body(h: Any, _: Any) -> Any:
        context = sd.get_replica_context()
        assert context is not None
        return h + context.replica_id_in_sync_group, None

    strategy = sd.MirroredStrategy(2)
    ranks = strategy.run(lambda: jax.lax.scan(body, jnp.float32(0), None, length=2)[0])
    assert [float(rank) for rank in strategy.local_results(ranks)] == [0.0, 2.0]


def test_a_gradient_and_a_value_of_the_same_function() -> None:
    strategy = sd.OneDeviceStrategy()
    holder = Holder(strategy)

    @sd.function
    def step(x: Any) -> Any:
        first = holder.power(x)
        value, (gradient,) = sd.value_and_grad(holder.power, [holder.w])(x)
        return first, value, gradient, holder.power(x)

    assert [float(v) for v in strategy.run(step, args=(np.float32(1.0),))] == [8.0, 8.0, 12.0, 8.0]


def test_assignments_within_a_scan_of_a_gradient_are_refused() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        w, count = sd.Variable(2.0), sd.Variable(0.0, trainable=False)

    def replica(x: Any) -> Any:
        def loss() -> Any:
            def body(h: Any, t: Any) -> Any:
                count.assign_add(t)
                return h * w.value, h

            return jax.lax.scan(body, x, jnp.arange(3.0))[0]

        return sd.value_and_grad(loss, [w])()[0]

    with pytest.raises(InvalidArgumentError, match=r"exists only inside a jax\.grad, scan, cond or vmap"):
        strategy.run(replica, args=(jnp.float32(1.0),))
