"""The traced steps of a model's evaluations and predictions: kept until it is compiled again, or trains other variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from simdist.program.arrays import Array, HostArray, Tree
from simdist.program.function import StepFunction
from simdist.training.evaluation import forward
from simdist.training.evaluation.probe import Probe, probe_prediction, probe_test
from simdist.training.keras_model import ForwardStep, StrategyModel, strategy_of
from simdist.training.missing_rows import MissingRows
from simdist.training.step import Example, eager_where_asked
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.optimizer import as_variable
from simdist.variables.placement import Placement
from simdist.variables.variable import Variable

__all__ = ["given_values", "keep_changed", "prediction_step", "test_step"]


def test_step(model: StrategyModel, batch: Example) -> ForwardStep:
    """The step of an evaluation; `batch` has the shapes of one that it will get."""
    return _known(model, "test", lambda: _traced(model, probe_test(model, batch), forward.test, forward.test_in_turn))


def prediction_step(model: StrategyModel, batch: Example) -> ForwardStep:
    """The step of a prediction."""
    return _known(model, "predict", lambda: _traced(model, probe_prediction(model, batch), forward.prediction, forward.prediction_in_turn))


def given_values(model: StrategyModel, step: ForwardStep, alone: bool) -> list[HostArray]:
    """The values that a step is given; with `alone`, those of this program's replicas, which other mains need not help to read."""
    variables = [model.non_trainable_variables[number] for number in step.given]
    if not alone:
        return [np.asarray(variable.value) for variable in variables]
    owns = [as_variable(variable) for variable in variables]
    return [np.asarray(_alone(own)) for own in owns]


def _alone(variable: Variable) -> Array:
    """The mean of this program's replicas; of what has no mean, the value of the first one."""
    placement: Placement[Variable] = variable.placement
    store = placement.store
    return store.value_here(variable) if placement.combine == "mean" else store.cell_value(variable, placement.cells[0])


def keep_changed(model: StrategyModel, step: ForwardStep, values: Sequence[Array]) -> None:
    """Assign to layers what a step in turn has changed of them; `values` are the last ones of all that it is given."""
    for number, value in zip(step.given, values, strict=True):
        if number in step.changed:
            model.non_trainable_variables[number].assign(value)


def _known(model: StrategyModel, name: str, make: Callable[[], ForwardStep]) -> ForwardStep:
    steps, trainable = model.simdist_state.forward_steps, [id(variable) for variable in model.trainable_variables]
    known = steps.get(name)
    if known is None or known[0] != trainable:
        known = steps[name] = trainable, make()
    return known[1]


def _traced(
    model: StrategyModel,
    probe: Probe,
    anywhere: Callable[[StrategyModel, tuple[int, ...], MissingRows], forward.ReplicaForward],
    in_turn: Callable[[StrategyModel, tuple[int, ...]], forward.Forward],
) -> ForwardStep:
    averaged = tuple(number for number, variable in enumerate(model.non_trainable_variables) if _is_averaged(variable))
    if not probe.may_be_split:
        given = tuple(sorted({*probe.changed, *averaged}))
        return ForwardStep(eager_where_asked(model, StepFunction(in_turn(model, given))), False, given, probe.changed)
    missing = MissingRows(f"the code of {model.name!r}")
    strategy, of_replica = strategy_of(model), anywhere(model, averaged, missing)

    def step(iterator: Iterator[Tree], given: Tree) -> Tree:
        return strategy.run(of_replica, args=(next(iterator), given))

    return ForwardStep(eager_where_asked(model, missing.watch(StepFunction(step))), True, averaged)


def _is_averaged(variable: KerasVariable) -> bool:
    """Whether each replica has a value of its own, and what is read is their mean."""
    placement = as_variable(variable).placement
    return placement.combine == "mean" and (len(placement.cells) > 1 or placement.across is not None)
