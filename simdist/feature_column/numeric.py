"""`numeric_column`: a feature that is numbers already; `bucketized_column`: in which of some intervals each of them lies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from simdist.arguments import number, whole_number
from simdist.errors import InvalidArgumentError
from simdist.feature_column.base import CategoricalColumn, DenseColumn, feature_of, require_key
from simdist.program.arrays import HostArray

__all__ = ["BucketizedColumn", "Normalizer", "NumericColumn", "bucketized_column", "numeric_column"]

Normalizer: TypeAlias = Callable[[HostArray], Any]
"""Called with the feature, an array of numpy of shape (b, ...); returns another of this shape."""


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """Numbers; see `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: float | tuple[float, ...] | None
    dtype: str
    normalizer_fn: Normalizer | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def width(self) -> int:
        return math.prod(self.shape)

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        return self.values(features).astype(np.float32)

    def values(self, features: Mapping[str, HostArray]) -> HostArray:
        """The numbers, normalized, in the dtype that this has given them: shape (b, width)."""
        array = self._array(features)
        if self.normalizer_fn is not None:
            before, array = array.shape, np.asarray(self.normalizer_fn(array))
            if array.shape != before:
                raise InvalidArgumentError(
                    f"The normalizer_fn of {self.key!r} made shape {array.shape} of {before}; it must keep the shape."
                )
        return array.reshape(len(array), self.width)

    def _array(self, features: Mapping[str, HostArray]) -> HostArray:
        if self.default_value is not None and self.key not in features and features:
            rows = len(feature_of(features, next(iter(features))))
            value = np.asarray(self.default_value, self.dtype)
            return np.broadcast_to(value.reshape(self.shape if value.ndim else ()), (rows, *self.shape))
        array = feature_of(features, self.key)
        if array.dtype.kind not in "biuf":
            raise InvalidArgumentError(f"The feature {self.key!r} has the dtype {array.dtype}; a numeric_column takes numbers.")
        if array.shape[1:] != self.shape and not (array.ndim == 1 and self.width == 1):
            raise InvalidArgumentError(
                f"The feature {self.key!r} has rows of shape {array.shape[1:]}, and its numeric_column says shape={self.shape}. Say "
                f"shape={array.shape[1:]}."
            )
        array = array.reshape((len(array), *self.shape))
        return array.astype(self.dtype) if array.dtype.kind == "b" else array


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Intervals; see `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def num_buckets(self) -> int:
        return (len(self.boundaries) + 1) * self.source_column.width

    @property
    def width(self) -> int:
        return self.num_buckets

    def prepare(self, features: Mapping[str, HostArray]) -> HostArray:
        values = self.source_column.values(features)
        # As numbers of the values' dtype, so that a boundary is in the interval that begins with it.
        boundaries = np.asarray(self.boundaries, values.dtype if values.dtype.kind == "f" else np.float64)
        intervals = np.searchsorted(boundaries, values, side="right")
        return (intervals + (len(self.boundaries) + 1) * np.arange(self.source_column.width)).astype(np.int32)


def numeric_column(
    key: str,
    shape: int | Sequence[int] = (1,),
    default_value: float | Sequence[Any] | HostArray | None = None,
    dtype: Any = "float32",
    normalizer_fn: Normalizer | None = None,
) -> NumericColumn:
    """A feature of numbers.

    Args:
        key: its name in the features.
        shape: of a row; (1,) also takes features of shape (b,).
        default_value: of all rows of a batch that lacks the feature; a number, or one for each of a row, flat or in its
            shape. Default: it must be there.
        dtype: of the default value, and of features that are True or False; a float or integer. It changes no other feature.
        normalizer_fn: applied to the feature as it is, an array of numpy of shape (b, ...); what it returns becomes float32.

    Raises:
        TypeError: key is no text, or normalizer_fn no function.
        InvalidArgumentError: a shape that cannot be, another number of default values, some that are no numbers of the dtype, or a dtype
            of something else than numbers.

    Example:
        >>> import numpy as np
        >>> column = numeric_column("age", normalizer_fn=lambda age: age / 100)
        >>> column.prepare({"age": np.array([20.0, 50.0])}).tolist()
        [[0.20000000298023224], [0.5]]
    """
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn is {normalizer_fn!r}; expected a function of an array")
    whole = tuple(whole_number(size, "shape", 1) for size in np.asarray(shape, object).ravel().tolist())
    own = _dtype_of_numbers(dtype)
    default: float | tuple[float, ...] | None = None
    if isinstance(default_value, (Sequence, np.ndarray)):
        default = tuple(number(value, "default_value", -math.inf) for value in np.asarray(default_value, object).ravel().tolist())
        if len(default) != math.prod(whole):
            raise InvalidArgumentError(f"default_value has {len(default)} numbers, and a row of shape {whole} has {math.prod(whole)}.")
    elif default_value is not None:
        default = number(default_value, "default_value", -math.inf)
    if default is not None and own.kind in "iu" and any(value % 1 for value in np.atleast_1d(default)):
        raise InvalidArgumentError(f"default_value={default_value!r} is no {own.name}, as dtype= says. Give whole numbers.")
    return NumericColumn(require_key(key), whole, default, own.name, normalizer_fn)


def _dtype_of_numbers(given: object) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] | None = np.dtype(given)  # pyright: ignore[reportArgumentType, reportCallIssue]
    except TypeError:
        dtype = None
    if dtype is None or dtype.kind not in "iuf":
        raise InvalidArgumentError(f"dtype={given!r}; expected one of numbers, such as 'float32'.")
    return dtype


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """In which interval each number of a column lies: below the first boundary, ..., from the last boundary on.

    Args:
        source_column: a `numeric_column` with rows of one axis.
        boundaries: ascending.

    Raises:
        TypeError: another kind of column.
        InvalidArgumentError: no boundaries, not ascending, or rows of several axes.

    Example:
        >>> import numpy as np
        >>> column = bucketized_column(numeric_column("year"), [1960, 1980])
        >>> column.prepare({"year": np.array([1950, 1960, 2000])}).tolist()
        [[0], [1], [2]]
    """
    if not isinstance(source_column, NumericColumn):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"source_column is {source_column!r}; expected a numeric_column")
    if len(source_column.shape) != 1:
        raise InvalidArgumentError(f"The column {source_column.name!r} has rows of shape {source_column.shape}; expected one axis.")
    numbers = tuple(number(value, "boundaries", -math.inf) for value in boundaries)
    if not numbers or any(low >= high for low, high in pairwise(numbers)):
        raise InvalidArgumentError(f"boundaries={list(boundaries)!r}; expected at least one number, and ascending ones.")
    return BucketizedColumn(source_column, numbers)
