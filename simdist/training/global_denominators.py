"""Denominators of losses over all replicas: means of masked steps, and means by sample weight.

A mean over rows needs no collective: a replica's part of the batch is known, and its loss is weighed by it. What a mask leaves, and
what sample weights add up to, is not known before the step. There, each replica contributes its own denominator and divides by its
part of the sum, so that the weighed losses of all replicas add up to that of one device with the global batch. (Sums add up by
themselves: `simdist.training.loss_sums`.)

In a loop of the user's own, the mean that a loss of Keras gives to `sd.value_and_grad` is that of one replica, whose gradients are added
to those of the others: it is divided by the number of replicas, as Keras does on TensorFlow.

Invariant: a loss without a mask, and without the reduction "mean_with_sample_weight", needs no all-reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from keras.src import ops
from keras.src.losses import loss as losses

from simdist.program.arrays import DTypeLike
from simdist.program.tracing import active_tracer
from simdist.training import loss_sums
from simdist.training.keras_model import Tensor
from simdist.training.loss_sums import global_batch, warn_of_a_sum

__all__ = ["install", "of_global_batch"]

_of_one_device: list[tuple[Callable[..., Tensor], Callable[..., Tensor]]] = []  # Keras' apply_mask and reduce_values
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
    before, global_batch.part = global_batch.part, part
    try:
        yield
    finally:
        global_batch.part = before


def _shared(denominator: Tensor) -> Tensor:
    """This replica's part of the sum of a denominator over all replicas."""
    tracer = active_tracer()
    assert tracer is not None
    if tracer.options is not None and tracer.options.local:
        # A replica that takes steps of its own takes its rows for the whole.
        return denominator
    # Where a step does not wait for some replicas, the others stand for them, as they do in the sums of gradients.
    total = tracer.collective("all_reduce", [denominator], label="loss denominator", averaged=True)[0]
    return total * (global_batch.part or 0.0)


def _apply_mask(sample_weight: Tensor, mask: Tensor, dtype: DTypeLike, reduction: str | None) -> Tensor:
    """As Keras' function of that name; valid entries weigh as many as all entries by the valid ones of the global batch."""
    apply_mask, _ = _of_one_device[0]
    if global_batch.part is None or mask is None or reduction not in MEANS:
        return apply_mask(sample_weight, mask, dtype=dtype, reduction=reduction)
    mask = ops.cast(mask, dtype)
    total = ops.cast(ops.size(mask), dtype)
    weight = ops.divide_no_nan(total, _shared(ops.sum(mask)))
    return apply_mask(sample_weight, mask * weight, dtype=dtype, reduction="sum")


def _reduce_values(values: Tensor, sample_weight: Tensor = None, reduction: str | None = "sum_over_batch_size") -> Tensor:
    """As Keras' function of that name; a mean by sample weight divides by the weights of the global batch."""
    is_shared = global_batch.part is not None
    if is_shared and reduction == "mean_with_sample_weight" and sample_weight is not None and len(values.shape) > 0:
        return ops.divide_no_nan(ops.sum(values), _shared(ops.cast(ops.sum(sample_weight), values.dtype)))
    if is_shared and reduction == "sum" and not global_batch.in_compiled_loss:
        warn_of_a_sum()
    if is_shared and 0 in values.shape:
        # Keras gives an empty array here, which does not add up with the losses of other outputs.
        return ops.sum(values)
    _, reduce_values = _of_one_device[0]
    value = reduce_values(values, sample_weight, reduction)
    tracer = active_tracer()
    if is_shared or tracer is None or not (tracer.in_loss and tracer.in_replica and tracer.num_replicas > 1):
        return value
    is_mean = reduction in (*MEANS, "mean_with_sample_weight") and len(values.shape) > 0  # one number is left as it is
    return value / tracer.num_replicas if is_mean else value


def install() -> None:
    """Put both in the place of Keras' functions. Done once."""
    if not _of_one_device:
        _of_one_device.append((losses.apply_mask, losses.reduce_values))
        losses.apply_mask, losses.reduce_values = _apply_mask, _reduce_values
        loss_sums.install()
