"""The closure queue: what is scheduled, who runs it, what becomes of it. A state machine without clock, network or JAX.

Facts go in, decisions come out. A closure moves like this:

    queued    --a worker is idle-->          running     decision: Dispatch
    running   --its reply came-->            done        decision: Resolve
    running   --its worker went down-->      queued      decision: Retry (at the front of the queue)
    running   --a message of it was lost-->  queued      decision: Retry (at the front of the queue)
    running   --it raised-->                 failed      decision: Fail; all queued ones: Cancel
    queued    --another one failed-->        cancelled   decision: Cancel

The first error is kept until somebody asks for it; it is given once. After that the queue is as good as new.

Rules for this file: no time, no I/O, no arrays; a closure is a number here.

Taught in lesson 01.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

__all__ = ["ClosureQueue", "Decision"]


@dataclass(frozen=True)
class Decision:
    """`kind` is "dispatch", "retry", "resolve", "fail" or "cancel"."""

    kind: str
    closure: int
    worker: str = ""
    error: Any = None


class ClosureQueue:
    """Closures and the workers that run them.

    Example:
        >>> queue = ClosureQueue()
        >>> queue.schedule(0)
        []
        >>> queue.worker_up("worker:0")
        [Decision(kind='dispatch', closure=0, worker='worker:0', error=None)]
        >>> queue.worker_down("worker:0")
        [Decision(kind='retry', closure=0, worker='worker:0', error=None)]
    """

    def __init__(self) -> None:
        self.queue: deque[int] = deque()
        self.running: dict[str, int] = {}
        self.idle: dict[str, None] = {}
        self.error: Any = None

    @property
    def pending(self) -> int:
        """Closures that are neither done, failed nor cancelled."""
        return len(self.queue) + len(self.running)

    # -- facts ----------------------------------------------------------------------------------------------------

    def schedule(self, closure: int) -> list[Decision]:
        """A closure was scheduled."""
        self.queue.append(closure)
        return self._dispatch()

    def worker_up(self, worker: str) -> list[Decision]:
        """A worker is ready for work."""
        if worker in self.running or worker in self.idle:
            return []
        self.idle[worker] = None
        return self._dispatch()

    def worker_down(self, worker: str) -> list[Decision]:
        """A worker is gone. What it ran is run again, before everything that is queued."""
        self.idle.pop(worker, None)
        closure = self.running.pop(worker, None)
        if closure is None:
            return []
        if self.error is not None:
            return [Decision("cancel", closure, worker)]
        self.queue.appendleft(closure)
        return [Decision("retry", closure, worker), *self._dispatch()]

    def completed(self, worker: str, closure: int) -> list[Decision]:
        """A reply came. That of a worker which no longer has the closure is ignored."""
        if self.running.get(worker) != closure:
            return []
        del self.running[worker]
        self.idle[worker] = None
        return [Decision("resolve", closure, worker), *self._dispatch()]

    def timed_out(self, worker: str, closure: int) -> list[Decision]:
        """A message of a closure was lost: it is run again, before everything that is queued. Its worker is there."""
        if self.running.get(worker) != closure:
            return []
        decisions = self.worker_down(worker)
        self.idle[worker] = None
        return [*decisions, *self._dispatch()]

    def raised(self, worker: str, closure: int, error: Any) -> list[Decision]:
        """A closure failed by itself: it is not run again, and what is queued is cancelled."""
        if self.running.get(worker) != closure:
            return []
        del self.running[worker]
        self.idle[worker] = None
        if self.error is None:
            self.error = error
        return [Decision("fail", closure, worker, error), *self._cancel_queued()]

    def take_error(self) -> Any:
        """The first error since the last call, or None."""
        error, self.error = self.error, None
        return error

    # -- decisions ------------------------------------------------------------------------------------------------

    def _dispatch(self) -> list[Decision]:
        decisions: list[Decision] = []
        while self.queue and self.idle:
            worker = next(iter(self.idle))
            del self.idle[worker]
            closure = self.queue.popleft()
            self.running[worker] = closure
            decisions.append(Decision("dispatch", closure, worker))
        return decisions

    def _cancel_queued(self) -> list[Decision]:
        cancelled = list(self.queue)
        self.queue.clear()
        return [Decision("cancel", closure) for closure in cancelled]
