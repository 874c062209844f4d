"""`BuiltModel`: a model_fn with the variables that it has made in the scope of a strategy, and the traced steps that call it.

1. On a first batch the model_fn is traced alone: its layers, metrics and its optimizer create their variables (`created_variables`).
2. A step calls the model_fn in each trace again, as plain code of JAX, and finds the same variables.

Replicas weigh their loss by their part of the rows of the global batch, so that N replicas take the step of one device with N batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TypeAlias

import jax
import jax.numpy as jnp
import keras

from simdist import keras as keras_of_strategies
from simdist.errors import InvalidArgumentError
from simdist.estimator.created_variables import CreatedVariables, install
from simdist.estimator.elements import features_and_labels, rows_of
from simdist.estimator.specs import EstimatorSpec, MetricResults, ModeKeys
from simdist.program.arrays import Tree
from simdist.program.function import StepFunction
from simdist.program.tracing import active_tracer
from simdist.strategies import context
from simdist.strategies.base import Strategy
from simdist.training.global_denominators import of_global_batch
from simdist.training.missing_rows import MissingRows
from simdist.training.step import only_finite, weighed_state
from simdist.variables.aggregation import VariableAggregation
from simdist.variables.gradients import differentiated
from simdist.variables.keras_objects import core_of, is_keras_optimizer
from simdist.variables.optimizer import Optimizer
from simdist.variables.variable import Variable

__all__ = ["BuiltModel", "ModelFunction"]

install()

ModelFunction: TypeAlias = Callable[[Tree, Tree], EstimatorSpec]
"""A model_fn with features and labels alone: mode, params and config are bound."""


class BuiltModel:
    """A model_fn in one mode, under one strategy.

    Args:
        strategy: in whose scope its variables are made.
        mode: one of `ModeKeys`.
        model_fn: is called in traces only.
        batch: an element of the input, with the shapes of one that a replica will get; what it holds does not matter.
        seed: of initial values.

    Attributes:
        strategy: whose replicas, or workers, take its steps.
        variables: all that the model_fn has made.
        global_step: how many steps were trained.
        optimizer: in TRAIN, what minimizes the loss.
        metrics: in EVAL, by name, with the mean loss of the batches.

    Raises:
        InvalidArgumentError: the model_fn makes variables otherwise than by Keras, or nothing that could be trained.
    """

    def __init__(self, strategy: Strategy, mode: ModeKeys, model_fn: ModelFunction, batch: Tree, seed: int | None) -> None:
        self.strategy = strategy
        self.mode = mode
        self._model_fn = model_fn
        self._missing = MissingRows("model_fn", may_stand_in=False)
        with strategy.scope():
            self.variables = CreatedVariables(strategy.next_seed() if seed is None else seed)
            only_first = VariableAggregation.ONLY_FIRST_REPLICA
            self.global_step = Variable(0, name="global_step", trainable=False, aggregation=only_first)
            spec = self._first_call(batch)
            self.metrics = dict(spec.eval_metric_ops or {}) if mode is ModeKeys.EVAL else {}
            if mode is ModeKeys.EVAL:
                self.metrics["loss"] = keras_of_strategies.metrics.Mean(name="loss")
            self.optimizer = self._built_optimizer(spec) if mode is ModeKeys.TRAIN else None
        step = {ModeKeys.TRAIN: self._train, ModeKeys.EVAL: self._evaluate, ModeKeys.PREDICT: self._predict}[mode]
        self.step = self._missing.watch(StepFunction(step))

    # -- building -------------------------------------------------------------------------------------------------

    def _first_call(self, batch: Tree) -> EstimatorSpec:
        specs: list[EstimatorSpec] = []
        strategy = self.strategy

        def first_call(batch: Tree) -> None:
            strategy.run(lambda given: specs.append(self._call(given)), args=(batch,))

        step = StepFunction(first_call, name="model_fn")
        step.only_creates = True
        with context.stepping(strategy):
            step.trace(step.bind((batch,), {}))
        known = [variable.simdist_variable for variable in self.variables.all]
        foreign = [variable for variable in step.created_variables if not any(variable is own for own in known)]
        if foreign:
            raise InvalidArgumentError(
                f"model_fn makes {foreign[0].name!r}, an sd.Variable, and would make another one each time that it is called. Make it a "
                "keras.Variable, or a weight of a layer."
            )
        return specs[0]

    def _built_optimizer(self, spec: EstimatorSpec) -> Optimizer:
        assert spec.train_op is not None
        optimizer = spec.train_op if isinstance(spec.train_op, Optimizer) else Optimizer(spec.train_op)
        if not self.trainable_variables:
            raise InvalidArgumentError(
                "model_fn has made no trainable variable. Make layers, or weights, in model_fn itself: what was made before it is called "
                "belongs to no checkpoint."
            )
        _require_no_last_averages(optimizer)
        optimizer.build(self.trainable_variables)
        return optimizer

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """Those that the optimizer changes, in the order in which they were made."""
        return [variable for variable in self.variables.all if variable.trainable]

    @property
    def saved_variables(self) -> dict[str, keras.Variable]:
        """What a checkpoint keeps of the model_fn's layers, by name; an optimizer is saved as such, and metrics and keys begin anew."""
        found: dict[str, keras.Variable] = {}
        for variable in self.variables.of_layers:
            if not variable.is_seed:
                equal = sum(name == variable.path or name.startswith(f"{variable.path}_of_") for name in found)
                found[f"{variable.path}_of_{equal}" if equal else variable.path] = variable
        return found

    # -- the steps ------------------------------------------------------------------------------------------------

    def _call(self, batch: Tree) -> EstimatorSpec:
        with self.variables.open(), self._missing.tried(batch, rows_of(batch, self.mode)):
            return self._model_fn(*features_and_labels(batch, self.mode))

    def _train(self, iterator: Iterator[Tree]) -> Tree:
        losses = self.strategy.run(self._train_replica, args=(next(iterator),))
        self.global_step.assign_add(1)
        return losses

    def _train_replica(self, batch: Tree) -> jax.Array:
        rows, weight = self._weighed(batch)
        optimizer, variables = self.optimizer, self.trainable_variables
        assert optimizer is not None

        def compute_loss() -> tuple[jax.Array, jax.Array]:
            with of_global_batch(weight):  # without rows, too: all replicas take part in what is summed over them
                loss = jnp.sum(self._call(batch).loss) * weight
            return (optimizer.wrapped.scale_loss(loss) if is_keras_optimizer(optimizer.wrapped) else loss), loss

        with only_finite(not rows), weighed_state(weight):
            (_, loss), gradients = differentiated(compute_loss, variables, has_aux=True, is_weighed=True)()
        if not rows:
            # What flows back from a mean over nothing is no number.
            gradients, loss = [jnp.zeros_like(gradient) for gradient in gradients], jnp.zeros_like(loss)
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    def _weighed(self, batch: Tree) -> tuple[int, float]:
        """The rows of a replica's batch, and their part of those of all replicas.

        Raises:
            InvalidArgumentError: nobody can tell.
        """
        replica, rows = context.get_replica_context(), rows_of(batch, self.mode)
        if replica is None or replica.num_replicas_in_sync == 1:
            return (1 if rows is None else rows), 1.0
        if rows is None:
            shapes = jax.tree_util.tree_map(lambda leaf: tuple(leaf.shape), batch)
            raise InvalidArgumentError(
                f"input_fn gives elements of shapes {shapes}, whose labels (or features, where there are no labels) have no common first "
                "axis, so nobody can tell how many rows a replica has. Let all labels have one first axis, for example by .batch(n)."
            )
        return rows, rows / max(1, replica.global_batch_size(rows))

    def _evaluate(self, iterator: Iterator[Tree]) -> None:
        self.strategy.run(self._evaluate_replica, args=(next(iterator),))

    def _evaluate_replica(self, batch: Tree) -> None:
        tracer = active_tracer()
        assert tracer is not None
        with nullcontext() if rows_of(batch, self.mode) != 0 else tracer.overlay({}):  # metrics count no batch that has no rows
            spec = self._call(batch)
            self.metrics["loss"].update_state(jnp.sum(spec.loss))

    def _predict(self, iterator: Iterator[Tree]) -> Tree:
        return self.strategy.run(lambda batch: self._call(batch).predictions, args=(next(iterator),))

    def results(self) -> MetricResults:
        """What the metrics have counted: numbers, and arrays of numpy."""
        found = {name: jnp.asarray(metric.result()) for name, metric in self.metrics.items()}
        return {name: value.item() if value.ndim == 0 else jax.device_get(value) for name, value in found.items()}

    def reset_metrics(self) -> None:
        """Let the metrics count from the beginning."""
        for metric in self.metrics.values():
            metric.reset_state()


def _require_no_last_averages(optimizer: Optimizer) -> None:
    """Refuse moving averages that only the end of a training would take over.

    Raises:
        InvalidArgumentError: there are some.
    """
    core = core_of(optimizer.wrapped) if is_keras_optimizer(optimizer.wrapped) else None
    if core is not None and core.use_ema and core.ema_overwrite_frequency is None:
        raise InvalidArgumentError(
            f"The train_op, {core.name!r}, has use_ema=True and no ema_overwrite_frequency. Then fit gives the weights their averages at "
            "the end of a training, and an Estimator goes on from checkpoint to checkpoint without an end. Give an "
            "ema_overwrite_frequency, which does so every so many steps, or leave use_ema out."
        )
