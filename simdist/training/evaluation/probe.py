"""What a step of evaluation or prediction does, found by tracing it once without numbers.

Batches can be taken by any replica or worker in any order, also in parts, if the step changes no layer, its logs are the metrics, what
metrics count may be added up, and no layer is made for one size of batches. Everything else goes batch after batch through one place, as
in Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import keras
from jax.extend.core import Literal
from keras.src import backend
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.program.arrays import Tree
from simdist.training.additive import adds_up
from simdist.training.keras_model import StrategyModel
from simdist.training.step import Example
from simdist.variables.keras_objects import KerasVariable

__all__ = ["Probe", "probe_prediction", "probe_test"]

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
    return _probed(model, lambda: _probe_test(model, batch))


def probe_prediction(model: StrategyModel, batch: Example) -> Probe:
    """What ``predict_step`` does with a batch of this shape."""
    return _probed(model, lambda: _probe_prediction(model, batch))


def _probed(model: StrategyModel, probe: Callable[[], Probe]) -> Probe:
    """What is found; of an eager step that needs values, and so cannot be traced without, the worst."""
    try:
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
        return after, logs, counted

    traced, (_, logs, _) = jax.make_jaxpr(step, return_shape=True)(
        _avals(model.trainable_variables), _avals(others), _avals(metrics), _shapes(batch)
    )
    changed = _changed(traced, others, len(model.trainable_variables))
    names = set(logs) if isinstance(logs, dict) else None
    before = len(model.trainable_variables) + len(others)
    counters = adds_up(traced.jaxpr, traced.jaxpr.invars[before : before + len(metrics)], traced.jaxpr.outvars[-len(metrics) :])
    may_be_split = names == _names_of_metrics(model) and all(counters) and not changed and not _has_fixed_batch(model, batch)
    return Probe(may_be_split, changed)


def _probe_prediction(model: StrategyModel, batch: Example) -> Probe:
    others = model.non_trainable_variables
    data = _shapes(batch)
    given = data if isinstance(data, tuple) else (data,)

    def step(trained: Tree, state: Tree, data: Tree) -> Tree:
        outputs, after = model.predict_step((trained, state), data)
        return after, outputs

    traced = jax.make_jaxpr(step)(_avals(model.trainable_variables), _avals(others), given)
    changed = _changed(traced, others, len(model.trainable_variables))
    return Probe(not changed and not _has_fixed_batch(model, batch), changed)


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
    given = _shapes(batch)
    x, _, _ = unpack_x_y_sample_weight(given)
    rows = {leaf.shape[0] for leaf in jax.tree_util.tree_leaves(x)}
    larger = jax.tree_util.tree_map(lambda leaf: jax.ShapeDtypeStruct((leaf.shape[0] + 1, *leaf.shape[1:]), leaf.dtype), x)

    def forward(trained: Tree, state: Tree, x: Tree) -> Tree:
        return model.stateless_call(trained, state, x, training=False)[0]

    try:
        found = jax.eval_shape(forward, _avals(model.trainable_variables), _avals(model.non_trainable_variables), larger)
    except (TypeError, ValueError):
        return False
    return all(leaf.shape and leaf.shape[0] - 1 in rows for leaf in jax.tree_util.tree_leaves(found))


def _names_of_metrics(model: StrategyModel) -> set[str]:
    """The names under which the metrics of a model have results."""
    found: set[str] = set()

    def results(values: Tree) -> None:
        with backend.StatelessScope(state_mapping=list(zip(model.metrics_variables, values, strict=True))):
            found.update(model.get_metrics_result())

    jax.eval_shape(results, _avals(model.metrics_variables))
    return found


def _avals(variables: Sequence[KerasVariable]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(tuple(variable.shape), backend.standardize_dtype(variable.dtype)) for variable in variables]


def _shapes(batch: Example) -> Tree:
    return jax.tree_util.tree_map(lambda array: jax.ShapeDtypeStruct(array.shape, backend.standardize_dtype(array.dtype)), batch.value())
