"""What a closure changes of the chief's variables: it counts when the closure's reply is accepted, and the closure itself sees it before.

Without that, the second of two steps of one closure would begin with what the first one has read, and the work of the first were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from simdist.program.values import Bundle

__all__ = ["ClosureUpdates"]

U = TypeVar("U")


class ClosureUpdates(Generic[U]):
    """The updates of one closure, in their order.

    Args:
        changed: makes the next version of a group, of the one before and an update.

    Attributes:
        all: the updates.

    Example:
        >>> from simdist.program.values import Bundle
        >>> updates = ClosureUpdates(lambda version, number: Bundle.of([version.arrays[0] + number]))
        >>> updates.add(0, 2.0)
        >>> updates.seen(0, Bundle.of([1.0])).arrays, updates.seen(0, Bundle.of([9.0])).arrays
        ((3.0,), (3.0,))
    """

    def __init__(self, changed: Callable[[Bundle, U], Bundle]) -> None:
        self.all: list[U] = []
        self._changed = changed
        self._unseen: dict[int, list[U]] = {}
        self._seen: dict[int, Bundle] = {}

    def add(self, group: int, update: U) -> None:
        """One more update of a group."""
        self.all.append(update)
        self._unseen.setdefault(group, []).append(update)

    def begin_with(self, versions: Iterable[tuple[int, Bundle]]) -> None:
        """Go on from these versions of groups, which have earlier updates of the closure."""
        for group, version in versions:
            self._seen[group] = version
            self._unseen.setdefault(group, [])

    def has_changed(self, group: int) -> bool:
        """Whether the closure has changed a group."""
        return group in self._unseen

    def seen(self, group: int, present: Bundle) -> Bundle:
        """A group as the closure sees it: as it is, before the closure has changed it; then with its changes, and no more of others'.

        Args:
            group: its number.
            present: its present version.
        """
        if not self.has_changed(group):
            return present
        version = self._seen.get(group, present)
        for update in self._unseen[group]:
            version = self._changed(version, update)
        self._unseen[group].clear()
        self._seen[group] = version
        return version
