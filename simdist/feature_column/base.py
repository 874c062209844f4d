"""The idea of a feature column: which features of a batch a model takes, and as what.

A column prepares a batch on the host, in numpy, so that words can be looked up: it gives floats of shape (b, width), or numbers of
categories of shape (b, k), -1 where there is none. What is learned about categories (weights, embeddings) is up to the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.program.arrays import HostArray

__all__ = ["CategoricalColumn", "DenseColumn", "FeatureColumn", "feature_of", "require_key"]


class FeatureColumn(ABC):
    """A column; see its two kinds."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What the column is called; no two of a model have the same."""

    @abstractmethod
    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        """What the column makes of a batch.

        Args:
            features: arrays of shape (b, ...), by name.

        Raises:
            InvalidArgumentError: its feature is missing, or cannot be what the column says.
        """


class DenseColumn(FeatureColumn):
    """A column of floats."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Floats of a row."""


class CategoricalColumn(FeatureColumn):
    """A column of categories, which are numbers from 0."""

    @property
    @abstractmethod
    def num_buckets(self) -> int:
        """How many categories there are."""

    def counts(self, features: Mapping[str, HostArray]) -> HostArray:
        """How often each row has each category: floats of shape (b, num_buckets)."""
        ids = self.prepare(features)
        found = np.zeros((len(ids), self.num_buckets + 1), np.float32)  # the last one counts what is no category
        np.add.at(found, (np.arange(len(ids))[:, None], ids), 1.0)
        return found[:, :-1]


def feature_of(features: Mapping[str, HostArray], key: str) -> HostArray:
    """One of the features.

    Raises:
        InvalidArgumentError: there is no such feature.
    """
    if not isinstance(cast("object", features), Mapping):
        raise InvalidArgumentError(
            f"A feature column takes the feature {key!r} of a dict of features, and input_fn gave {type(features).__name__}. Let it give "
            f"({{{key!r}: array}}, labels)."
        )
    if key not in features:
        raise InvalidArgumentError(f"The features have no {key!r}, which a feature column takes. {did_you_mean(key, features)}")
    array = np.asarray(features[key])
    if not array.ndim:
        raise InvalidArgumentError(f"The feature {key!r} is a single value; expected one for each row. Call dataset.batch(n) in input_fn.")
    return array


def require_key(key: Any) -> str:
    """The name of a feature.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(key, str):
        raise TypeError(f"key is {key!r}; expected the name of a feature")
    return key
