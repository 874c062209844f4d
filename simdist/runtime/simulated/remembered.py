"""The updates that a server has applied, by identity: one that arrives again is only confirmed.

The identity of an update is its client, incarnation and sequence number; where closures count exactly once it is its closure, the step in
it and the update in that step, which are the same when another worker runs the closure again.

Taught in lesson 07.
"""

from __future__ import annotations

__all__ = ["Identity", "PushIdentity", "Remembered"]

# At least so many updates are remembered; a client has far fewer on their way at once.
REMEMBERED = 1_024

PushIdentity = tuple[str | int, int, int]
"""Of an update: (client, incarnation, sequence number), or (closure, step, update)."""

Identity = tuple[PushIdentity, int]
"""Of a part of an update: which update, and which part."""


class Remembered(dict[Identity, None]):
    """The identities of updates.

    Example:
        >>> known = Remembered()
        >>> known.add((("worker:0", 0, 7), 0))
        >>> (("worker:0", 0, 7), 0) in known
        True
    """

    def __init__(self) -> None:
        super().__init__()
        self._limit = 2 * REMEMBERED

    def add(self, identity: Identity, oldest: int = 0) -> None:
        """Remember an update.

        Args:
            identity: of it.
            oldest: the lowest number of a closure that may still be run again.
        """
        self[identity] = None
        if len(self) > self._limit:
            self._prune(oldest)

    def _prune(self, oldest: int) -> None:
        """Forget messages but for the last, and closures that are not run again."""
        newest = set(list(self)[-REMEMBERED:])
        kept = [known for known in self if (known[0][0] >= oldest if isinstance(known[0][0], int) else known in newest)]
        self.clear()
        self.update(dict.fromkeys(kept))
        self._limit = 2 * max(REMEMBERED, len(kept))
