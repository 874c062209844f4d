"""A layout of replicas without a strategy: the input asks for no more."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Clock:
    now: float = 0.0

    def wait_for_input(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Layout:
    """So many replicas on each of so many workers; all are fed here, unless each worker has a program of its own."""

    num_workers: int = 1
    per_worker: int = 1
    worker_index: int = 0
    launched: bool = False
    engine: Clock = field(default_factory=Clock)

    @property
    def num_replicas_in_sync(self) -> int:
        return self.num_workers * self.per_worker

    @property
    def present_workers(self) -> range:
        return range(self.num_workers)

    @property
    def workers_at_first(self) -> int:
        return self.num_workers

    @property
    def ranks(self) -> range:
        first = self.worker_index * self.per_worker
        return range(first, first + self.per_worker) if self.launched else range(self.num_replicas_in_sync)
