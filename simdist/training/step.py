"""One training step of a Keras model, as a step function; and the model that it needs, built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.program.function import StepFunction
from simdist.program.tracing import active_tracer
from simdist.strategies.context import get_replica_context
from simdist.training.global_denominators import needs_global_denominators, of_global_batch
from simdist.variables.gradients import value_and_grad
from simdist.variables.optimizer import Optimizer

__all__ = ["build", "finish", "forget_steps", "prepare_optimizer", "train_step_of"]


def build(model: Any, batch: Any) -> None:
    """Make the model's variables, and those of its metrics, for batches of this shape, in the scope of its strategy."""
    optimizer = model.optimizer
    if model.built and getattr(model, "_simdist_built", optimizer is None):
        return
    with model.simdist_strategy.scope():
        data = unpack_x_y_sample_weight(batch.value())
        was_built = optimizer.built if optimizer is not None else None
        if optimizer is not None:
            # The slots lie beside the variables; a second set, made by Keras, would never be updated.
            optimizer.built = True
        try:
            model._symbolic_build(data_batch=data)
        finally:
            if optimizer is not None:
                optimizer.built = was_built
    model._simdist_built = True


def train_step_of(model: Any) -> StepFunction:
    """The step that `fit` runs: gradients of the compiled loss, an update by the optimizer, metrics.

    Replicas weigh their loss by their part of the global batch, so that uneven parts give the exact gradient.
    """
    known = model.__dict__.get("_simdist_train_step")
    if known is not None:
        return known
    optimizer, strategy = prepare_optimizer(model), model.simdist_strategy

    def replica_step(data: Any) -> None:
        x, y, sample_weight = unpack_x_y_sample_weight(data)
        rows = jax.tree_util.tree_leaves(x)[0].shape[0]
        context = get_replica_context()
        weight = 1.0 if context is None else rows / max(1, context.global_batch_size(rows))
        variables = model.trainable_variables

        def compute_loss() -> tuple[Any, Any]:
            y_pred = model(x, training=True)
            if not rows:
                return _loss_of_no_rows(model, x, y, y_pred, sample_weight), (0.0, y_pred)
            with of_global_batch(weight):
                loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
            return model.optimizer.scale_loss(loss if weight == 1.0 else loss * weight), (loss, y_pred)

        with _only_finite(not rows):
            (_, (loss, y_pred)), gradients = value_and_grad(compute_loss, variables, has_aux=True)()
        if not rows:
            # What flows back from statistics of nothing is 0 times no number.
            gradients = [jnp.zeros_like(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        if rows:
            model._loss_tracker.update_state(loss, sample_weight=rows)
            if model._compile_metrics is not None:
                model._compile_metrics.update_state(y, y_pred, sample_weight)

    def train_step(iterator: Any) -> None:
        strategy.run(replica_step, args=(next(iterator),))

    step = StepFunction(train_step)
    model._simdist_train_step = step
    return step


def forget_steps(model: Any) -> None:
    """Delete the traced steps of a model that was compiled again."""
    for name in ("_simdist_train_step", "_simdist_test_step", "_simdist_predict_step", "_simdist_built"):
        model.__dict__.pop(name, None)


def prepare_optimizer(model: Any) -> Optimizer:
    """The model's optimizer, with slots for the trainable variables."""
    known = model.__dict__.get("_simdist_optimizer")
    if known is None or known.wrapped is not model.optimizer:
        known = model.__dict__["_simdist_optimizer"] = Optimizer(model.optimizer)
    if model.trainable_variables:
        known.build(model.trainable_variables)
    return known


def finish(model: Any) -> None:
    """Give the variables the values that the optimizer keeps for the end of training: moving averages, if it has them."""
    model.optimizer.finalize_variable_values(model.trainable_variables)


def _loss_of_no_rows(model: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
    """A replica without rows takes part in all collectives; the mean over no rows would be no number."""
    nothing = sum(jnp.sum(leaf) for leaf in jax.tree_util.tree_leaves(y_pred))
    tracer = active_tracer()
    if tracer is None or tracer.num_replicas == 1 or not needs_global_denominators(model, y_pred, sample_weight):
        return nothing
    with of_global_batch(0.0), tracer.overlay({}):
        loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
    return nothing + 0.0 * jnp.sum(loss)


@contextmanager
def _only_finite(wanted: bool) -> Iterator[None]:
    """A replica without rows leaves the state of layers as it is, where that would come from its own rows."""
    tracer = active_tracer()
    assert tracer is not None
    tracer.only_finite = wanted
    try:
        yield
    finally:
        tracer.only_finite = False
