"""What a call has scheduled and does not wait for, as it ends early: by an error of a callback, or by Ctrl-C.

Closures that no worker has begun are cancelled. Those that workers run are waited for, as their updates must not count in a later call. Who
presses Ctrl-C once more does not wait either; then the next call waits for them before it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from simdist.coordinator.queue import ClosureDecision, ClosureQueue

__all__ = ["Leftovers"]


class Leftovers:
    """The closures of calls that have ended early.

    Args:
        queue: of the coordinator.
        decided: is called with what the queue decides.
        join: waits until nothing is pending.
        require_usable: raises where no closure can end any more; takes what was called.
    """

    def __init__(
        self,
        queue: ClosureQueue,
        decided: Callable[[list[ClosureDecision]], None],
        join: Callable[[], None],
        require_usable: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._decided = decided
        self._join = join
        self._require_usable = require_usable
        self._are_there = False

    def leave(self, closures: Iterable[int]) -> bool:
        """A call ends early; whether all of it is over.

        Args:
            closures: that the call has scheduled, and that have not ended.
        """
        try:
            self._require_usable("a call ended early")
        except Exception:
            return False  # the first error is the one that is raised
        self._are_there = True
        self._decided(self._queue.given_up(frozenset(closures)))
        return self.end()

    def end(self) -> bool:
        """Wait for what is left of calls that have ended early; whether all is over."""
        if not self._are_there:
            return True
        try:
            self._join()
        except Exception:
            return False  # as above
        self._are_there = False
        return True
