"""One training step of a Keras model, as a step function; and the model that it needs, built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import jax
import jax.numpy as jnp
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.saved_parts import built
from simdist.program.tracing import active_tracer
from simdist.strategies.context import get_replica_context
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.arguments import explaining_fixed_batches, has_own_step, require_numbers
from simdist.training.global_denominators import of_global_batch
from simdist.training.keras_model import StrategyModel, Tensor, strategy_of
from simdist.training.lost_assignments import LostAssignments
from simdist.training.missing_rows import MissingRows, with_rows
from simdist.training.state_without_rows import state_without_rows
from simdist.training.stateless_step import stateless_replica_step
from simdist.variables.gradients import differentiated
from simdist.variables.keras_objects import KerasVariable, core_of, trained_variables, unbuilt_by_keras
from simdist.variables.optimizer import Optimizer, as_variable
from simdist.variables.overwriting import gradient_without_rows

__all__ = [
    "Example",
    "build",
    "eager_where_asked",
    "finish",
    "only_finite",
    "prepare_optimizer",
    "require_same_variables",
    "train_step_of",
    "weighed_state",
]


class Example(Protocol):
    """A batch, to build a model with."""

    def value(self) -> Tree:
        """Its arrays, in the structure of an element."""
        ...


def build(model: StrategyModel, batch: Example) -> None:
    """Make the model's variables, and those of its metrics, for batches of this shape, in the scope of its strategy."""
    optimizer = model.optimizer
    if model.built and (model.simdist_state.is_built or (optimizer is None and model.simdist_has_layers())):
        return
    with strategy_of(model).scope():
        # A main whose replicas have none of its rows builds what the others build; some losses cannot be built for no rows.
        data = unpack_x_y_sample_weight(with_rows(batch.value()))
        # The slots lie beside the variables; a second set, made by Keras, would never be updated.
        with nullcontext() if optimizer is None else unbuilt_by_keras(optimizer), explaining_fixed_batches(model, data[0]):
            model.simdist_build(data)
    model.simdist_state.is_built = True
    built(model)


def train_step_of(model: StrategyModel) -> StepFunction:
    """The step that `fit` runs: that of the compiled loss, optimizer and metrics, or the user's own; it returns the logs of the latter.

    Replicas weigh their loss by their part of the global batch, so that uneven parts give the exact gradient. Where a main does not know
    how many rows the others have, as each cuts batches of its own, each replica counts the same.

    Raises:
        InvalidArgumentError: other variables are trainable than in the step before.
    """
    state, trainable = model.simdist_state, [id(variable) for variable in model.trainable_variables]
    if state.train_step is not None and state.train_step[0] != trainable:
        # A step of the user's own says itself what it does with other variables.
        if not has_own_step(model):
            _refuse_other_variables(model, state.train_step[0])
        state.train_step = None
    if state.train_step is None:
        state.train_step = trainable, eager_where_asked(model, _traced_step(model))
    return state.train_step[1]


def _traced_step(model: StrategyModel) -> StepFunction:
    strategy = strategy_of(model)
    has_own = has_own_step(model)
    missing = MissingRows(f"the train_step of {model.name!r}" if has_own else f"the code of {model.name!r}", may_stand_in=not has_own)
    if has_own:
        prepare_optimizer(model)
        replica_step = stateless_replica_step(model, isinstance(strategy, ParameterServerStrategy), missing)
    else:
        replica_step = _compiled_replica_step(model, missing)

    assignments = LostAssignments(model)

    def train_step(iterator: Iterator[Tree]) -> Tree:
        with assignments.reporting():
            return strategy.run(replica_step, args=(next(iterator),))

    step = StepFunction(train_step)
    step.examined_by = assignments.examine
    return missing.watch(step)


def require_same_variables(model: StrategyModel) -> None:
    """Refuse that a callback has changed which variables are trainable; the steps of a fit are traced once.

    Raises:
        InvalidArgumentError: they are others than at its beginning.
    """
    known = model.simdist_state.train_step
    if known is not None and not has_own_step(model) and known[0] != [id(variable) for variable in model.trainable_variables]:
        _refuse_other_variables(model, known[0])


def _refuse_other_variables(model: StrategyModel, known: list[int]) -> None:
    present = {id(variable): variable.path for variable in model.trainable_variables}
    frozen = [variable.path for variable in model.weights if id(variable) in known and id(variable) not in present]
    added = [path for number, path in present.items() if number not in known]
    gone = len(known) - len(set(known) & present.keys()) - len(frozen)  # with their layers
    removed = [f"{gone} that it has no more"] if gone else []
    changes = (("no longer", frozen), ("now also", added), ("without", removed))
    names = "; ".join(f"{what}: {', '.join(paths[:3])}" for what, paths in changes if paths) or "in another order"
    raise InvalidArgumentError(
        f"{model.name} has other trainable variables than when it was compiled ({names}), and its optimizer was built for those. Compile "
        "it again, with a new optimizer."
    )


def eager_where_asked(model: StrategyModel, step: StepFunction) -> StepFunction:
    """A step of a model, whose Python runs each time where the model was compiled with run_eagerly.

    Raises:
        FailedPreconditionError: the cluster computes no numbers.
    """
    if model.run_eagerly:
        require_numbers(model, "run_eagerly=True")
        step.run_eagerly = True
    return step


