"""The steps of evaluation and prediction, for one replica or worker.

A step that may run anywhere counts its metrics from zero and returns what it has counted; one that takes batches in turn is given the
state and returns the next one. Both change nothing by themselves. Variables of which each replica has a value of its own (moving averages
of batches) are given to the step, as they are read outside of it: their mean.

The compiled step reads embedding tables by rows; one of the user's own is given all values, as in Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.program.arrays import Tree
from simdist.program.operations import Reference
from simdist.program.tracing import active_tracer
from simdist.strategies.context import get_replica_context
from simdist.training.arguments import explaining_fixed_batches, overrides
from simdist.training.global_denominators import of_global_batch
from simdist.training.keras_model import StrategyModel
from simdist.training.logs import checked_logs
from simdist.training.missing_rows import MissingRows, num_rows_of, with_rows
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.optimizer import as_variable

__all__ = ["Forward", "ReplicaForward", "prediction", "prediction_in_turn", "test", "test_in_turn"]

ReplicaForward: TypeAlias = Callable[[Tree, list[jax.Array]], Tree]
"""Of a replica's part of a batch, and of the values of the variables that are given, what it gives."""

Forward: TypeAlias = Callable[[Iterator[Tree], Tree], Tree]
"""Of an iterator and the state so far, what the next batch gives, and the next state."""

OF_A_TEST = ("test_step", "compute_metrics", "compute_loss_and_updates", "stateless_compute_loss")


def test(model: StrategyModel, given: Sequence[int], missing: MissingRows) -> ReplicaForward:
    """A step that returns what the metrics count in a part of a batch.

    Args:
        model: compiled.
        given: the numbers of the variables that the step is given.
        missing: says which parts without rows get a row of zeros.
    """
    own = overrides(model, OF_A_TEST)

    def counted(data: Tree, values: list[jax.Array]) -> Tree:
        if missing.are_filled(data):
            with missing.counting_nowhere(data):
                return count(with_rows(data), 0, values)
        with missing.tried(data):
            return count(data, num_rows_of(data), values)

    def count(data: Tree, rows: int, values: list[jax.Array]) -> Tree:
        context = get_replica_context()
        weight = 1.0 if context is None else rows / max(1, context.global_batch_size(rows))
        if own:
            with of_global_batch(weight):
                found = _of_test_step(model, data, given, values)
        else:
            found = _of_compiled_test(model, data, rows, weight, given, values)
        return found if rows else [jnp.zeros_like(value) for value in found]

    return counted


def _of_test_step(model: StrategyModel, data: Tree, given: Sequence[int], values: list[jax.Array]) -> list[jax.Array]:
    others = _with(_read(model.non_trainable_variables), given, values)
    _, (_, _, metrics) = model.test_step((_read(model.trainable_variables), others, _zeros(model)), data)
    return metrics


def _of_compiled_test(
    model: StrategyModel, data: Tree, rows: int, weight: float, given: Sequence[int], values: list[jax.Array]
) -> list[jax.Array]:
    x, y, sample_weight = unpack_x_y_sample_weight(data)
    tracer, metrics = active_tracer(), [as_variable(variable) for variable in model.metrics_variables]
    assert tracer is not None
    replaced = _replaced(model, given, values)
    for variable, zeros in zip(metrics, _zeros(model), strict=True):
        variable.put_into(replaced, zeros)
    with tracer.overlay(replaced):
        y_pred = model.simdist_forward(x)
        with of_global_batch(weight):
            loss = model.simdist_loss(x, y, y_pred, sample_weight, training=False)
        if rows:
            model.simdist_update_metrics(loss, rows, y, y_pred, sample_weight)
        return [tracer.read(variable) for variable in metrics]


def prediction(model: StrategyModel, given: Sequence[int], missing: MissingRows) -> ReplicaForward:
    """A step that returns the outputs for a part of a batch; the arguments are those of `test`."""
    own = overrides(model, ("predict_step",))

    def predicted(data: Tree, values: list[jax.Array]) -> Tree:
        if missing.are_filled(data):
            with missing.counting_nowhere(data):
                return jax.tree_util.tree_map(lambda leaf: leaf[:0], predict(with_rows(data), values))
        with missing.tried(data):
            return predict(data, values)

    def predict(data: Tree, values: list[jax.Array]) -> Tree:
        if own:
            others = _with(_read(model.non_trainable_variables), given, values)
            return model.predict_step((_read(model.trainable_variables), others), data)[0]
        tracer = active_tracer()
        assert tracer is not None
        with tracer.overlay(_replaced(model, given, values)):  # what layers remember for themselves is dropped, as in Keras
            return model.simdist_forward(unpack_x_y_sample_weight(data)[0])

    return predicted


def test_in_turn(model: StrategyModel, numbers: Sequence[int]) -> Forward:
    """A step that returns its logs, and the state after it: the variables with these numbers, and the metrics."""

    def step(iterator: Iterator[Tree], state: Tree) -> Tree:
        held, metrics = state
        given = _with(_read(model.non_trainable_variables), numbers, held)
        data = next(iterator)
        with explaining_fixed_batches(model, unpack_x_y_sample_weight(data)[0]):
            logs, (_, after, metrics) = model.test_step((_read(model.trainable_variables), given, metrics), data)
        return checked_logs(logs, "test_step"), ([after[number] for number in numbers], metrics)

    return step


def prediction_in_turn(model: StrategyModel, numbers: Sequence[int]) -> Forward:
    """A step that returns its outputs, and the state after it: the variables with these numbers."""

    def step(iterator: Iterator[Tree], state: Tree) -> Tree:
        data = next(iterator)
        given = _with(_read(model.non_trainable_variables), numbers, state)
        with explaining_fixed_batches(model, unpack_x_y_sample_weight(data)[0]):
            outputs, after = model.predict_step((_read(model.trainable_variables), given), data)
        return outputs, [after[number] for number in numbers]

    return step


def _with(values: list[jax.Array], numbers: Sequence[int], others: Sequence[jax.Array]) -> list[jax.Array]:
    """Values, those with these numbers replaced."""
    for number, other in zip(numbers, others, strict=True):
        values[number] = other
    return values


def _replaced(model: StrategyModel, numbers: Sequence[int], values: list[jax.Array]) -> dict[Reference, jax.Array]:
    """Values for variables, as an overlay takes them."""
    replaced: dict[Reference, jax.Array] = {}
    for number, value in zip(numbers, values, strict=True):
        as_variable(model.non_trainable_variables[number]).put_into(replaced, value)
    return replaced


def _read(variables: Sequence[KerasVariable]) -> list[jax.Array]:
    tracer = active_tracer()
    assert tracer is not None
    with tracer.optional_reads():
        return [variable.value for variable in variables]


def _zeros(model: StrategyModel) -> list[jax.Array]:
    return [jnp.zeros(variable.shape, variable.dtype) for variable in model.metrics_variables]
