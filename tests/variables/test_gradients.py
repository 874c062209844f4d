"""What `value_and_grad` takes, and where it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optax
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError, InvalidArgumentError


@pytest.mark.parametrize("values", [2.0, [1.0, 2.0]], ids=["scalar", "vector"])
def test_a_single_variable_instead_of_a_list_is_refused_in_these_words(values: object) -> None:
    variable = sd.Variable(values)
    with pytest.raises(TypeError, match="takes a list of variables"):
        sd.value_and_grad(lambda: variable.value, variable)  # pyright: ignore[reportArgumentType]


def test_what_is_no_function_has_no_gradient() -> None:
    variable = sd.Variable(1.0)
    with pytest.raises(TypeError, match="takes a function that returns a scalar; got float"):
        sd.value_and_grad(2.0, [variable])  # pyright: ignore[reportArgumentType]


STRATEGIES: dict[str, Callable[[], Any]] = {
    "one device": sd.OneDeviceStrategy,
    "one replica": lambda: sd.MirroredStrategy(1),
    "two replicas": lambda: sd.MirroredStrategy(2),
    "central storage": lambda: sd.CentralStorageStrategy(1),
    "parameter servers": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2})),
}
ROWS, TARGETS = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones(4, np.float32)


def plain_losses(rate: float) -> list[float]:
    """Gradient descent on a mean of squares, in numpy."""
    weights, losses = np.ones(2), []
    for _ in range(3):
        error = ROWS @ weights - TARGETS
        losses.append(float((error**2).mean()))
        weights -= rate * 2 * ROWS.T @ error / len(ROWS)
    return losses


@pytest.mark.parametrize("inside", [True, False], ids=["in strategy.run", "outside"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_loop_without_a_step_takes_its_gradients_at_once(name: str, inside: bool) -> None:
    strategy = STRATEGIES[name]()
    with strategy.scope():
        weights = sd.Variable(np.ones(2, np.float32))
    optimizer, replicas = sd.Optimizer(keras.optimizers.SGD(0.01)), strategy.num_replicas_in_sync if inside else 1

    def train() -> Any:
        loss, gradients = sd.value_and_grad(lambda: ((ROWS @ weights.value - TARGETS) ** 2).mean() / replicas, [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))
        return loss

    def loss() -> float:
        return float(strategy.reduce("sum", strategy.run(train), axis=None) if inside else train())

    np.testing.assert_allclose([loss() for _ in range(3)], plain_losses(0.01), rtol=1e-5)


def test_without_any_strategy_it_runs_where_the_variables_are() -> None:
    variable, optimizer = sd.Variable([1.0, 2.0]), sd.Optimizer(keras.optimizers.SGD(0.25))
    (value, doubled), (gradient,) = sd.value_and_grad(lambda x: ((variable.value**2).sum() * x, 2 * x), [variable], has_aux=True)(3.0)
    assert (float(value), doubled, gradient.tolist()) == (15.0, 6.0, [6.0, 12.0])
    optimizer.apply_gradients([(gradient, variable)])
    assert variable.numpy().tolist() == [-0.5, -1.0]
    with sd.MirroredStrategy(2).scope():
        mirrored = sd.Variable(3.0)
    value, _ = sd.value_and_grad(lambda: mirrored.value**2, [mirrored])()
    assert float(value) == 9.0


def test_in_a_plain_function_that_was_scheduled_it_is_a_step_of_the_closure() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))
    with strategy.scope():
        variable, sums = sd.Variable(3.0), sd.Variable(0.0)

    def plain() -> tuple[float, float]:
        value, (gradient,) = sd.value_and_grad(lambda: variable.value**2, [variable])()
        sums.assign_add(gradient)
        return float(value), float(gradient)

    coordinator = sd.ClusterCoordinator(strategy)
    results = [coordinator.schedule(plain) for _ in range(3)]
    coordinator.join()
    assert [result.fetch() for result in results] == [(9.0, 6.0)] * 3
    assert float(sums.numpy()) == 18.0
    assert len(strategy.cluster.trace.spans.where(category="compute")) == 3


def test_where_only_time_is_simulated_it_has_no_value() -> None:
    strategy = sd.OneDeviceStrategy(cluster=sd.Cluster({"worker": 1}, numerics="off"))
    with strategy.scope():
        variable = sd.Variable(1.0)
    with pytest.raises(FailedPreconditionError, match='numerics="off"'):
        sd.value_and_grad(lambda: variable.value, [variable])()


def test_what_an_optimizer_changes_inside_is_not_read_there() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        w, u, optimizer = sd.Variable(1.0), sd.Variable(5.0), sd.Optimizer(optax.sgd(1.0))

    def changed(then: Any) -> Any:
        def loss() -> Any:
            optimizer.apply_gradients([(np.float32(1.0), u)])
            then()
            return w.value * u.value

        return strategy.run(sd.function(lambda: sd.value_and_grad(loss, [w])()[0]))

    with pytest.raises(InvalidArgumentError, match=r"is read inside sd\.value_and_grad after apply_gradients has changed it"):
        changed(lambda: None)
    value: Any = changed(lambda: u.assign(3.0))
    assert float(value) == 3.0


@pytest.mark.parametrize("value", [3, True], ids=["whole number", "boolean"])
def test_a_variable_without_a_gradient_is_refused_by_its_name_and_may_be_read(value: int) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        weight, count = sd.Variable(2.0, name="weight"), sd.Variable(value, trainable=False, name="count")
    with pytest.raises(InvalidArgumentError, match=f"given count, a variable of dtype {count.dtype}, which has no gradient"):
        strategy.run(lambda: sd.value_and_grad(lambda: weight.value * count.value, [weight, count])())
    gradients = strategy.run(lambda: sd.value_and_grad(lambda: weight.value * count.value, [weight])()[1])
    assert [float(gradient) for gradient in strategy.local_results(gradients[0])] == [float(value)] * 2


@pytest.mark.parametrize("factor", [1, 1j], ids=["int32", "complex64"])
def test_a_loss_that_is_no_real_number_is_refused_with_its_dtype(factor: complex) -> None:
    weight = sd.Variable(2.0)

    def loss() -> Any:
        return weight.value * factor if isinstance(factor, complex) else (weight.value > 1.0).astype("int32") * factor

    with pytest.raises(InvalidArgumentError, match=r"a loss of dtype (int32|complex64); expected a real number"):
        sd.function(lambda: sd.value_and_grad(loss, [weight])())()


@pytest.mark.parametrize("losses", [[], [True], [1j]], ids=["whole number", "boolean", "complex"])
def test_a_number_of_python_that_is_no_real_one_is_refused_as_a_loss(losses: list[Any]) -> None:
    weight = sd.Variable(2.0)
    found = losses[0] if losses else sum(losses)  # of no losses, 0
    with pytest.raises(InvalidArgumentError, match=rf"returned a loss {found!r}; expected a real number"):
        sd.function(lambda: sd.value_and_grad(lambda: found, [weight])())()
