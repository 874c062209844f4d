"""What may be said of speed and order, where the order is always kept: it changes nothing here, but it has to make sense.

Taught in lesson 08.
"""

from __future__ import annotations

from simdist.arguments import optional_flag, whole_number
from simdist.errors import InvalidArgumentError

__all__ = ["AUTOTUNE", "require_hints"]

AUTOTUNE = -1  # a buffer size or a degree of parallelism that is left to the engine


def require_hints(num_parallel_calls: int | None, deterministic: bool | None) -> None:
    """Refuse hints without sense.

    Raises:
        InvalidArgumentError: no calls at once.
        TypeError: no number, or no boolean.

    Example:
        >>> require_hints(AUTOTUNE, deterministic=False)
    """
    if num_parallel_calls is not None and whole_number(num_parallel_calls, "num_parallel_calls", AUTOTUNE) == 0:
        raise InvalidArgumentError("num_parallel_calls is 0; expected 1 or more, or AUTOTUNE (-1)")
    optional_flag(deterministic, "deterministic")
