"""What the replicas of a strategy do with a Keras variable: whether each has its own value, and how their changes are combined."""

from __future__ import annotations

import keras

from simdist.variables.aggregation import VariableAggregation, VariableSynchronization

__all__ = ["variable_roles"]


def variable_roles(variable: keras.Variable, floating: bool) -> tuple[VariableSynchronization, VariableAggregation]:
    """The synchronization and the aggregation of a Keras variable with several replicas.

    What is trained, and the optimizer's own, changes on all replicas alike; so does state of layers whose mean is asked for by
    ``aggregation="mean"``. Metrics are summed when they are read. Other state of layers (moving averages) is each replica's own, and their
    mean when it is read, as in Keras on TensorFlow.
    """
    on_read, auto = VariableSynchronization.ON_READ, VariableSynchronization.AUTO
    if variable.trainable:
        return auto, VariableAggregation.MEAN if floating else VariableAggregation.ONLY_FIRST_REPLICA
    match variable.aggregation:
        case "sum":
            return on_read, VariableAggregation.SUM
        case "mean" if floating:
            return on_read if variable.synchronization == "on_read" else auto, VariableAggregation.MEAN
        case "mean":
            return on_read, VariableAggregation.ONLY_FIRST_REPLICA
        case "only_first_replica":
            return auto, VariableAggregation.ONLY_FIRST_REPLICA
        case _:
            return (on_read, VariableAggregation.MEAN) if floating else (auto, VariableAggregation.ONLY_FIRST_REPLICA)
