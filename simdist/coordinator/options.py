"""Options of a coordinator: how many closures may be queued, when workers begin, and when it complains.

Taught in lesson 07.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.arguments import number, whole_number

__all__ = ["CoordinatorOptions"]


@dataclass(frozen=True)
class CoordinatorOptions:
    """Options of a coordinator, checked.

    Args:
        max_queued: closures that may wait for a worker, before `schedule` waits until one is taken; 0 or less: any number.
        start_delay_s: seconds; worker i begins i times so much later than the first.
        start_delay_max_s: seconds, beyond which no worker begins later; 0: no bound.
        watchdog_s: seconds; if no closure has ended for so long while some are pending, a warning says who waits for what. None: never.
        tolerated_time_outs: how often a closure is run again because a message of it was lost; then that is its error.

    Raises:
        TypeError: one is no number.
        InvalidArgumentError: one is negative, or watchdog_s is 0.

    Example:
        >>> CoordinatorOptions(start_delay_s=2.0, start_delay_max_s=3.0).delay_of(2)
        3.0
    """

    max_queued: int = 262_144
    start_delay_s: float = 0.0
    start_delay_max_s: float = 0.0
    watchdog_s: float | None = None
    tolerated_time_outs: int = 5

    def __post_init__(self) -> None:
        whole_number(self.max_queued, "max_queued")
        for name in ("start_delay_s", "start_delay_max_s"):
            object.__setattr__(self, name, number(getattr(self, name), name))
        if self.watchdog_s is not None:
            object.__setattr__(self, "watchdog_s", number(self.watchdog_s, "watchdog_s", at_least=1e-9))
        whole_number(self.tolerated_time_outs, "tolerated_time_outs", 0)

    def is_full(self, queued: int) -> bool:
        """Whether no closure may be added to so many that wait."""
        return 0 < self.max_queued <= queued

    def delay_of(self, index: int) -> float:
        """Seconds after which a worker begins."""
        delay_s = index * self.start_delay_s
        return min(delay_s, self.start_delay_max_s) if self.start_delay_max_s else delay_s
