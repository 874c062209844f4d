"""The first value of a Keras variable is computed on this machine, whatever devices are simulated: what it cannot hold is refused.

XLA ends the whole process where a CPU has not enough memory for an array that is read, and with it the notebook.
"""

from __future__ import annotations

import math
import os

import jax
import jax.numpy as jnp

from simdist.errors import ResourceExhaustedError
from simdist.hardware.memory import readable

__all__ = ["require_room"]


def require_room(name: str, shape: tuple[int, ...], dtype: str) -> None:
    """Raise where the memory of this machine is smaller than one array.

    Raises:
        ResourceExhaustedError: it is.
    """
    size_bytes, memory_bytes = math.prod(shape) * jnp.dtype(dtype).itemsize, _memory_bytes()
    if memory_bytes is not None and size_bytes > memory_bytes and jax.default_backend() == "cpu":
        raise ResourceExhaustedError(
            f"{name} of shape {shape} needs {readable(size_bytes)} for its first value, and this machine has {readable(memory_bytes)} of "
            'memory. First values are computed here, also with numerics="off". Make it smaller.'
        )


def _memory_bytes() -> int | None:
    """The memory of this machine; None where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
