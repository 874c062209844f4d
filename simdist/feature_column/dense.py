"""Floats of categories: `indicator_column` counts them, `embedding_column` learns a vector for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from simdist.arguments import flag, known_word, whole_number
from simdist.errors import InvalidArgumentError
from simdist.feature_column.base import CategoricalColumn, DenseColumn
from simdist.program.arrays import HostArray
from simdist.variables.sparse_embedding import COMBINERS

__all__ = ["EmbeddingColumn", "IndicatorColumn", "Initializer", "embedding_column", "indicator_column"]

Initializer: TypeAlias = Any
"""What Keras takes for an initializer: one of its own, or its name."""


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn):
    """Counts; see `indicator_column`."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def width(self) -> int:
        return self.categorical_column.num_buckets

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        return self.categorical_column.counts(features)


@dataclass(frozen=True)
class EmbeddingColumn(DenseColumn):
    """Vectors; see `embedding_column`. It prepares the numbers of the categories, for which the model keeps a table."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Initializer
    trainable: bool

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    @property
    def width(self) -> int:
        return self.dimension

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        return self.categorical_column.prepare(features)


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """How often a row has each category, as floats.

    Raises:
        TypeError: another kind of column.

    Example:
        >>> import numpy as np
        >>> from simdist.feature_column import categorical_column_with_identity
        >>> column = indicator_column(categorical_column_with_identity("day", 3))
        >>> column.prepare({"day": np.array([[0, 2], [1, 1]])}).tolist()
        [[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]]
    """
    return IndicatorColumn(_categorical(categorical_column))


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Initializer = None,
    ckpt_to_load_from: None = None,
    tensor_name_in_ckpt: None = None,
    max_norm: None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """A vector for each category, which is learned; of several categories of a row, their mean or sum.

    Args:
        categorical_column: the categories.
        dimension: floats of a vector.
        combiner: "mean", "sum", or "sqrtn": the sum, divided by the root of their number.
        initializer: of the table, as Keras takes one; default a truncated normal one with the deviation 1 / sqrt(dimension).
        trainable: whether the vectors change.
        ckpt_to_load_from, tensor_name_in_ckpt, max_norm: to be left out.
        use_safe_embedding_lookup: only True: a row without categories gets zeros.

    Raises:
        TypeError: another kind of column, or a dimension that is no integer.
        InvalidArgumentError: a dimension below 1, an unknown combiner, or an option that must be left out.

    Example:
        >>> from simdist.feature_column import categorical_column_with_identity
        >>> column = embedding_column(categorical_column_with_identity("day", 7), dimension=2)
        >>> column.name, column.width
        ('day_embedding', 2)
    """
    for name, value in (("ckpt_to_load_from", ckpt_to_load_from), ("tensor_name_in_ckpt", tensor_name_in_ckpt), ("max_norm", max_norm)):
        if value is not None:
            raise InvalidArgumentError(f"{name}={value!r} is not known to embedding_column here. Leave it out.")
    combiner = known_word(combiner, "combiner", COMBINERS)
    if not flag(use_safe_embedding_lookup, "use_safe_embedding_lookup"):
        raise InvalidArgumentError("use_safe_embedding_lookup=False is not known here: rows without categories get zeros. Leave it out.")
    size = whole_number(dimension, "dimension", 1)
    return EmbeddingColumn(_categorical(categorical_column), size, combiner, initializer, flag(trainable, "trainable"))


def _categorical(column: object) -> CategoricalColumn:
    if not isinstance(column, CategoricalColumn):
        raise TypeError(f"categorical_column is {column!r}; expected a column of categories, such as categorical_column_with_identity(...)")
    return column
