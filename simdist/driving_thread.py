"""The thread that drives virtual time: one at a time in a process.

What is global to a process (standard output, the global generators, Keras' state, the stack of tasks) is swapped while clusters and
sessions run. Two threads that did so at once would mix these up without a word, so the second one is refused before anything is swapped.
"""

from __future__ import annotations

import threading
from types import TracebackType

from simdist.errors import FailedPreconditionError

__all__ = ["driving_thread"]


class DrivingThread:
    """A block inside of which this thread drives virtual time; blocks may be nested.

    Raises:
        FailedPreconditionError: another thread is inside such a block now.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise FailedPreconditionError(
                "Virtual time has one thread in a process, and another thread drives a cluster or a session now. Run one after the other, "
                "or each in a process of its own (concurrent.futures.ProcessPoolExecutor)."
            )

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._lock.release()

    def require(self) -> None:
        """Refuse what another thread would take for its own.

        Raises:
            FailedPreconditionError: another thread is inside such a block now.
        """
        with self:
            pass


driving_thread = DrivingThread()
