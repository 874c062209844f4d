"""What becomes of the indices of a sample: themselves, one row of a matrix for each, or one row that counts them.

Indices have l leading axes (rows of a dataset that are looked up together) and then the axes of one sample. `DROPPED` leaves no trace.

Taught in lesson 06.
"""

from __future__ import annotations

from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.arguments import known_word
from simdist.data.leaves import Array
from simdist.lookup.values import is_traced
from simdist.program.narrowing import kept_dtype

__all__ = ["DROPPED", "OUTPUT_MODES", "counted_rows", "encoded", "known_mode"]

DROPPED = -1
OUTPUT_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")
OLD_NAMES = {"binary": "multi_hot", "tf-idf": "tf_idf"}


def known_mode(given: object) -> str:
    """The output mode of a word, which may be one of Keras' older ones.

    Raises:
        InvalidArgumentError: no such word.

    Example:
        >>> known_mode("binary")
        'multi_hot'
    """
    old = OLD_NAMES.get(given) if isinstance(given, str) else None
    return old or known_word(given, "output_mode", OUTPUT_MODES)


def encoded(indices: Any, mode: str, depth: int, weights: Array | None, lead: int = 0) -> Any:
    """Indices in an output mode.

    Args:
        indices: integers of shape [..., k], of numpy or of a step.
        mode: one of `OUTPUT_MODES`.
        depth: length of a row of the result.
        weights: float32 of shape [depth], for "tf_idf".
        lead: number of axes that are no part of a sample.

    Returns:
        For "int" the indices. For all others [..., depth], a sample without axes counting as one of shape [1]; but for "one_hot"
        [..., k, depth], where a last axis of length 1 goes if it is not the only one of the sample: from samples of shape [] and [1]
        come [1, depth], from those of shape [n, 1] [n, depth].
    """
    if mode == "int":
        return indices
    indices = indices[..., None] if indices.ndim == lead else indices
    if mode == "one_hot" and indices.ndim > lead + 1 and indices.shape[-1] == 1:
        indices = indices[..., 0]
    xp: Any = jnp if is_traced(indices) else np
    if mode == "one_hot":
        return (indices[..., None] == xp.arange(depth)).astype(kept_dtype("int64"))
    if is_traced(indices):
        counts = (indices[..., None] == jnp.arange(depth)).sum(-2)
    else:
        rows = indices.reshape(prod(indices.shape[:-1]), indices.shape[-1])  # a sample may be empty
        owners = np.repeat(np.arange(len(rows)), rows.shape[1])
        counts = counted_rows(owners, rows.ravel(), len(rows), depth).reshape(*indices.shape[:-1], depth)
    return weighted(counts, mode, weights)


def counted_rows(rows: Array, indices: Array, num_rows: int, depth: int) -> Array:
    """How often each index occurs in each row: int64 of shape [num_rows, depth].

    Args:
        rows: the row of each index.
        indices: below `depth`, or `DROPPED`.
        num_rows, depth: the shape of the result.
    """
    kept = indices != DROPPED
    flat = rows[kept] * depth + indices[kept]
    return np.bincount(flat, minlength=num_rows * depth).reshape(num_rows, depth)


def weighted(counts: Any, mode: str, weights: Array | None) -> Any:
    """Counts in one of the modes of whole samples."""
    if mode == "multi_hot":
        return (counts > 0).astype(kept_dtype("int64"))
    if mode == "count":
        return counts.astype(kept_dtype("int64"))
    assert weights is not None
    return counts.astype(np.float32) * weights
