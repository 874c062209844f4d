"""Steps with arrays inside of what they call: compiled functions, rules of optimizers, solvers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras


def test_optimizers_that_differ_in_a_number_alone_train_tables_each_with_its_own() -> None:
    def trained(rate: float) -> float:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}), sd.FixedShardsPartitioner(1))
        with strategy.scope():
            table = sd.Variable(np.ones((50, 4), np.float32))
            optimizer = sd.Optimizer(optax.scale(jnp.asarray(-rate)))

        @sd.function
        def step(ids: Any) -> Any:
            value, gradients = sd.value_and_grad(lambda: sd.embedding_lookup_sparse(table, ids).sum(), [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))
            return value

        coordinator = sd.ClusterCoordinator(strategy)
        coordinator.schedule(step, args=(np.array([[3, -1]], np.int32),))
        coordinator.join()
        return float(table.numpy()[3, 0])

    assert [trained(rate) for rate in (0.5, 0.25)] == [0.5, 0.75]


def test_steps_that_differ_in_a_number_of_a_compiled_function_alone_are_different_steps() -> None:
    def summed(number: float) -> float:
        strategy, factor = sd.MirroredStrategy(2), np.full(2, number, np.float32)
        with strategy.scope():
            variable = sd.Variable([1.0, 2.0])
        scaled = jax.jit(lambda values: values * factor)
        return float(strategy.reduce("sum", strategy.run(sd.function(lambda: scaled(variable.value).sum())), axis=None))

    assert [summed(number) for number in (1.0, 5.0)] == [6.0, 30.0]


@pytest.mark.parametrize("dtype", ["float64", "int64", "float32"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_array_that_is_changed_in_place_has_its_new_values_in_the_next_step(replicas: int, dtype: str) -> None:
    strategy, given = sd.MirroredStrategy(replicas), np.ones(2, dtype)

    def doubled() -> Any:
        return jnp.asarray(given) * 2

    kept = sd.function(lambda: doubled().sum())  # JAX has its arrays for as long as it has its trace
    found = [float(kept())]
    for number in (3, 5):
        given[:] = number
        new = sd.function(lambda: doubled().sum())
        found += [float(strategy.local_results(strategy.run(doubled))[0][0]), float(new())]
    assert found == [4.0, 6.0, 12.0, 10.0, 20.0]


def test_a_linear_system_can_be_solved_in_a_step() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        variable = sd.Variable(2.0 * np.eye(3, dtype=np.float32))
    found = strategy.run(sd.function(lambda: jnp.linalg.solve(variable.value, jnp.ones(3)).sum()))
    assert [float(value) for value in strategy.experimental_local_results(found)] == [1.5, 1.5]


@pytest.mark.parametrize("ids", [3, np.int32(3), jnp.int32(3)], ids=["int", "numpy", "jax"])
def test_a_single_row_is_looked_up_by_its_number(ids: Any) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table, optimizer = sd.Variable(np.arange(12.0, dtype=np.float32).reshape(6, 2)), sd.Optimizer(keras.optimizers.SGD(0.5))

    @sd.function
    def step(more: Any) -> Any:
        def looked_up() -> Any:
            return sd.embedding_lookup(table, ids).sum() + sd.embedding_lookup(table, more[0]).sum()

        value, gradients = sd.value_and_grad(looked_up, [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return value

    value = sd.ClusterCoordinator(strategy).schedule(step, args=(np.array([1, 5], np.int32),)).fetch()
    expected = np.arange(12.0).reshape(6, 2)
    expected[[3, 1]] -= 0.5
    assert (float(value), table.numpy().tolist()) == (6 + 7 + 2 + 3, expected.tolist())
