"""Arrays that came as bytes, as those of JAX."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from simdist.program.arrays import jax_array
from simdist.program.values import Bundle

__all__ = ["bundle_of", "jax_arrays"]


def jax_arrays(arrays: Iterable[Any]) -> tuple[Any, ...]:
    """Arrays of JAX with the same bits, also while a step is traced; those of a dtype that JAX would narrow stay NumPy's."""
    with jax.ensure_compile_time_eval():
        # Copies: one array would keep the memory of its whole message.
        return tuple([array if _is_narrowed(array) else jax_array(np.array(array)) for array in arrays])


def bundle_of(arrays: Iterable[Any]) -> Bundle:
    """The bundle of arrays that came as bytes."""
    return Bundle.of(jax_arrays(arrays))


def _is_narrowed(array: Any) -> bool:
    return jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype
