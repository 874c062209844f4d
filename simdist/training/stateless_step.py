"""A training step of the user's own, in the stateless form that Keras has on JAX, on the replicas of a strategy.

``train_step(state, data)`` gets the values of all variables and returns new ones. Here the values are those that the step reads; an update
by ``optimizer.stateless_apply`` becomes an operation of the program, on the gradients of all replicas, and the values that it returns are
read after it. What the step returns otherwise than it got it is assigned. Values that it leaves alone are neither read nor assigned.

Gradients are weighed by a replica's part of the global batch, as fits a loss that is a mean over rows. Metrics that add up
count from zero in each step under parameter servers, and what they have counted is added: workers do not see each other's.

Taught in lesson 10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import jax
import jax.numpy as jnp

from simdist.program.arrays import Tree
from simdist.program.traces import jaxpr_of
from simdist.program.tracing import Tracer, active_tracer
from simdist.strategies.context import get_replica_context
from simdist.training.additive import adds_up
from simdist.training.global_denominators import of_global_batch
from simdist.training.keras_model import StrategyModel
from simdist.training.logs import checked_logs
from simdist.training.metric_logs import noted_results
from simdist.training.missing_rows import MissingRows, with_rows
from simdist.variables.aggregation import VariableAggregation, VariableSynchronization
from simdist.variables.keras_objects import KerasVariable
from simdist.variables.optimizer import as_variable
from simdist.variables.overwriting import gradient_without_rows, is_overwritten
from simdist.variables.variable import Variable

__all__ = ["StatelessStep", "current_step", "stateless_replica_step"]

Values: TypeAlias = list[jax.Array]
State: TypeAlias = tuple[Values, Values, Values, Values]
"""Of the trainable variables, the others, the optimizer and the metrics, as Keras orders them."""

_steps: list[StatelessStep] = []


class StatelessStep:
    """The variables of one replica's step, with the values that user code has of them.

    Args:
        rows: of the replica's part of the batch.
        weight: of that part in the global batch.
        counters: the variables of metrics, by identity, that count from zero in each step.
        updates_alone: whether no other replica or worker takes part in updates.
    """

    def __init__(self, rows: int, weight: float, counters: frozenset[int] = frozenset(), updates_alone: bool = False) -> None:
        self.rows = rows
        self.weight = weight
        self.counters = counters
        self.updates_alone = updates_alone
        self._present: dict[int, jax.Array] = {}  # the value that stands for a variable that nobody has changed, by the variable's id
        self._counted: dict[int, jax.Array] = {}  # from which a metric counts
        self._metrics: frozenset[int] = frozenset()  # which count rows, and so nothing where there are none

    def state_of(self, model: StrategyModel) -> State:
        """What ``train_step`` gets."""
        metrics = [self._metric(variable) for variable in model.metrics_variables]
        optimizer: Sequence[KerasVariable] = [] if model.optimizer is None else model.optimizer.variables
        return self.read(model.trainable_variables), self.read(model.non_trainable_variables), self.read(optimizer), metrics

    def keep(self, model: StrategyModel, state: State) -> None:
        """Assign what ``train_step`` returns otherwise than it got it."""
        trainable, others, optimizer, metrics = state
        self._metrics = frozenset(id(variable) for variable in model.metrics_variables)
        self.keep_values(model.trainable_variables, trainable)
        self.keep_values(model.non_trainable_variables, others)
        self.keep_values([] if model.optimizer is None else model.optimizer.variables, optimizer)
        for variable, value in zip(model.metrics_variables, metrics, strict=True):
            before = self._counted.get(id(variable))
            if before is None:
                self.keep_values([variable], [value])
            elif value is not before and self.rows:
                variable.assign_add(value - before)

    def read(self, variables: Sequence[KerasVariable]) -> Values:
        """The present values of variables."""
        tracer = active_tracer()
        assert tracer is not None
        with tracer.optional_reads():
            values = [variable.value for variable in variables]
        self._present.update((id(variable), value) for variable, value in zip(variables, values, strict=True))
        return values

    @property
    def sees_updates(self) -> bool:
        """Whether values after an update can be worked out at once: the step runs with values, and nobody else adds to the update."""
        tracer = active_tracer()
        return self.updates_alone and tracer is not None and tracer.has_values

    def foresee(self, variables: Sequence[KerasVariable], values: Values) -> None:
        """Let variables be read with these values, which the update gives them."""
        tracer = active_tracer()
        assert tracer is not None
        tracer.foresee([as_variable(variable) for variable in variables], values)

    def _metric(self, variable: KerasVariable) -> jax.Array:
        if id(variable) not in self.counters:
            return self.read([variable])[0]
        self._counted[id(variable)] = jnp.zeros(variable.shape, variable.dtype)
        return self._counted[id(variable)]

    def keep_values(self, variables: Sequence[KerasVariable], values: Values) -> None:
        """Assign the values that are others than those of the variables."""
        for variable, value in zip(variables, values, strict=True):
            if value is not self._present.get(id(variable)):
                self._assign(variable, value)
                self._present[id(variable)] = value

    def _assign(self, variable: KerasVariable, value: jax.Array) -> None:
        """Assign a value: of a replica's own state as it is; of what all share the average over the replicas, weighed by their rows."""
        own, tracer = as_variable(variable), active_tracer()
        assert tracer is not None
        if own.synchronization is VariableSynchronization.ON_READ and not own.is_served:
            if self.rows or id(variable) not in self._metrics:
                variable.assign(value)  # without rows: what is a number, as it comes from the rows of others
            return
        if own.aggregation is VariableAggregation.MEAN and self.weight * tracer.num_replicas != 1.0:
            # A replica without rows takes part, too; a value of nothing is no number.
            value = value * (self.weight * tracer.num_replicas) if self.rows else jnp.zeros_like(value)
        variable.assign(value)

    def weighed(self, gradients: Sequence[jax.Array | None], variables: Sequence[KerasVariable]) -> list[jax.Array | None]:
        """Gradients of this replica's part, as their part of the gradients of the global batch; new values as they are."""
        pairs = zip(gradients, map(as_variable, variables), strict=True)
        return [None if gradient is None else self._weighed(gradient, variable) for gradient, variable in pairs]

    def _weighed(self, gradient: jax.Array, variable: Variable) -> jax.Array:
        if not self.rows:
            # What flows back from a mean over no rows is no number.
            tracer = active_tracer()
            assert tracer is not None
            return gradient_without_rows(tracer, variable)
        return gradient if self.weight == 1.0 or is_overwritten(variable) else gradient * self.weight


