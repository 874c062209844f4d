"""How fast a worker's pipeline makes its elements, in virtual time: a producer that fills a prefetch buffer.

A pipeline works on one element after the other and stops when its buffer is full. So element k is ready when the pipeline has
worked for `seconds` on it, which it begins when element k - 1 is ready and element k - buffer has been taken. Where that is
later than the moment when a step wants it, the job is bound by its input, and the step waits.

Taught in lesson 08.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.errors import InvalidArgumentError

__all__ = ["Pace", "PrefetchBuffer"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the pipeline of one worker is.

    Args:
        seconds: virtual seconds that it works on one delivery: what it gives to all its replicas together.
        buffer: deliveries that it keeps ready; 0 where nothing was said.
    """

    seconds: float = 0.0
    buffer: int = 0


class PrefetchBuffer:
    """The times at which the elements of one pipeline are there.

    Args:
        seconds: that the pipeline works on one element; 0: elements cost nothing.
        buffer: elements that may lie ready; 0: work begins when a consumer asks.
        began_s: when the pipeline started.

    Raises:
        InvalidArgumentError: a negative number.

    Example:
        >>> elements = PrefetchBuffer(seconds=2.0, buffer=1)
        >>> elements.take(0.0), elements.take(5.0), elements.take(5.0)
        (2.0, 5.0, 7.0)
    """

    def __init__(self, seconds: float, buffer: int, began_s: float = 0.0) -> None:
        if seconds < 0 or buffer < 0:
            raise InvalidArgumentError(f"A pipeline works {seconds} s on an element and keeps {buffer} ready; both must be 0 or more.")
        self.seconds = seconds
        self.buffer = buffer
        self._ready_s = began_s
        self._taken_s: list[float] = [began_s] * buffer
        self._known_s: dict[int, float] = {}

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

    def ready_s(self, number: int, now_s: float, remembered: int = 2) -> float:
        """When an element that several replicas want is there; the first of them to ask, now, has it taken.

        Args:
            number: of the element, or what else tells it from those before it.
            now_s: when the replica wants it.
            remembered: how many of the last elements some replica may still want; those before them are forgotten.
        """
        known = self._known_s
        if number not in known:
            known[number] = self.take(now_s)
            while len(known) > max(2, remembered):
                del known[next(iter(known))]
        return known[number]
