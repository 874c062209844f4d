"""How fast a pipeline makes its elements, in virtual time: the input side of a worker as a producer with a buffer.

A pipeline works on one element after the other and stops when its buffer is full. So element k is ready when the pipeline has
worked for `seconds` on it, which it begins when element k - 1 is ready and element k - buffer has been taken. Where that is
later than the moment when a step wants it, the job is bound by its input, and the step waits.

Taught in lesson 02.
"""

from __future__ import annotations

from simdist.errors import InvalidArgumentError

__all__ = ["Pace"]


class Pace:
    """The times of one pipeline.

    Args:
        seconds: that the pipeline works on one element; 0: elements cost nothing.
        buffer: elements that may lie ready; 0: work begins when somebody asks.
        began_s: when the pipeline started.

    Raises:
        InvalidArgumentError: a negative number.

    Example:
        >>> pace = Pace(seconds=2.0, buffer=1)
        >>> pace.take(0.0), pace.take(5.0), pace.take(5.0)
        (2.0, 5.0, 7.0)
    """

    def __init__(self, seconds: float, buffer: int, began_s: float = 0.0) -> None:
        if seconds < 0 or buffer < 0:
            raise InvalidArgumentError(f"A pipeline works {seconds} s on an element and keeps {buffer} ready; both must be 0 or more.")
        self.seconds = seconds
        self.buffer = buffer
        self._ready_s = began_s
        self._taken_s: list[float] = [began_s] * buffer

    def take(self, now_s: float) -> float:
        """When the next element, wanted now, is there."""
        if not self.seconds:
            return now_s
        free_s = self._taken_s.pop(0) if self.buffer else now_s
        self._ready_s = max(self._ready_s, free_s) + self.seconds
        taken_s = max(now_s, self._ready_s)
        self._taken_s.append(taken_s)
        if not self.buffer:
            self._taken_s.clear()
        return taken_s
