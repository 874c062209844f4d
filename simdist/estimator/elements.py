"""An element of the input, as a model_fn takes it: features and labels, and how many rows they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from simdist.errors import InvalidArgumentError
from simdist.estimator.specs import ModeKeys
from simdist.program.arrays import Tree

__all__ = ["features_and_labels", "rows_of"]


def features_and_labels(element: Tree, mode: ModeKeys) -> tuple[Tree, Tree]:
    """The features and the labels, which are None where there are none, and in PREDICT.

    Raises:
        InvalidArgumentError: the element is a tuple of another number of parts.
    """
    if not isinstance(element, tuple):
        return element, None
    parts: Sequence[Any] = element
    if len(parts) != 2 and not (mode is ModeKeys.PREDICT and parts):
        raise InvalidArgumentError(f"input_fn gives tuples of {len(parts)} parts; expected pairs (features, labels), or features alone.")
    return parts[0], None if mode is ModeKeys.PREDICT else parts[1]


def rows_of(element: Tree, mode: ModeKeys) -> int | None:
    """How many rows an element has: the first axis of its labels, or of its features where it has none; None where they do not agree.

    Args:
        element: of arrays; those without an axis say nothing.
        mode: in which it is used.

    Example:
        >>> import numpy as np
        >>> rows_of(({"classes": np.ones(3), "x": np.ones((2, 5))}, np.ones(2)), ModeKeys.TRAIN)
        2
    """
    features, labels = features_and_labels(element, mode)
    for part in (labels, features):
        counts = {int(leaf.shape[0]) for leaf in jax.tree_util.tree_leaves(part) if leaf.ndim}
        if counts:
            return counts.pop() if len(counts) == 1 else None
    return None
