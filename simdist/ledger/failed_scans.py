"""Scans that fail: what no program of a user can cause is said, once in a process.

What a scan cannot compute is computed call by call, with the same numbers. That is as it should be where a callback of a step raises or
memory is full: the calls say where in the run it happened. Anything else is an error in how scans are put together, and nobody would
hear of it but by the clock.
"""

from __future__ import annotations

import re
import warnings

from jax.errors import JaxRuntimeError

__all__ = ["warn_of_defect"]

# Of callbacks in kernels and of the machine's memory; of a program that is too deep, or has something that this platform lacks.
OF_USERS = (JaxRuntimeError, MemoryError, RecursionError, NotImplementedError)
# A program that is given what another one has promised, and could not compute, raises the error of that one as a ValueError.
OF_A_PROMISE = re.compile("[A-Z_]+: ")

_warned: list[type[Exception]] = []


def warn_of_defect(error: Exception, num_entries: int) -> None:
    """Warn that a scan has failed by an error of our own; not again in this process.

    Args:
        error: with which it failed; one of `OF_USERS`, or of a promise, is none of ours.
        num_entries: how many calls it should have computed.
    """
    if _warned or isinstance(error, OF_USERS) or (isinstance(error, ValueError) and OF_A_PROMISE.match(str(error))):
        return
    warnings.warn(
        f"{num_entries} steps could not be computed in one scan ({type(error).__name__}: {error}), which is a defect of simdist: please "
        "report it. They are computed one by one, with the same numbers, which takes longer.",
        RuntimeWarning,
        stacklevel=2,
    )
    _warned.append(type(error))
