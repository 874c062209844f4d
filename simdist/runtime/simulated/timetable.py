"""Where the transfers of a collective are at a moment, on links without other flows: for pictures, which look and change nothing.

The collective is simulated once, alone (`uncontended.py`), and then only looked up. Between the two ends of a transfer its bytes go
evenly.
"""

from __future__ import annotations

import numpy as np

from simdist.runtime.simulated.legs import Leg
from simdist.runtime.simulated.transfers import RoutedSchedule, Transfers
from simdist.runtime.simulated.uncontended import AloneOnLinks

__all__ = ["Timetable"]


class TimedTransfers(Transfers):
    """Transfers that note when each of them was sent, and when it has come."""

    def __init__(self, *args: object) -> None:
        self.sent_s: dict[Leg, float] = {}
        self.came_s: dict[Leg, float] = {}
        super().__init__(*args)  # pyright: ignore[reportArgumentType]

    def send(self, leg: Leg) -> None:
        self.sent_s[leg] = self.transport.clock.now
        super().send(leg)

    def arrived(self, leg: Leg) -> None:
        self.came_s[leg] = self.transport.clock.now
        super().arrived(leg)


class Timetable:
    """When each transfer of a schedule is under way, in seconds since all ranks have begun.

    Args:
        routed: the schedule with its routes.
    """

    def __init__(self, routed: RoutedSchedule) -> None:
        alone = AloneOnLinks(routed, TimedTransfers)
        alone.go_on_until_done(range(routed.num_ranks))
        timed = alone.transfers
        assert isinstance(timed, TimedTransfers)
        legs = timed.routed.legs
        self.sent_s = np.array([timed.sent_s[leg] for leg in legs])
        self.came_s = np.array([timed.came_s[leg] for leg in legs])
        self.leaves_s = self.sent_s + [leg.latency_s for leg in legs]
        self.sizes = np.array([leg.size_bytes for leg in legs])
        place = {link: number for number, link in enumerate(routed.links)}
        on = [(number, place[link]) for number, leg in enumerate(routed.legs) for link in leg.links]
        self._legs, self._links = np.array(on, np.int64).reshape(-1, 2).T
        self._num_links = len(place)

    def under_way(self, elapsed_s: float) -> list[int]:
        """The numbers of the transfers that were sent and have not come, ascending."""
        return np.flatnonzero((self.sent_s <= elapsed_s) & (elapsed_s < self.came_s)).tolist()

    def carried(self, elapsed_s: float) -> list[float]:
        """The bytes that each of `routed.links` has carried."""
        lasts_s = np.maximum(self.came_s - self.leaves_s, np.finfo(float).tiny)
        shares = np.where(elapsed_s >= self.came_s, 1.0, np.clip((elapsed_s - self.leaves_s) / lasts_s, 0.0, 1.0))
        return np.bincount(self._links, (shares * self.sizes)[self._legs], self._num_links).tolist()
