"""The updates that a server has applied, by identity: one that arrives again is only confirmed.

The identity of an update is its client, incarnation and sequence number; where closures count exactly once it is its closure, the step in
it and the update in that step, which are the same when another worker runs the closure again.
"""

from __future__ import annotations

__all__ = ["Identity", "PushIdentity", "Remembered"]

# At least so many updates are remembered; a client has far fewer on their way at once.
REMEMBERED = 1_024

PushIdentity = tuple[str | int, int, int]
"""Of an update: (client, incarnation, sequence number), or (closure, step, update)."""

Identity = tuple[PushIdentity, int]
"""Of a part of an update: which update, and which part."""


class Remembered:
    """The identities of updates.

    Example:
        >>> known = Remembered()
        >>> known.add((("worker:0", 0, 7), 0))
        >>> (("worker:0", 0, 7), 0) in known
        True
    """

    def __init__(self) -> None:
        self._messages: dict[Identity, None] = {}
        self._closures: dict[int, dict[Identity, None]] = {}
        self._pruned = 0

    def __contains__(self, identity: Identity) -> bool:
        if identity in self._messages:
            return True
        closure = identity[0][0]
        return isinstance(closure, int) and identity in self._closures.get(closure, ())

    def add(self, identity: Identity, oldest: int = 0) -> None:
        """Remember an update.

        Args:
            identity: of it.
            oldest: the lowest number of a closure that may still be run again.
        """
        closure = identity[0][0]
        if isinstance(closure, int):
            self._closures.setdefault(closure, {})[identity] = None
            if len(self._closures) > REMEMBERED + 2 * self._pruned:
                self._closures = {number: known for number, known in self._closures.items() if number >= oldest}
                self._pruned = len(self._closures)
            return
        self._messages[identity] = None
        if len(self._messages) > 2 * REMEMBERED:
            self._messages = dict.fromkeys(list(self._messages)[REMEMBERED:])

    def discard(self, identity: Identity) -> None:
        """Forget an update that was taken back."""
        self._messages.pop(identity, None)
        closure = identity[0][0]
        if isinstance(closure, int):
            self._closures.get(closure, {}).pop(identity, None)

    def clear(self) -> None:
        """Forget all."""
        self._messages.clear()
        self._closures.clear()
