"""All that a function can reach: what it closes over, the globals that it names, the functions that it calls, and so on.

Two functions with equal keys are the same function of a row: equal code, and equal values wherever that code can read one. Contents of
containers and arrays are compared by value; where anything is reached that cannot be compared (an unknown object, code of a package
of which nothing is known, more than a few thousand objects), there is no key.

Attributes count where some code that is reached has their name. So the walk is repeated until it finds no new name.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Hashable

from simdist.data.leaves import ElementFunction
from simdist.data.reach_walk import Walk
from simdist.data.watching import Watches

__all__ = ["UNKNOWN", "Reach", "reached"]

MOST_WALKS = 8


class Reach:
    """What is known of a function and of all that it reaches.

    Args:
        key: equal for functions that are the same; None where that is not certain.
        generator: what it draws from that gives another value each time, in words; None where nothing was found.
        watches: what was reached, to be compared again.
        is_certain: whether everything that was reached is known.
    """

    def __init__(self, key: Hashable | None, generator: str | None, watches: Watches, is_certain: bool) -> None:
        self.key = key
        self.generator = generator
        self._watches = watches
        self._is_certain = is_certain

    @property
    def is_unchanged(self) -> bool:
        """True if it is certain that all is as it was when the key was found."""
        return self.key is not None and self._watches.are_unchanged()

    def put_back(self) -> bool:
        """Have what calls have changed since then as it was, as far as it is known; True if there was something."""
        return self._watches.put_back(with_objects=self._is_certain)


UNKNOWN = Reach(None, None, Watches(), is_certain=False)
"""Nothing is known."""


def reached(fn: ElementFunction) -> Reach:
    """All that a function reaches, as it is now.

    Example:
        >>> def make(scale):
        ...     return lambda x: x * scale
        >>> reached(make(2)).key == reached(make(2)).key, reached(make(2)).key == reached(make(3)).key
        (True, False)
    """
    names: frozenset[str] = frozenset()
    for _ in range(MOST_WALKS):
        walk = Walk(names)
        key = walk.token(fn)
        found = frozenset(walk.found_names)
        if not walk.asked_for_names or found <= names:
            has_key = walk.is_certain and walk.generator is None
            return Reach(key if has_key else None, walk.generator, walk.watches, walk.is_certain)
        names = found | names
    return UNKNOWN
