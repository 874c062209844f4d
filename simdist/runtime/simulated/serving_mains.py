"""Which launched mains of a cluster are at work, and which of them only serve.

A main that calls `Server.join` serves: it has no end of its own. All servers end when the last main that is at work has ended, whichever
call of `launch` has started it, as a cluster manager ends the servers of a job with its chief. A main is at work from its launch until
it ends or serves; also while it waits to be started again. Evaluators stand beside the cluster and do not count.

Decisions only: what ends a main is called, and does it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

__all__ = ["ServingMains"]


class ServingMains:
    """The mains of all runs of one cluster.

    Example:
        >>> mains = ServingMains()
        >>> for name in ("chief:0", "ps:0"):
        ...     mains.launched(name)
        >>> mains.serves("ps:0", lambda: print("ps:0 ends"))
        >>> mains.ended("chief:0")
        ps:0 ends
    """

    def __init__(self) -> None:
        self._at_work: dict[Hashable, None] = {}
        self._serving: dict[Hashable, Callable[[], None]] = {}
        self._work_has_ended = False

    def launched(self, main: Hashable) -> None:
        """A main is at work: servers have something to wait for."""
        self._work_has_ended = False
        self.started_again(main)

    def started_again(self, main: Hashable) -> None:
        """A main begins anew after a crash or an error, also one that has served."""
        self._serving.pop(main, None)
        self._at_work[main] = None

    def serves(self, main: Hashable, end: Callable[[], None]) -> None:
        """A main serves from now on; `end` is called when there is no work any more."""
        self._at_work.pop(main, None)
        self._serving[main] = end
        if self._work_has_ended:
            self._end_servers()

    def is_serving(self, main: Hashable) -> bool:
        """Whether a main has called `Server.join` since it was launched."""
        return main in self._serving

    def ended(self, main: Hashable) -> None:
        """A main has ended, and does not start again."""
        self._serving.pop(main, None)
        if main in self._at_work:
            del self._at_work[main]
            self._work_has_ended = True
            self._end_servers()

    def _end_servers(self) -> None:
        if self._at_work:
            return
        servers, self._serving = self._serving, {}
        for end in servers.values():
            end()
