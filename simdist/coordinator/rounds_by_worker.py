"""A mapping from workers to rounds that also knows which workers are at a round, and which round is the earliest.

There are few different rounds at a time, and there may be thousands of workers: nothing here costs as much as there are workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableMapping

__all__ = ["RoundsByWorker"]


class RoundsByWorker(MutableMapping[str, int]):
    """From the name of a worker to a round.

    Example:
        >>> rounds = RoundsByWorker()
        >>> rounds["worker:1"], rounds["worker:0"] = 4, 3
        >>> rounds.earliest, list(rounds.at(3))
        (3, ['worker:0'])
        >>> del rounds["worker:0"]
        >>> rounds.earliest, dict(rounds)
        (4, {'worker:1': 4})
    """

    def __init__(self) -> None:
        self._rounds: dict[str, int] = {}
        self._workers: dict[int, dict[str, None]] = {}  # by round; none is empty

    @property
    def earliest(self) -> int | None:
        """The lowest round at which there is a worker; None without workers."""
        return min(self._workers, default=None)

    def at(self, number: int) -> Collection[str]:
        """The workers at a round, in the order in which they came to it."""
        return self._workers.get(number, {})

    def __getitem__(self, worker: str) -> int:
        return self._rounds[worker]

    def __setitem__(self, worker: str, number: int) -> None:
        if worker in self._rounds:
            del self[worker]
        self._rounds[worker] = number
        self._workers.setdefault(number, {})[worker] = None

    def __delitem__(self, worker: str) -> None:
        number = self._rounds.pop(worker)
        workers = self._workers[number]
        del workers[worker]
        if not workers:
            del self._workers[number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rounds)

    def __len__(self) -> int:
        return len(self._rounds)
