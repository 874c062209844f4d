"""The updates that a server has applied: one that arrives again is only confirmed.

A message that comes twice, or that its client sends again, is of one call, which goes from client to server and is the same object on both
sides: a server marks there what it has applied, so it knows it for as long as the call can come. Where closures count exactly once, an
update is known by its closure, the step in it and the update in that step, which are the same when another worker runs the closure again.

Taught in lesson 07.
"""

from __future__ import annotations

from typing import Protocol

from simdist.runtime.simulated.calls import ServerCall

__all__ = ["Identity", "PushIdentity", "Remembered", "Remembers"]

# How many updates of closures there are before it is looked through for those that are not run again.
MANY = 2_048

PushIdentity = tuple[int, int, int]
"""Of an update: (closure, step, update)."""

Identity = tuple[PushIdentity, int]
"""Of a part of an update: which update, and which part."""


class Remembers(Protocol):
    """A push, as servers know it.

    Attributes:
        identity: where closures count exactly once; otherwise None.
        applied: by part, what the server has marked it with.
    """

    @property
    def identity(self) -> PushIdentity | None: ...
    @property
    def applied(self) -> dict[ServerCall, object]: ...


class Remembered:
    """What one server knows of the updates that it has applied.

    Example:
        >>> from types import SimpleNamespace
        >>> known, part = Remembered(), ServerCall(None, (), None)
        >>> push = SimpleNamespace(identity=(7, 1, 1), applied={})
        >>> known.add(push, part)
        >>> known.has(push, part), known.has(SimpleNamespace(identity=(7, 1, 2), applied={}), part)
        (True, False)
    """

    def __init__(self) -> None:
        self._mark = object()  # another one after each loss of its memory
        self._of_closures: dict[Identity, None] = {}
        self._many = MANY

    def has(self, push: Remembers, part: ServerCall) -> bool:
        """Whether it has applied this part of an update."""
        if push.identity is None:
            return push.applied.get(part) is self._mark
        return (push.identity, part.position) in self._of_closures

    def add(self, push: Remembers, part: ServerCall, oldest: int = 0) -> None:
        """It has applied this part of an update.

        Args:
            push, part: of which update.
            oldest: the lowest number of a closure that may still be run again.
        """
        if push.identity is None:
            push.applied[part] = self._mark
            return
        self._of_closures[push.identity, part.position] = None
        if len(self._of_closures) > self._many:
            self._of_closures = dict.fromkeys([known for known in self._of_closures if known[0][0] >= oldest])
            self._many = 2 * max(MANY // 2, len(self._of_closures))

    def take_back(self, push: Remembers, part: ServerCall) -> None:
        """It was applied, and is not any more."""
        if push.identity is None:
            push.applied.pop(part, None)
        else:
            self._of_closures.pop((push.identity, part.position), None)

    def clear(self) -> None:
        """All is forgotten."""
        self._mark = object()
        self._of_closures.clear()
