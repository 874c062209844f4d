"""Keras models that are fitted: under parameter servers, under one strategy for all workers, and elastically.

With `penalty`, a layer adds the mean square of what it passes on to the loss (`add_loss`), which training must not forget. With `dropout`,
one draws random numbers, which must be the same whatever goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.coordinator import excuses_of_servers
from simdist.chaos.workloads.regression import INPUTS, START, TARGETS
from simdist.chaos.workloads.synchronous import excuses_of_deaths
from simdist.strategies.base import Strategy

if TYPE_CHECKING:
    from simdist.chaos.stage import Read, Stage

__all__ = ["FITS"]

BATCH, RATE, PENALTY = 8, 0.05, 0.1


class Fit(Workload):
    """`model.fit` over all rows.

    Args:
        name: of the workload.
        strategy: makes it on a cluster.
        servers: whether it trains asynchronously, with parameter servers.
        survives: whether it goes on without those that have died.
    """

    needs_numbers = True

    def __init__(
        self, name: str, strategy: Callable[[Stage], Strategy], servers: bool = False, survives: bool = False, workers: int = 4
    ) -> None:
        self.name = name
        self.strategy = strategy
        self.servers = servers
        self.most_workers = workers
        self.survives = survives
        self.same_result = not servers
        self.same_costs = not survives

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        dropout = not self.servers and not self.survives and dice.part("dropout").chance(0.25)
        return {"epochs": dice.whole(1, 3), "penalty": dice.chance(0.5), **({"dropout": True} if dropout else {})}

    def jobs(self, scenario: Scenario) -> dict[str, int]:
        return {"worker": scenario.workers, "ps": scenario.servers} if self.servers else super().jobs(scenario)

    def run(self, stage: Stage) -> None:
        strategy = self.strategy(stage)
        model = linear_model(strategy, stage.options["penalty"], stage.options.get("dropout", False))
        observe = stage.observe_served if self.servers else stage.observe
        looking = _observe_after_epochs(observe, model)
        dataset = sd.Dataset.from_tensor_slices((INPUTS, TARGETS)).batch(BATCH)
        history = model.fit(dataset, epochs=stage.options["epochs"], verbose=0, callbacks=[looking])
        stage.values["losses"] = np.array(history.history["loss"])
        stage.keep("weights", lambda: model.get_weights()[0])

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        yield from excuses_of_servers(run) if self.servers else excuses_of_deaths(run, self.survives)

    def expected(self, scenario: Scenario) -> dict[str, np.ndarray]:
        if self.servers or scenario.options.get("dropout"):
            return {}
        weights, losses = _descend(scenario.options["epochs"], PENALTY if scenario.options["penalty"] else 0.0)
        # What a replica that died alone had counted of a metric is lost, as the documentation of elasticity says.
        return {"weights": weights} if self.survives else {"weights": weights, "losses": losses}


def linear_model(strategy: Any, penalty: bool, dropout: bool = False) -> Any:
    """One dense layer, and perhaps one that adds a loss, and one that drops inputs."""
    import keras

    from simdist.training import adoption, synchronised_moments
    from simdist.training.model import Sequential

    adoption.install()
    synchronised_moments.install()

    class Penalty(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            mean: Any = keras.ops.mean(inputs**2)
            self.add_loss(PENALTY * mean)
            return inputs

    with strategy.scope():
        start: Any = keras.initializers.Constant(float(START[0, 0]))
        dropping = [keras.layers.Dropout(0.5, seed=1)] if dropout else []
        layers = [keras.Input((INPUTS.shape[1],)), *dropping, keras.layers.Dense(1, use_bias=False, kernel_initializer=start)]
        model = Sequential([*layers, Penalty()] if penalty else layers)
        model.compile(keras.optimizers.SGD(RATE), "mse")
    return model


def _observe_after_epochs(observe: Callable[[Read], None], model: Any) -> Any:
    import keras

    return keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: observe(model.get_weights))


def _descend(epochs: int, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights and the mean loss of each epoch, by numpy."""
    weights, losses = START.astype(np.float64), list[float]()
    for _ in range(epochs):
        total = 0.0
        for first in range(0, len(INPUTS), BATCH):
            x, y = INPUTS[first : first + BATCH].astype(np.float64), TARGETS[first : first + BATCH].astype(np.float64)
            output = x @ weights
            total += float(np.mean((output - y) ** 2) + penalty * np.mean(output**2)) * len(x)
            weights = weights - RATE * 2.0 * x.T @ (output - y + penalty * output) / len(x)
        losses.append(total / len(INPUTS))
    return weights, np.array(losses)


FITS: list[Workload] = [
    Fit("coordinator-fit", lambda stage: sd.ParameterServerStrategy(stage.cluster), servers=True, workers=len(INPUTS) // BATCH),
    Fit("multi-worker-fit", lambda stage: sd.MultiWorkerMirroredStrategy(stage.cluster)),
    Fit("elastic-fit", lambda stage: sd.MultiWorkerMirroredStrategy(stage.cluster, on_failure="continue"), survives=True),
]
