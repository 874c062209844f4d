"""What a step of evaluation or prediction does, found by tracing it once without numbers.

Batches can be taken by any replica or worker in any order, also in parts, if the step changes no layer, its logs are the metrics, what
metrics count may be added up, and no layer is made for one size of batches. Where replicas take parts of batches, the shape of a row of
the outputs must not depend on how many rows there are, either. Everything else goes batch after batch through one place, as in Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import keras
from jax.extend.core import Literal
from keras.src import backend
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.program.arrays import Tree
from simdist.program.fixed_reads import traced_once
from simdist.program.traces import jaxpr_and_shapes_of, jaxpr_of, shapes_of
from simdist.strategies.base import Strategy
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.additive import adds_up
from simdist.training.arguments import explaining_fixed_batches
from simdist.training.keras_model import StrategyModel, strategy_of
from simdist.training.logs import checked_logs
from simdist.training.missing_targets import explained_without_targets
from simdist.training.step import Example
from simdist.variables.keras_objects import KerasVariable

__all__ = ["Probe", "probe_prediction", "probe_test"]

Step: TypeAlias = Callable[[Tree, Tree, Tree], Tree]
"""Of the values of variables that are trained, of the others, and of data, what it gives."""

SEED = "seed_generator_state"


@dataclass(frozen=True)
class Probe:
    """What a step does.

    Attributes:
        may_be_split: whether its batches may be taken anywhere, in any order.
        changed: the numbers of the variables, among those that are not trained, that it changes.
    """

    may_be_split: bool
    changed: tuple[int, ...]


def probe_test(model: StrategyModel, batch: Example) -> Probe:
    """What ``test_step`` does with a batch of this shape."""
    return _probed(model, batch, lambda: _probe_test(model, batch))


def probe_prediction(model: StrategyModel, batch: Example) -> Probe:
    """What ``predict_step`` does with a batch of this shape."""
    return _probed(model, batch, lambda: _probe_prediction(model, batch))


@traced_once()
def _probed(model: StrategyModel, batch: Example, probe: Callable[[], Probe]) -> Probe:
    """What is found; of an eager step that needs values, and so cannot be traced without, the worst."""
    try:
        with explaining_fixed_batches(model, _features(batch)):
            return probe()
    except Exception:
        if not model.run_eagerly:
            raise
        numbers = [number for number, variable in enumerate(model.non_trainable_variables) if variable.name != SEED]
        return Probe(False, tuple(numbers))


def _probe_test(model: StrategyModel, batch: Example) -> Probe:
    others = model.non_trainable_variables
    metrics = model.metrics_variables

    def step(trained: Tree, state: Tree, counts: Tree, data: Tree) -> Tree:
        logs, (_, after, counted) = model.test_step((trained, state, counts), data)
        return after, checked_logs(logs, "test_step"), counted

    with explained_without_targets(model.name, unpack_x_y_sample_weight(batch.value())[1]):
        given = _avals(model.trainable_variables), _avals(others), _avals(metrics), _shapes(batch)
        traced, (_, logs, _) = jaxpr_and_shapes_of(step, *given)
    changed = _changed(traced, others, len(model.trainable_variables))
    names = set(logs) if isinstance(logs, dict) else None
    before = len(model.trainable_variables) + len(others)
    counters = adds_up(traced.jaxpr, traced.jaxpr.invars[before : before + len(metrics)], traced.jaxpr.outvars[-len(metrics) :])
    may_be_split = names == _names_of_metrics(model) and all(counters) and not changed and not _has_fixed_batch(model, batch)
    return Probe(may_be_split and not _rows_know_of_others(_forward(model), model, _features(batch), may_be_fixed=True), changed)


def _probe_prediction(model: StrategyModel, batch: Example) -> Probe:
    others = model.non_trainable_variables
    data = _shapes(batch)

    def step(trained: Tree, state: Tree, data: Tree) -> Tree:
        outputs, after = model.predict_step((trained, state), data)
        return after, outputs

    traced = jaxpr_of(step, _avals(model.trainable_variables), _avals(others), data)
    changed = _changed(traced, others, len(model.trainable_variables))
    may_be_split = not changed and not _has_fixed_batch(model, batch)
    return Probe(may_be_split and not _rows_know_of_others(lambda *args: step(*args)[1], model, data, may_be_fixed=False), changed)


def _changed(traced: Tree, others: Sequence[KerasVariable], first: int) -> tuple[int, ...]:
    """The numbers of variables whose value after a step is another than before; counters of random draws begin anew in each step."""
    jaxpr = traced.jaxpr
    given, after = jaxpr.invars[first : first + len(others)], jaxpr.outvars[: len(others)]
    return tuple(
        number
        for number, (before, now, variable) in enumerate(zip(given, after, others, strict=True))
        if (isinstance(now, Literal) or now is not before) and variable.name != SEED
    )


def _has_fixed_batch(model: StrategyModel, batch: Example) -> bool:
    """Whether a model takes batches of one size only, as one with a stateful recurrent layer does.

    Inputs of a fixed size alone do not say so: a `Sequential` without an `Input` has those of the first batch that it gets.
    """
    inputs: Sequence[keras.KerasTensor] = keras.tree.flatten(getattr(model, "inputs", None) or [])
    return any(tensor.shape and tensor.shape[0] is not None for tensor in inputs) and not _takes_one_row_more(model, batch)


def _takes_one_row_more(model: StrategyModel, batch: Example) -> bool:
    """Whether a batch with one more row gives one more row of each output."""
    x = _features(batch)
    rows = {leaf.shape[0] for leaf in jax.tree_util.tree_leaves(x)}
    try:
        found = _outputs(_forward(model), model, _one_row_more(x))
    except (TypeError, ValueError):
        return False
    return all(leaf.shape and leaf.shape[0] - 1 in rows for leaf in jax.tree_util.tree_leaves(found))


def _rows_know_of_others(step: Step, model: StrategyModel, data: Tree, may_be_fixed: bool) -> bool:
    """Whether replicas share a batch whose rows depend on each other, as the shapes of outputs say.

    They do if one more row changes more than the number of rows, as in a similarity of each row to each other. What cannot be computed with
    one more row is taken to be independent.

    Args:
        step: gives outputs of data.
        model: whose step.
        data: a batch.
        may_be_fixed: whether outputs may have a first axis that is the same for all batches.
    """
    if not _replicas_share_batches(strategy_of(model)):
        return False
    try:
        before, after = (jax.tree_util.tree_leaves(_outputs(step, model, given)) for given in (data, _one_row_more(data)))
    except Exception:
        return False
    rows = jax.tree_util.tree_leaves(data)[0].shape[0]

    def is_of_rows(one: jax.ShapeDtypeStruct, other: jax.ShapeDtypeStruct) -> bool:
        if not one.shape or not other.shape:
            return may_be_fixed and one.shape == other.shape
        grows = one.shape[0] * (rows + 1) == other.shape[0] * rows or (may_be_fixed and one.shape[0] == other.shape[0])
        return grows and one.shape[1:] == other.shape[1:]

    return not all(map(is_of_rows, before, after))


def _replicas_share_batches(strategy: Strategy) -> bool:
    if isinstance(strategy, ParameterServerStrategy):
        return strategy.replicas is not None
    return strategy.num_replicas_in_sync > 1


def _forward(model: StrategyModel) -> Step:
    return lambda trained, state, x: model.stateless_call(trained, state, x, training=False)[0]


def _outputs(step: Step, model: StrategyModel, data: Tree) -> Tree:
    return shapes_of(step, _avals(model.trainable_variables), _avals(model.non_trainable_variables), data)


def _features(batch: Example) -> Tree:
    return unpack_x_y_sample_weight(_shapes(batch))[0]


def _one_row_more(data: Tree) -> Tree:
    return jax.tree_util.tree_map(lambda leaf: jax.ShapeDtypeStruct((leaf.shape[0] + 1, *leaf.shape[1:]), leaf.dtype), data)


def _names_of_metrics(model: StrategyModel) -> set[str]:
    """The names under which the metrics of a model have results."""
    found: set[str] = set()

    def results(values: Tree) -> None:
        with backend.StatelessScope(state_mapping=list(zip(model.metrics_variables, values, strict=True))):
            found.update(model.get_metrics_result())

    shapes_of(results, _avals(model.metrics_variables))
    return found


def _avals(variables: Sequence[KerasVariable]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(tuple(variable.shape), backend.standardize_dtype(variable.dtype)) for variable in variables]


def _shapes(batch: Example) -> Tree:
    return jax.tree_util.tree_map(lambda array: jax.ShapeDtypeStruct(array.shape, backend.standardize_dtype(array.dtype)), batch.value())
