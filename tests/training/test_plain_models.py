"""A model of plain Keras in a scope is refused when it is compiled or used, and nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras as plain
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import FailedPreconditionError

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
X = np.random.default_rng(0).random((16, 3)).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)


class Subclassed(plain.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = plain.layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.dense(x)


def functional() -> Any:
    inputs = plain.Input((3,))
    return plain.Model(inputs, plain.layers.Dense(1, kernel_initializer="ones")(inputs))


def sequential() -> Any:
    return plain.Sequential([plain.layers.Dense(1)])


MODELS: list[Callable[[], Any]] = [Subclassed, functional, sequential]


def used(model: Any) -> list[Callable[[], object]]:
    return [
        lambda: model.compile("sgd", "mse"),
        lambda: model.fit(X, Y, verbose=0),
        lambda: model.evaluate(X, Y, verbose=0),
        lambda: model.predict(X, verbose=0),
        lambda: model.train_on_batch(X, Y),
        lambda: model.test_on_batch(X, Y),
        lambda: model.predict_on_batch(X),
    ]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("servers", [False, True])
def test_each_use_is_refused_and_leaves_nothing(make: Callable[[], Any], servers: bool) -> None:
    cluster = sd.Cluster({"worker": 1, "ps": 1})
    strategy = sd.ParameterServerStrategy(cluster) if servers else sd.MirroredStrategy(devices=2)
    with strategy.scope():
        model = make()
        for use in used(model):
            with pytest.raises(FailedPreconditionError, match=r"plain Keras and was made in strategy.scope\(\).*simdist.keras.Model"):
                use()
    for use in used(model):
        with pytest.raises(FailedPreconditionError, match="plain Keras"):
            use()
    assert not model.compiled


def test_a_model_that_was_made_outside_is_refused_in_the_scope_and_trains_after_it() -> None:
    model = functional()
    before = [np.asarray(value) for value in model.get_weights()]
    with sd.MirroredStrategy(devices=2).scope():
        for use in used(model):
            with pytest.raises(FailedPreconditionError, match=r"plain Keras and is used .* in strategy.scope\(\)"):
                use()
    assert all(np.array_equal(one, other) for one, other in zip(before, model.get_weights(), strict=True))
    model.compile(plain.optimizers.SGD(0.01), "mse")
    assert model.fit(X, Y, verbose=0).history["loss"]
    assert model.predict(X, verbose=0).shape == (16, 1)


def test_the_model_that_the_error_advises_trains_as_plain_keras() -> None:
    def losses(model: Any) -> list[float]:
        model.compile(keras.optimizers.SGD(0.01), "mse")
        found: list[float] = model.fit(X, Y, epochs=2, batch_size=8, shuffle=False, verbose=0).history["loss"]
        return found

    with sd.MirroredStrategy(devices=2).scope():
        made = functional()
        found = losses(keras.Model(made.inputs, made.outputs))
    assert found == pytest.approx(losses(functional()), rel=1e-5)


def test_a_plain_model_may_be_a_part_of_ours_and_of_a_loop_of_the_users_own() -> None:
    strategy = sd.MirroredStrategy(devices=2)
    with strategy.scope():
        part = functional()
        whole = keras.Sequential([part])
        whole.compile("sgd", "mse")
    assert whole.fit(X, Y, verbose=0).history["loss"]

    @sd.function
    def step() -> Any:
        return strategy.reduce("sum", strategy.run(lambda: part(X).sum()), axis=None)

    assert float(step()) == pytest.approx(2 * whole.predict(X, verbose=0).sum(), rel=1e-5)


@pytest.mark.parametrize("k", [keras, plain])
@pytest.mark.parametrize("engine", ["simulated", "in_process"])
def test_a_plain_function_on_a_worker_trains_an_ordinary_model(k: Any, engine: Any) -> None:
    """As in a search for hyper-parameters."""

    def trial(rate: float) -> Any:
        model = k.Sequential([k.Input((3,)), k.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(k.optimizers.SGD(rate), "mse")
        model.train_on_batch(X, Y)
        return model.get_weights()[0]

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}, engine=engine))
    found = sd.ClusterCoordinator(strategy).schedule(trial, args=(0.1,))
    np.testing.assert_allclose(found.fetch(), 0.2 * X.T @ Y / len(X), rtol=1e-5)


def test_a_plain_function_on_a_worker_that_opens_a_scope() -> None:
    """That of its strategy owns models as everywhere; another one cannot be opened there."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    coordinator = sd.ClusterCoordinator(strategy)

    def compiles(other: Any) -> None:
        with other.scope():
            functional().compile("sgd", "mse")

    with pytest.raises(FailedPreconditionError, match=r"was made in strategy.scope\(\)"):
        coordinator.schedule(lambda: compiles(strategy))
        coordinator.join()
    with pytest.raises(FailedPreconditionError, match=r"A closure of .* cannot open the scope of OneDeviceStrategy\. A main"):
        coordinator.schedule(lambda: compiles(sd.OneDeviceStrategy()))
        coordinator.join()
