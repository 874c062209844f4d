"""Who asks for steps that a strategy of a user's own does not take is told what to derive it from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import simdist as sd
from simdist import estimator, keras
from simdist.data import Dataset
from simdist.strategies.base import Strategy
from simdist.training.stepping_strategies import stepping

ROWS = np.ones((4, 2), np.float32)


class StepsOfNobody(Strategy):
    """It has a scope, and nothing that runs steps."""


def mean_of_rows(features: object, labels: object) -> None:
    """A model function that is never called."""


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        ("fit", lambda model: model.fit(ROWS, ROWS[:, :1], verbose=0)),
        ("fit", lambda model: model.train_on_batch(ROWS, ROWS[:, :1])),
        ("evaluate", lambda model: model.evaluate(ROWS, ROWS[:, :1], verbose=0)),
        ("predict", lambda model: model.predict(ROWS, verbose=0)),
    ],
)
def test_methods_of_models_name_the_base_class(caller: str, call: Callable[[keras.Model], object]) -> None:
    with StepsOfNobody(sd.Cluster({"worker": 2})).scope():
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    with pytest.raises(TypeError, match=rf"^{caller} cannot run the steps of StepsOfNobody\. Make it a subclass of SynchronousStrategy"):
        call(model)


def test_estimators_name_the_base_class() -> None:
    config = estimator.RunConfig(train_distribute=StepsOfNobody(sd.Cluster({"worker": 2})))
    with pytest.raises(TypeError, match=r"^An Estimator cannot run the steps of StepsOfNobody"):
        estimator.Estimator(mean_of_rows, config=config).train(lambda: Dataset.from_tensor_slices((ROWS, ROWS)).batch(2), steps=1)


@pytest.mark.parametrize("strategy", [sd.OneDeviceStrategy(), sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1, "chief": 1}))])
def test_strategies_that_step_are_given_back(strategy: Strategy) -> None:
    assert stepping(strategy, "fit") is strategy
