"""Looks at a coordinator that wait for nothing: a loop over `done()` in which no virtual time passes never ends, so it is warned of."""

from __future__ import annotations

import warnings

__all__ = ["Looks"]

SUSPICIOUS = 3


class Looks:
    """Counts looks that found the same.

    Example:
        >>> looks = Looks()
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     for now in (0.0, 0.0, 1.0, 1.0, 1.0, 1.0):
        ...         looks.found(now, pending=2)
        >>> [str(warning.message)[:33] for warning in caught]
        ['done() was False 3 times at 1 s: ']
    """

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None
        self._times = 0

    def found(self, now: float, pending: int) -> None:
        """Note what a look has found: the virtual second, and how many closures are pending."""
        self._times = self._times + 1 if (now, pending) == self._last else 1
        self._last = now, pending
        if self._times == SUSPICIOUS:
            warnings.warn(
                f"done() was False {SUSPICIOUS} times at {now:.9g} s: virtual time stands still between the looks, so a loop over done() "
                "would never end. Let it pass with sd.sleep(seconds) (not time.sleep), join() or fetch().",
                RuntimeWarning,
                stacklevel=3,
            )
