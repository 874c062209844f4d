"""Numbers of half precision: their means are taken in float32.

The sum of numbers of float16, or of a float8, may be too large for them, though their mean is not. bfloat16 has the range of float32; there
it is digits that a sum would lose, as it has 8 of 24 bits.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from simdist.program.arrays import DTypeLike, HostArray

__all__ = ["is_half", "widened"]

AnyArray = TypeVar("AnyArray", jax.Array, HostArray)


def is_half(dtype: DTypeLike) -> bool:
    """Whether it is a floating dtype of 16 bits, or of fewer.

    Example:
        >>> [is_half(dtype) for dtype in ("float16", "bfloat16", "float32", "int16")]
        [True, True, False, False]
    """
    return bool(jnp.issubdtype(dtype, jnp.floating)) and jnp.dtype(dtype).itemsize <= 2


def widened(array: AnyArray) -> AnyArray:
    """Numbers of half precision in float32; others as they are.

    Example:
        >>> import numpy as np
        >>> [str(widened(np.ones(1, dtype)).dtype) for dtype in ("float16", "float32", "float64")]
        ['float32', 'float32', 'float64']
    """
    return array.astype(np.float32) if is_half(array.dtype) else array
