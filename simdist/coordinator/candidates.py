"""Candidates: workers of which the one with the lowest rank is asked for, again and again, without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["Candidates"]


class Candidates:
    """Workers by rank. Each is there once; who is none any more is found out when its turn comes.

    Example:
        >>> candidates = Candidates()
        >>> for rank, worker in enumerate(["worker:0", "worker:1", "worker:2"]):
        ...     candidates.add(rank, worker)
        >>> candidates.first(is_one=lambda worker: worker != "worker:0", may_wait=lambda worker: worker == "worker:1")
        'worker:2'
        >>> candidates.first(is_one=lambda worker: True, may_wait=lambda worker: False)
        'worker:1'
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._known: set[str] = set()

    def add(self, rank: int, worker: str) -> None:
        """A worker may be chosen from now on."""
        if worker not in self._known:
            self._known.add(worker)
            heapq.heappush(self._heap, (rank, worker))

    def first(self, is_one: Callable[[str], bool], may_wait: Callable[[str], bool]) -> str | None:
        """The candidate with the lowest rank; it stays one until it is none any more.

        Args:
            is_one: whether a worker is still a candidate; who is not is forgotten, and has to be added again.
            may_wait: whether it is passed over this time, and stays.
        """
        passed: list[tuple[int, str]] = []
        found = None
        while self._heap and found is None:
            worker = self._heap[0][1]
            if not is_one(worker):
                heapq.heappop(self._heap)
                self._known.discard(worker)
            elif may_wait(worker):
                passed.append(heapq.heappop(self._heap))
            else:
                found = worker
        for each in passed:
            heapq.heappush(self._heap, each)
        return found
