"""Assignments of a training step that overwrite what other workers have assigned meanwhile, or are added to those of other replicas.

Workers of a parameter-server strategy take their steps at the same time. What a step adds to a variable adds up; of what steps assign,
the last one stays, though it knows nothing of the others. For the moving averages of Keras' own layers that is as in TensorFlow; a
metric or a counter gets wrong numbers by it. In rounds (``mode="sync"``) all workers begin with the same value, so a counter of rounds is
right; what they compute of their batches, or add to what a metric has counted, is lost but for that of one worker, here too.

The replicas of a synchronous strategy keep the values of a metric each for itself, and a read adds them. That is
right for what replicas count, and wrong for what they assign: a running maximum would be the sum of the replicas' maxima.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import keras

from simdist.errors import LostAssignmentWarning
from simdist.program.operations import Program
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.additive import assigned_of_batches, assigned_otherwise
from simdist.training.adoption import AdoptedVariable, noted_assignments
from simdist.training.keras_model import StrategyModel, strategy_of
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization, is_sum_of_replicas

__all__ = ["LostAssignments"]


class LostAssignments:
    """Says once of each variable of a model that steps of several workers overwrite it.

    Args:
        model: whose steps are traced.
    """

    def __init__(self, model: StrategyModel) -> None:
        self.model = model
        self._reported: set[int] = set()
        # What the step assigned that was traced last: of sums over replicas; and in rounds, with what is said of it.
        self._added: list[AdoptedVariable] = []
        self._in_rounds: list[tuple[AdoptedVariable, str]] = []

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report the assignments of the step that is traced inside; those of replicas, when its program is there."""
        strategy = strategy_of(self.model)
        is_served = isinstance(strategy, ParameterServerStrategy)
        self._added, self._in_rounds = [], []
        if len(strategy.workers) == 1 if is_served else strategy.num_replicas_in_sync == 1:
            yield
            return
        with noted_assignments() as found:
            yield
        if not is_served:
            self._added = list(filter(_is_added, found))
            return
        expected = self._of_keras_layers()
        found = [variable for variable in found if id(variable) not in expected]
        if strategy.averages_updates and not strategy.staleness:
            lost = [variable for variable in found if not _is_averaged(variable)]
            self._in_rounds = [(variable, _overwritten_in_rounds(variable, len(strategy.workers))) for variable in lost]
            return
        for variable in found:
            self._report(variable, _overwritten(variable, len(strategy.workers)))

    def examine(self, program: Program) -> None:
        """Report what replicas assign that is not the value from before and what they count; in rounds, what workers compute of batches."""
        otherwise = assigned_otherwise(program) if self._added else ()
        for variable in self._added:
            if variable.simdist_variable is not None and variable.simdist_variable.ref() in otherwise:
                self._report(variable, _added(variable, strategy_of(self.model).num_replicas_in_sync))
        of_batches = assigned_of_batches(program) if self._in_rounds else ()
        for variable, message in self._in_rounds:
            if variable.simdist_variable is not None and variable.simdist_variable.ref() in of_batches:
                self._report(variable, message)

    def _report(self, variable: AdoptedVariable, message: str) -> None:
        if id(variable) not in self._reported:
            self._reported.add(id(variable))
            _warn(message)

    def _of_keras_layers(self) -> set[int]:
        """The variables, by identity, of layers whose state is documented to be that of the last step."""
        layers = [layer for layer in self.model.simdist_layers() if _is_of_keras(layer)]
        return {id(variable) for layer in layers for variable in layer.weights}


def _is_of_keras(layer: keras.layers.Layer) -> bool:
    is_container = isinstance(layer, keras.Model)
    return isinstance(layer, keras.layers.BatchNormalization) or (type(layer).__module__.startswith("keras.") and not is_container)


def _is_averaged(variable: AdoptedVariable) -> bool:
    """Whether what the workers of a round assign is averaged: servers do that, and the chief does not."""
    own = variable.simdist_variable
    on_read = VariableSynchronization.ON_READ
    return own is not None and own.aggregation is VariableAggregation.MEAN and own.synchronization is not on_read


def _is_added(variable: AdoptedVariable) -> bool:
    """Whether the values of the replicas are added when it is read."""
    own = variable.simdist_variable
    return own is not None and is_sum_of_replicas(own)


def _overwritten(variable: AdoptedVariable, workers: int) -> str:
    return (
        f"The training step assigns {variable.path!r}, which the steps of {workers} workers do at the same time: the last one stays, and "
        "what the others have assigned is lost. Add to it (variable.assign_add(...), of a variable with aggregation='sum'), which adds up; "
        "or compute it by model.evaluate after fit, which takes batch after batch; or take a synchronous strategy; or mode='sync', if all "
        "workers assign the same."
    )


def _overwritten_in_rounds(variable: AdoptedVariable, workers: int) -> str:
    return (
        f"The training step assigns to {variable.path!r} what it computes of its batch or of what was counted before, which in each round "
        f"{workers} workers do: the last one stays, and what the others have assigned is lost. Add to it (variable.assign_add(...), of a "
        "variable with aggregation='sum'), which adds up; or compute it by model.evaluate after fit, which takes batch after batch; or "
        "take a synchronous strategy."
    )


def _added(variable: AdoptedVariable, replicas: int) -> str:
    return (
        f"The training step assigns {variable.path!r} on each of {replicas} replicas, and it is read as the sum of their values, which is "
        "right for counts alone. A count: add to it (variable.assign_add(...)). What may be averaged: make it with aggregation='mean' in "
        "add_variable. Anything else, such as a maximum: compute it by model.evaluate after fit, which takes batch after batch."
    )


def _warn(message: str) -> None:
    warnings.warn(message, LostAssignmentWarning, stacklevel=4)