def _compiled_replica_step(model: StrategyModel, missing: MissingRows) -> Callable[[Tree], Tree]:
    """Gradients of the compiled loss, an update by the optimizer, metrics."""
    optimizer = prepare_optimizer(model)

    def replica_step(data: Tree) -> None:
        if missing.are_filled(data):
            _step_of_no_rows(model, optimizer, missing, data)
            return
        with missing.tried(data), explaining_fixed_batches(model, unpack_x_y_sample_weight(data)[0]):
            step_of_rows(data)

    def step_of_rows(data: Tree) -> None:
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        rows = jax.tree_util.tree_leaves(x)[0].shape[0]
        context = get_replica_context()
        weight = 1.0 if context is None else rows / max(1, context.global_batch_size(rows))
        variables = model.trainable_variables

        def compute_loss() -> tuple[jax.Array, Tree]:
            y_pred = model.simdist_forward(x, training=True)
            if not rows:
                return _loss_of_no_rows(model, x, y, y_pred, sample_weight), (0.0, y_pred)
            with of_global_batch(weight):
                loss = model.simdist_loss(x, y, y_pred, sample_weight, training=True)
            return model.optimizer.scale_loss(loss if weight == 1.0 else loss * weight), (loss, y_pred)

        with only_finite(not rows), weighed_state(weight):
            (_, (loss, y_pred)), gradients = differentiated(compute_loss, variables, has_aux=True, is_weighed=True)()
        if not rows:
            # What flows back from statistics of nothing is 0 times no number.
            gradients = _gradients_without_rows(variables)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        if rows:
            model.simdist_update_metrics(loss, rows, y, y_pred, sample_weight)

    return replica_step


def _step_of_no_rows(model: StrategyModel, optimizer: Optimizer, missing: MissingRows, data: Tree) -> None:
    """The step of a replica without rows, whose layers take a row of zeros."""
    tracer, variables = active_tracer(), model.trainable_variables
    assert tracer is not None

    def call(given: Tree) -> None:
        x, y, sample_weight = unpack_x_y_sample_weight(given)
        y_pred = model.simdist_forward(x, training=True)
        with of_global_batch(0.0), tracer.overlay({}):
            model.simdist_loss(x, y, y_pred, sample_weight, training=True)

    with missing.counting_nowhere(data):
        state = state_without_rows(tracer, call, with_rows(data))
    with only_finite(True), weighed_state(0.0):
        state.assign(tracer)
    optimizer.apply_gradients(zip(_gradients_without_rows(variables), variables, strict=True))


def _gradients_without_rows(variables: Sequence[KerasVariable]) -> list[jax.Array]:
    tracer = active_tracer()
    assert tracer is not None
    return [gradient_without_rows(tracer, as_variable(variable)) for variable in variables]


def prepare_optimizer(model: StrategyModel) -> Optimizer:
    """The model's optimizer, with slots for the trainable variables; or, where a step of the user's own applies it, for those that it was
    built for, which may be some of them.
    """
    known = model.simdist_state.optimizer
    if known is None or known.wrapped is not model.optimizer:
        known = model.simdist_state.optimizer = Optimizer(model.optimizer)
    variables = model.trainable_variables
    if model.optimizer.built and has_own_step(model):
        variables = trained_variables(model.optimizer)
    if variables:
        known.build(variables)
    return known


def finish(model: StrategyModel, together: bool = True) -> None:
    """Give the variables the values that the optimizer keeps for the end of training: moving averages, if it has them.

    Before the first update there are none: those of a new optimizer are zeros.

    Args:
        model: that was trained.
        together: whether all launched mains do so; one that fails alone keeps its own averages.
    """
    averages, strategy = core_of(model.optimizer).use_ema, strategy_of(model)
    if averages and (strategy.engine.numerics == "off" or int(model.optimizer.iterations)):
        with strategy.reading_alone():
            model.optimizer.finalize_variable_values(model.trainable_variables)
        if together:
            strategy.agree([as_variable(variable) for variable in model.trainable_variables])


def _loss_of_no_rows(model: StrategyModel, x: Tree, y: Tree, y_pred: Tree, sample_weight: Tree) -> jax.Array:
    """A replica without rows takes part in all collectives; the mean over no rows would be no number.

    Whether a loss has collectives is seen by computing it: losses have masks and weights of their own.
    """
    nothing: Tensor = sum(jnp.sum(leaf) for leaf in jax.tree_util.tree_leaves(y_pred))
    tracer = active_tracer()
    if tracer is None or tracer.num_replicas == 1:
        return nothing
    before = len(tracer.collectives)
    try:
        with of_global_batch(0.0), tracer.overlay({}):
            loss = model.simdist_loss(x, y, y_pred, sample_weight, training=True)
    except Exception:
        if len(tracer.collectives) > before:
            raise
        return nothing  # there is no such loss of no rows, and no other replica waits for this one
    return nothing + 0.0 * jnp.sum(loss) if len(tracer.collectives) > before else nothing


@contextmanager
def only_finite(wanted: bool) -> Iterator[None]:
    """A replica without rows leaves the state of layers as it is, where that would come from its own rows."""
    tracer = active_tracer()
    assert tracer is not None
    tracer.only_finite = wanted
    try:
        yield
    finally:
        tracer.only_finite = False


@contextmanager
def weighed_state(weight: float) -> Iterator[None]:
    """What layers assign counts by the replica's part of the global batch, where a mean over the replicas is assigned."""
    tracer = active_tracer()
    assert tracer is not None
    tracer.row_weight = round(weight * tracer.num_replicas, 12)  # equal parts are exactly 1, and not weighed
    try:
        yield
    finally:
        tracer.row_weight = 1.0
