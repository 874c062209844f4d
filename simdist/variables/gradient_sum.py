"""The sum of the replicas' gradients: packed, so that few large messages travel instead of many small ones.

Gradients are packed in reverse order, because those of the last layers are known first: their pack can travel while the
others are still being computed.

Source: Li et al., PyTorch Distributed: Experiences on Accelerating Data Parallel Training, 2020, section 3.2 (buckets).

Taught in lesson 03.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from simdist.collectives.packing import group_by_size, split_in_packs
from simdist.program.tracing import Tracer
from simdist.program.values import aval_of

__all__ = ["summed_over_replicas"]


def summed_over_replicas(tracer: Tracer, gradients: Sequence[Any]) -> list[Any]:
    """The sums of gradients over all replicas of the step that is being traced.

    Args:
        tracer: of the step; its options say how gradients are packed.
        gradients: of this replica, in the order of the variables.
    """
    options = tracer.options
    if getattr(options, "num_packs", 1) > 1:
        return _in_equal_packs(tracer, gradients, options.num_packs)
    numbers = list(reversed(range(len(gradients))))
    sizes = [aval_of(gradients[number]).size_bytes for number in numbers]
    sums: list[Any] = list(gradients)
    limit = getattr(options, "bytes_per_pack", 0)
    start = 0
    for pack in group_by_size(sizes, limit) if sizes else []:
        chosen = numbers[start : start + len(pack)]
        start += len(pack)
        totals = tracer.collective("all_reduce", [gradients[number] for number in chosen], label="gradients")
        for number, total in zip(chosen, totals, strict=True):
            sums[number] = total
    return sums


def _in_equal_packs(tracer: Tracer, gradients: Sequence[Any], num_packs: int) -> list[Any]:
    """All gradients end to end, cut into equal parts."""
    flat = jnp.concatenate([gradient.reshape(-1) for gradient in gradients])
    edges = split_in_packs(flat.size, num_packs)
    parts: list[Any] = []
    start = 0
    for length in edges:
        parts += tracer.collective("all_reduce", [flat[start : start + length]], label="gradients")
        start += length
    total, start = jnp.concatenate(parts), 0
    sums: list[Any] = []
    for gradient in gradients:
        sums.append(total[start : start + gradient.size].reshape(gradient.shape).astype(gradient.dtype))
        start += gradient.size
    return sums
