"""The updates that a server has applied: one that arrives again is only confirmed.

A message that comes twice, or that its client sends again, is of one call, which goes from client to server and is the same object on both
sides: a server marks there what it has applied, so it knows it for as long as the call can come. Where closures count exactly once, an
update is known by its coordinator, its closure, the step in it and the update in that step, which are the same when another worker runs the
closure again. Closures that are over are forgotten one by one, and known by their number: all below it are over.

Taught in lesson 07.
"""

from __future__ import annotations

from typing import Protocol

from simdist.runtime.simulated.calls import ServerCall

__all__ = ["Identity", "Known", "PushIdentity", "Remembered", "Remembers"]

# How many updates of closures there are before it is looked through for those that are not run again.
MANY = 2_048

PushIdentity = tuple[int, int, int, int]
"""Of an update: (coordinator, closure, step, update)."""

Identity = tuple[PushIdentity, int]
"""Of a part of an update: which update, and which part."""


Epochs = tuple[tuple[int, int], ...]
"""Epochs that were lost, each from the first to the last."""

Known = tuple[int, Epochs, tuple[Identity, ...]]
"""A snapshot: its epoch, those that were lost before, and the updates of closures."""


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
        >>> push = SimpleNamespace(identity=(0, 7, 1, 1), applied={})
        >>> known.add(push, part)
        >>> known.has(push, part), known.has(SimpleNamespace(identity=(0, 7, 1, 2), applied={}), part)
        (True, False)
    """

    def __init__(self) -> None:
        self._epoch = 0  # grows with each snapshot, and each loss of its memory
        self._server = object()
        self._mark = self._server, 0
        self._lost: Epochs = ()
        self._of_closures: dict[Identity, None] = {}
        self._over: dict[int, int] = {}  # of a coordinator: all closures below this number are over
        self._many = MANY

    def has(self, push: Remembers, part: ServerCall) -> bool:
        """Whether it has applied this part of an update."""
        if push.identity is None:
            mark = push.applied.get(part)
            return mark is not None and (mark is self._mark or self._holds(mark))
        # A worker that was silent may still send what it computes for a closure that others have run long ago.
        coordinator, closure, _, _ = push.identity
        return closure < self._over.get(coordinator, 0) or (push.identity, part.position) in self._of_closures

    def add(self, push: Remembers, part: ServerCall, oldest: int = 0) -> None:
        """It has applied this part of an update.

        Args:
            push, part: of which update.
            oldest: the lowest number of a closure of this coordinator that may still be run again.
        """
        if push.identity is None:
            push.applied[part] = self._mark
            return
        self._of_closures[push.identity, part.position] = None
        if len(self._of_closures) > self._many:
            coordinator = push.identity[0]
            self._over[coordinator] = oldest = max(oldest, self._over.get(coordinator, 0))
            kept = [known for known in self._of_closures if known[0][0] != coordinator or known[0][1] >= oldest]
            self._of_closures = dict.fromkeys(kept)
            self._many = 2 * max(MANY // 2, len(self._of_closures))

    def take_back(self, push: Remembers, part: ServerCall) -> None:
        """It was applied, and is not any more."""
        if push.identity is None:
            push.applied.pop(part, None)
        else:
            self._of_closures.pop((push.identity, part.position), None)

    def snapshot(self) -> Known:
        """What it knows now."""
        self._begin_epoch()
        return self._epoch - 1, self._lost, tuple(self._of_closures)

    def restore(self, known: Known) -> None:
        """Know what a snapshot knows, and no more."""
        epoch, lost, of_closures = known
        self._lost = *lost, (epoch + 1, self._epoch)
        self._of_closures = dict.fromkeys(of_closures)
        self._begin_epoch()

    def clear(self) -> None:
        """All is forgotten."""
        self.restore((-1, (), ()))

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._mark = self._server, self._epoch

    def _holds(self, mark: object) -> bool:
        """Whether a mark is of an epoch that is not lost."""
        assert isinstance(mark, tuple)
        server, epoch = mark
        return server is self._server and not any(first <= epoch <= last for first, last in self._lost)
