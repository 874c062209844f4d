"""Heads: what the logits of a canned Estimator mean: which loss they have, what is predicted of them, and what labels may be.

Labels are prepared on the host, in numpy; losses are those of JAX. The metrics of each head are in `metrics`, which loads Keras.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.arrays import HostArray, Tree

__all__ = ["BinaryHead", "Head", "MultiClassHead", "RegressionHead", "classification_head"]

Predictions = dict[str, Tree]


class Head(ABC):
    """What the logits of a model mean.

    Attributes:
        kind: which metrics it has.
    """

    kind: Literal["regression", "binary", "classes"]

    @property
    @abstractmethod
    def logits_dimension(self) -> int:
        """Logits of a row."""

    @abstractmethod
    def prepare_labels(self, labels: HostArray) -> HostArray:
        """Labels as the loss takes them, of shape (b, labels of a row).

        Raises:
            InvalidArgumentError: they cannot be labels of this head.
        """

    @abstractmethod
    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        """The loss of each label: shape (b, labels of a row)."""

    @abstractmethod
    def predictions(self, logits: jax.Array) -> Predictions:
        """What is predicted, by name."""

    def finished(self, predictions: Predictions) -> Predictions:
        """The predictions, with what only the host can make of them: words."""
        return predictions


@dataclass(frozen=True)
class RegressionHead(Head):
    """Numbers, with the squared error.

    Args:
        label_dimension: labels of a row.
    """

    label_dimension: int = 1
    kind = "regression"

    def __post_init__(self) -> None:
        whole_number(self.label_dimension, "label_dimension", 1)

    @property
    def logits_dimension(self) -> int:
        return self.label_dimension

    def prepare_labels(self, labels: HostArray) -> HostArray:
        array = _rows(labels, self.label_dimension)
        if array.dtype.kind not in "biuf":
            raise InvalidArgumentError(f"Labels have the dtype {array.dtype}; a regressor takes numbers.")
        return array.astype(np.float32)

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        return (logits - labels) ** 2

    def predictions(self, logits: jax.Array) -> Predictions:
        return {"predictions": logits}


@dataclass(frozen=True)
class ClassificationHead(Head):
    """Classes.

    Args:
        n_classes: how many.
        label_vocabulary: their names, in order; None: labels are numbers from 0.
    """

    n_classes: int
    label_vocabulary: tuple[str, ...] | None = None

    def prepare_labels(self, labels: HostArray) -> HostArray:
        array = _rows(labels, 1)
        if self.label_vocabulary is not None:
            return _numbers(array, self.label_vocabulary)
        if array.dtype.kind not in "biuf":
            raise InvalidArgumentError(f"Labels have the dtype {array.dtype}; give a label_vocabulary for words.")
        wrong = (array < 0) | (array >= self.n_classes) | (array != np.floor(array))
        if wrong.any():
            raise InvalidArgumentError(
                f"There is a label {array[wrong][0]}; with n_classes={self.n_classes} they are 0 to {self.n_classes - 1}."
            )
        return array.astype(np.int32)

    def finished(self, predictions: Predictions) -> Predictions:
        rows = len(predictions["class_ids"])
        names = np.array([str(number) for number in range(self.n_classes)] if self.label_vocabulary is None else self.label_vocabulary)
        everything = np.broadcast_to(np.arange(self.n_classes), (rows, self.n_classes))
        chosen = names[np.asarray(predictions["class_ids"])]
        return {**predictions, "classes": chosen, "all_class_ids": everything, "all_classes": names[everything]}


class BinaryHead(ClassificationHead):
    """Two classes, with one logit and the sigmoid cross-entropy."""

    kind = "binary"

    @property
    def logits_dimension(self) -> int:
        return 1

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        return jnp.logaddexp(logits, 0.0) - logits * labels  # its derivative at 0, where all weights begin, is right

    def predictions(self, logits: jax.Array) -> Predictions:
        logistic = jax.nn.sigmoid(logits)
        both = jax.nn.softmax(jnp.concatenate([jnp.zeros_like(logits), logits], axis=-1))
        return {"logits": logits, "logistic": logistic, "probabilities": both, "class_ids": (logits > 0).astype("int32")}


class MultiClassHead(ClassificationHead):
    """Several classes, with a logit for each and the softmax cross-entropy."""

    kind = "classes"

    @property
    def logits_dimension(self) -> int:
        return self.n_classes

    def losses(self, labels: jax.Array, logits: jax.Array) -> jax.Array:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels, axis=-1)

    def predictions(self, logits: jax.Array) -> Predictions:
        chosen = jnp.argmax(logits, axis=-1, keepdims=True).astype("int32")
        return {"logits": logits, "probabilities": jax.nn.softmax(logits), "class_ids": chosen}


def classification_head(n_classes: int, label_vocabulary: Sequence[str | bytes] | None) -> ClassificationHead:
    """The head for so many classes.

    Raises:
        InvalidArgumentError: fewer than two, or another number of names.
        TypeError: n_classes is no integer, or the names are no list.
    """
    count = whole_number(n_classes, "n_classes", 2)
    if isinstance(label_vocabulary, str):
        raise TypeError(f"label_vocabulary is {label_vocabulary!r:.200}; expected a list of names, such as ['no', 'yes']")
    names = None if label_vocabulary is None else tuple(name.decode() if isinstance(name, bytes) else name for name in label_vocabulary)
    if names is not None and (len(names) != count or len(set(names)) != count):
        raise InvalidArgumentError(f"label_vocabulary={list(names)!r}; expected {count} different names, as n_classes={count}.")
    return BinaryHead(count, names) if count == 2 else MultiClassHead(count, names)


def _rows(labels: HostArray, dimension: int) -> HostArray:
    array = np.asarray(labels)
    if array.ndim == 0 or (array.ndim == 1 and dimension > 1) or array.ndim > 2 or (array.ndim == 2 and array.shape[1] != dimension):
        raise InvalidArgumentError(f"Labels have shape {array.shape}; expected (b, {dimension}){' or (b,)' if dimension == 1 else ''}.")
    return array.reshape(len(array), dimension)


def _numbers(labels: HostArray, vocabulary: tuple[str, ...]) -> HostArray:
    words = np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels
    known = {word: number for number, word in enumerate(vocabulary)}
    for word in np.unique(words).tolist():
        if word not in known:
            raise InvalidArgumentError(f"There is a label {word!r}, which is not in the label_vocabulary: {list(vocabulary)!r}.")
    return np.vectorize(known.__getitem__, otypes=[np.int32])(words)
