"""`check_numerics`: stop at the first value that is not finite."""

from __future__ import annotations

from typing import TypeVar

import jax.numpy as jnp
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.program.arrays import ArrayLike
from simdist.program.markers import CheckMarker
from simdist.program.narrowing import numbers_for_jax
from simdist.program.tracing import active_tracer

__all__ = ["check_numerics"]

Checked = TypeVar("Checked", bound=ArrayLike)


def check_numerics(value: Checked, message: str) -> Checked:
    """The value itself, if all of it is finite. In a step, an observation point: the numbers are computed up to here.

    Args:
        value: array (p...) of any shape.
        message: the name of the value, for the error.

    Raises:
        InvalidArgumentError: a NaN or an Inf; in a step, it is the closure's error.

    Example:
        >>> float(check_numerics(1.0, "loss"))
        1.0
    """
    tracer, given = active_tracer(), numbers_for_jax(value, "check_numerics")
    if tracer is not None:
        tracer.mark(CheckMarker(message), [jnp.asarray(given)], [])
    elif not np.isfinite(np.asarray(given)).all():
        raise InvalidArgumentError(f"{message}: a value is NaN or Inf. Lower the learning rate, clip the gradients, or look at the input.")
    return value
