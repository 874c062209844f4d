"""Predictions as users get them: those that were asked for, whole or row by row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import jax
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Tree

__all__ = ["chosen", "examples"]


def chosen(predictions: Tree, keys: str | Sequence[str] | None) -> Tree:
    """Those of a dict that were asked for.

    Args:
        predictions: of one batch.
        keys: None, or an empty list, for all.

    Raises:
        InvalidArgumentError: there are no such predictions, or they have no names.

    Example:
        >>> chosen({"a": 1, "b": 2}, "b")
        {'b': 2}
    """
    if not keys:
        return predictions
    wanted = [keys] if isinstance(keys, str) else list(keys)
    known = cast("dict[str, Tree]", predictions) if isinstance(predictions, dict) else {}
    if not set(wanted) <= set(known):
        raise InvalidArgumentError(f"predict_keys={keys!r}, but model_fn predicts {list(known) or 'an array without a name'!r}.")
    return {key: known[key] for key in wanted}


def examples(predictions: Tree) -> Iterator[Tree]:
    """The rows of a batch of predictions.

    Args:
        predictions: arrays of shape (b, ...).

    Raises:
        InvalidArgumentError: they have different numbers of rows.

    Example:
        >>> list(examples({"a": np.array([1, 2])}))
        [{'a': np.int64(1)}, {'a': np.int64(2)}]
    """
    leaves, structure = jax.tree_util.tree_flatten(predictions)
    counts = {len(leaf) if np.ndim(leaf) else -1 for leaf in leaves}
    if len(counts) != 1 or -1 in counts:
        raise InvalidArgumentError(
            f"Predictions have different numbers of rows: {[np.shape(leaf) for leaf in leaves]}. For whole batches pass "
            "yield_single_examples=False."
        )
    for row in range(counts.pop()):
        yield jax.tree_util.tree_unflatten(structure, [leaf[row] for leaf in leaves])
