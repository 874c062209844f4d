"""What is asked again and again whether it is done: where no virtual time passes in between, it never is.

It warns first, as a program may ask for another reason; a loop that goes on ends with an error.
"""

from __future__ import annotations

import warnings

from simdist.errors import DeadlineExceededError

__all__ = ["Polling"]

MOST = 10_000  # equal answers: no program that ends needs so many


class Polling:
    """Counts answers that are the same as the one before.

    Args:
        times: so many of them are suspicious.

    Example:
        >>> polling = Polling(3)
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     for now in (0.0, 0.0, 1.0, 1.0, 1.0, 1.0):
        ...         polling.found(now, "done() was False", pending=2)
        >>> [str(warning.message)[:33] for warning in caught]
        ['done() was False 3 times at 1 s: ']
    """

    def __init__(self, times: int) -> None:
        self.times = times
        self._last: tuple[float, int] | None = None
        self._count = 0

    def found(self, now: float, answer: str, pending: int = 1) -> None:
        """Note an answer: the virtual second, the answer in words, and how many closures are pending.

        Raises:
            DeadlineExceededError: it was the same 10,000 times, and no virtual time has passed.
        """
        self._count = self._count + 1 if (now, pending) == self._last else 1
        self._last = now, pending
        if self._count == self.times:
            warnings.warn(_text(answer, self._count, now), RuntimeWarning, stacklevel=3)
        elif self._count == MOST:
            self._count = 0
            raise DeadlineExceededError(_text(answer, MOST, now))


def _text(answer: str, times: int, now: float) -> str:
    return (
        f"{answer} {times:,} times at {now:.9g} s: virtual time stands still in between, so a loop that waits for another answer would "
        "never end. Let it pass with sd.sleep(seconds) (not time.sleep), join() or fetch()."
    )
