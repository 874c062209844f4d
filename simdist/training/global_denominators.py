"""Denominators of losses over all replicas: means of masked steps, and means by sample weight.

A mean over rows needs no collective: a replica's part of the batch is known, and its loss is weighed by it. What a mask leaves, and
what sample weights add up to, is not known before the step. There, each replica contributes its own denominator and divides by its
part of the sum, so that the weighed losses of all replicas add up to that of one device with the global batch. A loss whose
reduction is a sum adds up by itself: it is divided by the weight that it will get.

Invariant: a loss without a mask, and without the reduction "mean_with_sample_weight", needs no all-reduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
from keras.src import backend, ops
from keras.src.losses import loss as losses

from simdist.program.tracing import active_tracer

__all__ = ["exchanges_denominators", "install", "of_global_batch"]

_of_one_device: list[Any] = []
_parts: list[float] = []
MEANS = ("mean", "sum_over_batch_size")


@contextmanager
def of_global_batch(part: float) -> Iterator[None]:
    """Let the losses that are computed inside have the denominators of the global batch.

    Args:
        part: of the global batch's rows that this replica has; what comes out is to be weighed by it.
    """
    tracer = active_tracer()
    assert tracer is not None
    if tracer.num_replicas == 1:
        yield
        return
    _parts.append(part)
    try:
        yield
    finally:
        _parts.pop()


def exchanges_denominators(model: Any, y_pred: Any, sample_weight: Any) -> bool:
    """Whether the replicas must meet to know the loss of these outputs.

    Args:
        model: compiled.
        y_pred: its outputs, with their masks.
        sample_weight: None where there is none.
    """
    masked = any(backend.get_keras_mask(leaf) is not None for leaf in jax.tree_util.tree_leaves(y_pred))
    reductions = [getattr(part, "reduction", None) for part in jax.tree_util.tree_leaves(model.loss)]
    return masked or (sample_weight is not None and "mean_with_sample_weight" in reductions)


def _shared(denominator: Any) -> Any:
    """This replica's part of the sum of a denominator over all replicas."""
    tracer = active_tracer()
    assert tracer is not None
    if getattr(tracer.options, "local", False):
        # A replica that takes steps of its own takes its rows for the whole.
        return denominator
    return tracer.collective("all_reduce", [denominator], label="loss denominator")[0] * _parts[-1]


def _apply_mask(sample_weight: Any, mask: Any, dtype: Any, reduction: Any) -> Any:
    """As Keras' function of that name; valid entries weigh as many as all entries by the valid ones of the global batch."""
    apply_mask = _of_one_device[0]
    if not _parts or mask is None or reduction not in MEANS:
        return apply_mask(sample_weight, mask, dtype=dtype, reduction=reduction)
    mask = ops.cast(mask, dtype)
    total = ops.cast(ops.size(mask), dtype)
    weight = ops.divide_no_nan(total, _shared(ops.sum(mask)))
    return apply_mask(sample_weight, mask * weight, dtype=dtype, reduction="sum")


def _reduce_values(values: Any, sample_weight: Any = None, reduction: Any = "sum_over_batch_size") -> Any:
    """As Keras' function of that name; a mean by sample weight divides by the weights of the global batch."""
    if _parts and reduction == "mean_with_sample_weight" and sample_weight is not None and len(values.shape) > 0:
        return ops.divide_no_nan(ops.sum(values), _shared(ops.cast(ops.sum(sample_weight), values.dtype)))
    if _parts and 0 in values.shape:
        # Keras gives an empty array here, which does not add up with the losses of other outputs.
        return ops.sum(values)
    loss = _of_one_device[1](values, sample_weight, reduction)
    return loss / _parts[-1] if _parts and reduction == "sum" else loss


def install() -> None:
    """Put both in the place of Keras' functions. Done once."""
    if not _of_one_device:
        _of_one_device.extend((losses.apply_mask, losses.reduce_values))
        losses.apply_mask, losses.reduce_values = _apply_mask, _reduce_values
