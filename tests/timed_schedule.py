"""A collective timed by the network: an event-driven driver for schedules, in virtual time.

A rank takes part in a step when all its transfers of earlier steps have ended; a transfer begins when both its ranks take
part in its step. It takes the latency, and then a flow over its source's out-port and its target's in-port.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from simdist.collectives.base import Schedule, Transfer
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Link, SharedLinks


class TimedSchedule:
    def __init__(self, schedule: Schedule, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> None:
        self.clock = Clock()
        self.shared = SharedLinks(self.clock)
        ranks = range(schedule.num_ranks)
        self.outs = [Link(f"{rank}/out", bandwidth_bytes_per_s) for rank in ranks]
        self.ins = [Link(f"{rank}/in", bandwidth_bytes_per_s) for rank in ranks]
        self.chunk_bytes = size_bytes / schedule.num_chunks
        self.latency_s = latency_s
        self.left: list[Counter[int]] = [Counter() for _ in ranks]
        self.waiting: dict[tuple[int, int], list[Transfer]] = defaultdict(list)
        for transfer in schedule.transfers:  # in the order of their steps, and so are the keys of `left`
            for rank in (transfer.source, transfer.target):
                self.left[rank][transfer.step] += 1
                self.waiting[rank, transfer.step].append(transfer)
        self.unfinished = len(schedule.transfers)
        self.started: set[Transfer] = set()
        self.done = self.clock.gate()

    def seconds(self) -> float:
        if not self.unfinished:
            return 0.0
        for rank in range(len(self.left)):
            self._take_part(rank)
        self.clock.wait(self.done, "the end of the collective")
        return self.clock.now

    def _take_part(self, rank: int) -> None:
        step = self._step_of(rank)
        for transfer in self.waiting.get((rank, step), []):
            both = self._step_of(transfer.source) == step == self._step_of(transfer.target)
            if both and transfer not in self.started:
                self.started.add(transfer)
                self.clock.after(self.latency_s, self._flow, transfer)

    def _step_of(self, rank: int) -> int:
        """The step that a rank takes part in; -1 when it is done."""
        return next(iter(self.left[rank]), -1)

    def _flow(self, transfer: Transfer) -> None:
        route = (self.outs[transfer.source], self.ins[transfer.target])
        self.shared.start(route, len(transfer.chunks) * self.chunk_bytes, self._arrived, transfer)

    def _arrived(self, transfer: Transfer) -> None:
        self.unfinished -= 1
        if not self.unfinished:
            self.done.open()
        for rank in (transfer.source, transfer.target):
            self.left[rank][transfer.step] -= 1
            if not self.left[rank][transfer.step]:
                del self.left[rank][transfer.step]
        for rank in (transfer.source, transfer.target):
            self._take_part(rank)


def timed(schedule: Schedule, size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """Seconds until the last byte of a collective has arrived, on a full-duplex switch that has nothing else to do."""
    return TimedSchedule(schedule, size_bytes, latency_s, bandwidth_bytes_per_s).seconds()
