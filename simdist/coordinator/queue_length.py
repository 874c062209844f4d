"""The counter "queue" of a chief: closures that wait for a worker, those of all its coordinators together.

Coordinators of one cluster share a lane of the trace. Each knows the length of its queue alone, so each adds to the sum by how much its
queue has grown. A queue dies with the process of the chief that held it.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from simdist.runtime.base import Engine
from simdist.trace import Trace

__all__ = ["QueueLength"]


@dataclass
class _Sum:
    """The closures in the queues of one incarnation of a chief."""

    incarnation: int
    waiting: int = 0


_sums: WeakKeyDictionary[Trace, _Sum] = WeakKeyDictionary()


class QueueLength:
    """The part of one coordinator in the counter of its chief.

    Args:
        engine: whose chief it is.

    Example:
        >>> import simdist as sd
        >>> cluster = sd.Cluster({"worker": 1})
        >>> first, second = QueueLength(cluster.engine), QueueLength(cluster.engine)
        >>> first.changed(3), second.changed(2), first.changed(1)
        (None, None, None)
        >>> cluster.trace.counters.series("chief:0", "queue")[1].tolist()
        [3.0, 5.0, 3.0]
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        incarnation = engine.process(engine.chief).incarnation
        shared = _sums.get(engine.trace)
        if shared is None or shared.incarnation != incarnation:
            shared = _sums[engine.trace] = _Sum(incarnation)
        self._sum = shared
        self._length = 0

    def changed(self, length: int) -> None:
        """Record that the queue of this coordinator has this length now."""
        self._sum.waiting += length - self._length
        self._length = length
        self.engine.trace.counter(self.engine.chief, "queue", self.engine.now, self._sum.waiting)
