"""A coordinator that is asked again and again whether all is done: where no virtual time passes in between, it never is, and it warns."""

from __future__ import annotations

import warnings

__all__ = ["Polling"]

SUSPICIOUS = 3


class Polling:
    """Counts answers that are the same as the one before.

    Example:
        >>> polling = Polling()
        >>> with warnings.catch_warnings(record=True, action="always") as caught:
        ...     for now in (0.0, 0.0, 1.0, 1.0, 1.0, 1.0):
        ...         polling.found(now, pending=2)
        >>> [str(warning.message)[:33] for warning in caught]
        ['done() was False 3 times at 1 s: ']
    """

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None
        self._times = 0

    def found(self, now: float, pending: int) -> None:
        """Note an answer: the virtual second, and how many closures are pending."""
        self._times = self._times + 1 if (now, pending) == self._last else 1
        self._last = now, pending
        if self._times == SUSPICIOUS:
            warnings.warn(
                f"done() was False {SUSPICIOUS} times at {now:.9g} s: virtual time stands still in between, so a loop over done() "
                "would never end. Let it pass with sd.sleep(seconds) (not time.sleep), join() or fetch().",
                RuntimeWarning,
                stacklevel=3,
            )