def _counters(model: StrategyModel, data: Tree) -> frozenset[int]:
    """The variables of metrics that add up, by identity: found by tracing the step once more, without its updates.

    A step that cannot be traced, as its Python needs values, counts as Keras says: what is summed over replicas adds up.
    """
    metrics = model.metrics_variables
    others = StatelessStep(0, 1.0).state_of(model)[:3]
    avals = [jax.ShapeDtypeStruct(tuple(variable.shape), variable.dtype) for variable in metrics]
    tracer = active_tracer()
    assert tracer is not None
    lookup_counts = dict(tracer.lookup_counts)
    try:
        with tracer.observed():
            jaxpr = jaxpr_of(lambda counts: model.train_step((*others, counts), data)[1][3], avals).jaxpr
    except Exception:
        if not model.run_eagerly:
            raise
        return frozenset(id(variable) for variable in metrics if variable.aggregation == "sum")
    finally:
        tracer.lookup_counts = lookup_counts
    return frozenset(id(variable) for variable, is_sum in zip(metrics, adds_up(jaxpr, jaxpr.invars, jaxpr.outvars), strict=True) if is_sum)


def current_step() -> StatelessStep | None:
    """The stateless step that is being traced."""
    return _steps[-1] if _steps else None


@contextmanager
def _opened(step: StatelessStep) -> Iterator[StatelessStep]:
    _steps.append(step)
    try:
        yield step
    finally:
        _steps.pop()


@contextmanager
def _weighed_behind(tracer: Tracer, weight: float) -> Iterator[None]:
    """Gradients that are worked out inside are weighed afterwards: of what flows back from other replicas, each part as its own loss."""
    before, tracer.loss_weight = tracer.loss_weight, round(weight * tracer.num_replicas, 12)  # equal parts are exactly 1
    try:
        yield
    finally:
        tracer.loss_weight = before


def stateless_replica_step(model: StrategyModel, counts_alone: bool, missing: MissingRows) -> Callable[[Tree], Tree]:
    """The step of one replica of a model with a ``train_step``, or with another method that it calls, of the user's own.

    Args:
        model: whose step.
        counts_alone: whether other workers do not see what its metrics count.
        missing: notes where the step cannot be traced for no rows.

    Returns:
        A function of a batch that returns the number of rows, and the logs of ``train_step``.
    """

    known: dict[tuple[tuple[int, ...], ...], frozenset[int]] = {}  # by the shapes of the batch: the eager step runs this many times

    def replica_step(data: Tree) -> Tree:
        with missing.tried(data):
            return step(data)

    def step(data: Tree) -> Tree:
        leaves = jax.tree_util.tree_leaves(data)
        rows = leaves[0].shape[0]
        context, tracer = get_replica_context(), active_tracer()
        assert tracer is not None
        weight = 1.0 if context is None else rows / max(1, context.global_batch_size(rows))
        shapes = tuple([tuple(leaf.shape) for leaf in leaves])
        if shapes not in known:
            known[shapes] = _counters(model, with_rows(data)) if counts_alone else frozenset[int]()
        counters = known[shapes]
        alone = tracer.num_replicas == 1 and not counts_alone
        with _opened(StatelessStep(rows, weight, counters, alone)) as own, of_global_batch(weight), _weighed_behind(tracer, weight):
            given = own.state_of(model)
            with noted_results(model) as results:
                logs, state = model.train_step(given, data)
            checked_logs(logs, "train_step")
            model.simdist_state.metric_logs = results.among(logs, model.metrics_variables, given[3], state[3])
            own.keep(model, state)
        return jnp.float32(rows), jax.tree_util.tree_map(jnp.asarray, logs) if model.run_eagerly else logs

    return replica_step
