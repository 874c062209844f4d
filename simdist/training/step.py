"""One training step of a Keras model, as a step function; and what it needs: a built model, and split batches."""

from __future__ import annotations

from typing import Any

import jax
from keras.src.trainers.data_adapters.data_adapter_utils import unpack_x_y_sample_weight

from simdist.data import replica_batch_sizes
from simdist.program.function import StepFunction
from simdist.strategies.context import get_replica_context
from simdist.strategies.mirrored import MirroredStrategy
from simdist.strategies.per_replica import PerReplica
from simdist.variables.gradients import value_and_grad
from simdist.variables.optimizer import Optimizer

__all__ = ["SplitIterator", "build", "train_step_of"]


class SplitIterator:
    """An iterator whose elements come in parts, one for each replica that gets any rows."""

    def __init__(self, iterator: Any, num_replicas: int) -> None:
        self.iterator = iterator
        self.num_replicas = num_replicas
        self.parts: list[Any] = []
        self.sizes: tuple[int, ...] = ()

    def begin_step(self) -> None:
        """Take the next element and split it; `sizes` are the rows of its parts."""
        batch = self.iterator.next_batch()
        self.sizes = tuple(size for size in replica_batch_sizes(batch.num_rows, self.num_replicas) if size)
        self.parts = batch.split(self.sizes) if len(self.sizes) > 1 else [batch]

    def peek(self, place: int) -> Any:
        return self.parts[place] if self.parts else self.iterator.peek(place)

    def next_batch(self) -> Any:
        return self.parts.pop(0)


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
    if known is not None and known[0] is model.optimizer:
        return known[1]
    optimizer, strategy = Optimizer(model.optimizer), model.simdist_strategy

    def replica_step(data: Any, weight: float) -> None:
        x, y, sample_weight = unpack_x_y_sample_weight(data)

        def compute_loss() -> tuple[Any, Any]:
            y_pred = model(x, training=True)
            loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
            return loss * weight if weight != 1.0 else loss, (loss, y_pred)

        (_, (loss, y_pred)), gradients = value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
        context = get_replica_context()
        reduce = None if context is None else (lambda values: context.all_reduce("sum", values))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True), reduce)
        rows = jax.tree_util.tree_leaves(x)[0].shape[0]
        model._loss_tracker.update_state(loss, sample_weight=rows)
        if model._compile_metrics is not None:
            model._compile_metrics.update_state(y, y_pred, sample_weight)

    def train_step(iterator: Any, sizes: tuple[int, ...] | None) -> None:
        if sizes is None or len(sizes) == 1:
            strategy.run_replicas(replica_step, (next(iterator), 1.0), {}, [0]) if isinstance(strategy, MirroredStrategy) else strategy.run(
                replica_step, args=(next(iterator), 1.0)
            )
            return
        parts = PerReplica([next(iterator) for _ in sizes])
        weights = PerReplica([size / sum(sizes) for size in sizes])
        strategy.run_replicas(replica_step, (parts, weights), {}, range(len(sizes)))

    step = StepFunction(train_step)
    model._simdist_train_step = (model.optimizer, step)
    return step
