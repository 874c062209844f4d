"""What a call has scheduled and does not wait for, as it ends early: by an error of a callback, or by Ctrl-C.

Closures that no worker has begun are cancelled. Those that workers run are waited for, as their updates must not count in a later call. Who
presses Ctrl-C once more does not wait either; then the next call waits for them before it begins.

Their errors are dropped, as no caller asks for their results any more. An error that concerns closures of others is kept: `join`,
`done` or `schedule` raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from simdist.coordinator.closure import Closure
from simdist.coordinator.queue import ClosureDecision, ClosureQueue
from simdist.coordinator.remote_value import Result

__all__ = ["Leftovers"]


class Leftovers:
    """The closures of calls that have ended early.

    Args:
        queue: of the coordinator.
        closures: those that have not ended, by number; also those whose round is not complete.
        decided: is called with what the queue decides.
        join: waits until nothing is pending.
        require_usable: raises where no closure can end any more; takes what was called.
    """

    def __init__(
        self,
        queue: ClosureQueue,
        closures: Mapping[int, Closure],
        decided: Callable[[list[ClosureDecision]], None],
        join: Callable[[], None],
        require_usable: Callable[[str], None],
    ) -> None:
        self._queue = queue
        self._closures = closures
        self._decided = decided
        self._join = join
        self._require_usable = require_usable
        self._are_there = False
        self._left: set[Result] = set()

    def leave(self, results: Iterable[Result]) -> bool:
        """A call ends early; whether all of it is over.

        Args:
            results: of the closures that the call has scheduled and has not seen the end of.
        """
        left = set(results)
        try:
            self._require_usable("a call ended early")
        except Exception:
            return False  # the first error is the one that is raised
        self._are_there = True
        self._left |= left
        self._decided(self._queue.given_up(frozenset(result.number for result in left)))
        return self.end()

    def end(self) -> bool:
        """Wait for what is left of calls that have ended early; whether all is over, without an error."""
        if not self._are_there:
            return True
        others = [closure.result for closure in self._closures.values() if closure.result not in self._left]
        try:
            self._join()
        except Exception as error:
            if self._closures:
                return False  # none of it can end any more; as above
            is_dropped = any(result.error is error for result in self._left) and not any(result.error for result in others)
            self._are_there, self._left = False, set()
            if not is_dropped:
                self._queue.error = error
            return not is_dropped
        self._are_there, self._left = False, set()
        return True
