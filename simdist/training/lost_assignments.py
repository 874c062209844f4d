"""Assignments of a training step that overwrite what other workers have assigned meanwhile.

Workers of a parameter-server strategy take their steps at the same time. What a step adds to a variable adds up; of what steps assign,
the last one stays, though it knows nothing of the others. For the moving averages of Keras' own layers that is as in TensorFlow; a
metric or a counter gets wrong numbers by it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import keras

from simdist.errors import LostAssignmentWarning
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.adoption import AdoptedVariable, noted_assignments
from simdist.training.keras_model import StrategyModel, strategy_of

__all__ = ["LostAssignments"]


class LostAssignments:
    """Says once of each variable of a model that steps of several workers overwrite it.

    Args:
        model: whose steps are traced.
    """

    def __init__(self, model: StrategyModel) -> None:
        self.model = model
        self._reported: set[int] = set()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report the assignments of the step that is traced inside."""
        strategy = strategy_of(self.model)
        if not isinstance(strategy, ParameterServerStrategy) or strategy.averages_updates or len(strategy.workers) == 1:
            yield
            return
        with noted_assignments() as found:
            yield
        expected = self._reported | self._of_keras_layers()
        for variable in found:
            if id(variable) not in expected:
                self._reported.add(id(variable))
                _warn(variable, len(strategy.workers))

    def _of_keras_layers(self) -> set[int]:
        """The variables, by identity, of layers whose state is documented to be that of the last step."""
        layers = [layer for layer in self.model.simdist_layers() if _is_of_keras(layer)]
        return {id(variable) for layer in layers for variable in layer.weights}


def _is_of_keras(layer: keras.layers.Layer) -> bool:
    is_container = isinstance(layer, keras.Model)
    return isinstance(layer, keras.layers.BatchNormalization) or (type(layer).__module__.startswith("keras.") and not is_container)


def _warn(variable: AdoptedVariable, workers: int) -> None:
    warnings.warn(
        f"The training step assigns {variable.path!r}, which the steps of {workers} workers do at the same time: the last one stays, and "
        "what the others have assigned is lost. Add to it (variable.assign_add(...), of a variable with aggregation='sum'), which adds up; "
        "or compute it by model.evaluate after fit, which takes batch after batch; or take a synchronous strategy, or mode='sync'.",
        LostAssignmentWarning,
        stacklevel=2,
    )
