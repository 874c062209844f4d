"""Batches that code of the user makes, as a pipeline takes them: tuples of numpy arrays, in nested tuples and dicts.

Generators, `keras.utils.PyDataset`, loaders and tf.data give arrays of their library, in lists as well as tuples. What has
no rows that can be shared among replicas is refused: sparse and ragged tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import jax
import keras
import numpy as np
from keras.src.trainers.data_adapters import data_adapter_utils as adapters

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import Array, Tree
from simdist.training.keras_model import Examples, Tensor

__all__ = ["arrays_of", "checked_classes", "refuse_sparse", "standard_batch", "weighted_by_class", "written_out"]

TO_DENSE = {
    "scipy": "x.toarray()",
    "jax": "x.todense()",
    "tensorflow": "tf.sparse.to_dense(x), or x.to_tensor() of a ragged one",
}


def standard_batch(value: Examples, kind: str, *, lone: bool = False) -> Tree:
    """A batch as a tuple (x,), (x, y) or (x, y, sample_weight) of arrays.

    Args:
        value: what the user's code gave.
        kind: the noun for what gave it, for messages.
        lone: whether an array or a dict stands for an x alone.

    Raises:
        InvalidArgumentError: it is nested otherwise, or holds what is no dense array.

    Example:
        >>> standard_batch([[[1.0, 2.0]], np.ones(1)], "a generator")
        (array([[1., 2.]]), array([1.]))
    """
    if lone and not isinstance(value, (tuple, list)):
        value = (value,)
    if not isinstance(value, (tuple, list)) or len(cast(list[Tree], value)) not in (1, 2, 3):
        raise InvalidArgumentError(
            f"{kind} gave a batch of type {type(cast(object, value)).__name__}{_length(value)}; expected a tuple (x,), (x, y) or "
            "(x, y, sample_weight). Put several inputs into one tuple or dict: ((first, second), y)."
        )
    return arrays_of(tuple(cast(list[Tree], value)), kind)


def arrays_of(value: Tree, kind: str) -> Tree:
    """The same structure with arrays of numpy, and tuples in place of lists."""

    def converted(leaf: Tensor) -> Array:
        refuse_sparse(leaf, kind)
        # A tensor of torch may need gradients or lie on a device; numpy can read neither.
        return np.asarray(leaf.detach().cpu() if adapters.is_torch_tensor(leaf) else leaf)

    parts = tuple(map(written_out, value)) if isinstance(value, tuple) else value
    return keras.tree.lists_to_tuples(jax.tree_util.tree_map(converted, parts, is_leaf=is_sparse))


def is_sparse(leaf: Tensor) -> bool:
    """Whether an object is a sparse or ragged tensor of scipy, JAX or TensorFlow."""
    checks: tuple[Callable[[Tensor], bool], ...] = (
        adapters.is_scipy_sparse,
        adapters.is_jax_sparse,
        adapters.is_tensorflow_sparse,
        adapters.is_tensorflow_ragged,
    )
    return any(check(leaf) for check in checks)


def refuse_sparse(leaf: Tensor, kind: str) -> None:
    """Refuse a tensor that is not dense.

    Raises:
        InvalidArgumentError: it is sparse or ragged.
    """
    if is_sparse(leaf):
        library = type(leaf).__module__.split(".")[0]
        raise InvalidArgumentError(
            f"{kind}: a {type(leaf).__name__} of {library} is not dense; steps under a strategy take dense arrays. "
            f"Convert it: {TO_DENSE[library]}."
        )


def written_out(part: Examples) -> Examples:
    """A list of numbers, also of those of numpy, is an array; a list of arrays is several.

    Raises:
        InvalidArgumentError: a list of rows of different lengths.
    """
    if not isinstance(part, (list, tuple)):
        return part
    leaves = keras.tree.flatten(part)
    if not leaves or not all(map(_is_number, leaves)):
        return cast(Examples, part)
    try:
        return np.asarray(part)
    except ValueError as error:
        raise InvalidArgumentError(f"A list could not become one array: {error}. Expected rows of equal length.") from error


def _is_number(leaf: object) -> bool:
    """Whether it is one number, which has no rows of its own; a number of numpy or JAX may be an array without axes."""
    if isinstance(leaf, (bool, int, float, complex, np.number, np.bool_)):
        return True
    return isinstance(leaf, (np.ndarray, jax.Array)) and leaf.ndim == 0


def checked_classes(class_weight: Tree) -> dict[int, float] | None:
    """The weights of classes.

    Raises:
        InvalidArgumentError: they are no dictionary.
    """
    if isinstance(class_weight, (dict, type(None))):
        return cast("dict[int, float] | None", class_weight)
    raise InvalidArgumentError(f"class_weight={class_weight!r} is no dictionary; expected a weight for each class: {{0: 1.0, 1: 5.0}}.")


def weighted_by_class(batch: Tree, class_weight: dict[int, float] | None) -> Tree:
    """A batch (x, y), with the weight of each row's class.

    Raises:
        InvalidArgumentError: it has weights of its own, or several targets.

    Example:
        >>> weighted_by_class((np.zeros((2, 1)), np.array([0, 1])), {1: 5.0})[2]
        array([1., 5.], dtype=float32)
    """
    if class_weight is None or len(batch) == 1:
        return batch
    if len(batch) == 3:
        raise InvalidArgumentError("class_weight was given, but the batches hold a sample_weight already. Leave one of them out.")
    x, y = batch
    if keras.tree.is_nested(y):
        raise InvalidArgumentError("class_weight was given, but there are several targets. Make weights a third component for each.")
    return x, y, adapters.class_weight_to_sample_weights(y, class_weight)


def _length(value: Tree) -> str:
    return f" with {len(cast(list[Tree], value))} parts" if isinstance(value, (tuple, list)) else ""
