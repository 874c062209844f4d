"""What an input asks of the strategy that it feeds: which replicas of which workers there are, and what time it is.

Taught in lesson 08.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["ReplicaLayout", "VirtualClock"]


class VirtualClock(Protocol):
    """A source of the virtual time."""

    @property
    def now(self) -> float:
        """Virtual seconds."""
        ...

    def wait_for_input(self, seconds: float) -> None:
        """Block the caller until its input is there, in so many seconds; where no time passes, it is there."""
        ...


class ReplicaLayout(Protocol):
    """The replicas of a strategy: r of them on w workers; their number may change between steps."""

    @property
    def num_replicas_in_sync(self) -> int:
        """Replicas r that take a step together, over all workers."""
        ...

    @property
    def num_workers(self) -> int:
        """Workers w; each has r / w replicas."""
        ...

    @property
    def present_workers(self) -> Sequence[int]:
        """Which of the workers that there were at first have replicas now; w of them."""
        ...

    @property
    def workers_at_first(self) -> int:
        """Workers that had replicas when the strategy was made."""
        ...

    @property
    def worker_index(self) -> int:
        """The worker whose program this is, where each has one of its own."""
        ...

    @property
    def launched(self) -> bool:
        """Whether each worker has a program of its own."""
        ...

    @property
    def ranks(self) -> range:
        """The replicas that this program feeds."""
        ...

    @property
    def engine(self) -> VirtualClock | None:
        """Whose virtual time the pipelines work in; None: nobody waits for them."""
        ...
