"""Iterators of one dataset that are restored together: later ones follow the one that is furthest, in whatever order they are restored.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from simdist.process_state import TaskLocal

__all__ = ["Followed", "furthest", "restored_together"]

Followed = dict[Hashable, list[int]]
"""The iterations that come next, by what counts them, as far as this restore has come."""

_followed: TaskLocal[Followed | None] = TaskLocal(lambda: None)


@contextmanager
def restored_together(followed: Followed) -> Iterator[None]:
    """Positions to which iterators go meanwhile belong to one restore.

    Args:
        followed: what it has come to so far; it is changed.
    """
    with _followed.replaced(followed):
        yield


def furthest(counter: Hashable, iterations: Sequence[int]) -> list[int]:
    """The iterations that come next where an iterator was restored: those after it, or after others of this restore.

    Args:
        counter: what counts them.
        iterations: that come after the iterator.

    Example:
        >>> with restored_together({}):
        ...     furthest("a shuffle", [4]), furthest("a shuffle", [2])
        ([4], [4])
        >>> furthest("a shuffle", [2])
        [2]
    """
    followed = _followed.get()
    found = list(iterations)
    if followed is not None:
        found = followed[counter] = [max(pair) for pair in zip(found, followed.get(counter, found), strict=True)]
    return found
