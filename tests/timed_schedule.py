"""A collective timed by the network: an event-driven driver for schedules, in virtual time.

A rank takes part in a step when all its transfers of earlier steps have ended; a transfer begins when both its ranks take
part in its step. It takes the latency, and then a flow over its source's out-port and its target's in-port. Where hosts have several
ranks, those are the hosts' ports for a message between hosts, and the ranks' for one within a host.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from simdist.collectives.base import Schedule, Transfer
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Link, SharedLinks


class TimedSchedule:
    def __init__(
        self,
        schedule: Schedule,
        size_bytes: float,
        latency_s: float,
        bandwidth_bytes_per_s: float,
        ranks_per_host: int = 1,
        intra_host_latency_s: float = 0.0,
        intra_host_bandwidth_bytes_per_s: float = 1e12,
    ) -> None:
        self.clock = Clock()
        self.shared = SharedLinks(self.clock)
        ranks = range(schedule.num_ranks)
        self.ranks_per_host = ranks_per_host
        self.ports = {
            (is_inside, rank, way): Link(f"{rank}/{way}", bandwidth)
            for is_inside, bandwidth in ((False, bandwidth_bytes_per_s), (True, intra_host_bandwidth_bytes_per_s))
            for rank in ranks
            for way in ("out", "in")
        }
        self.chunk_bytes = size_bytes / schedule.num_chunks
        self.latencies_s = (latency_s, intra_host_latency_s)
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
                self.clock.after(self.latencies_s[self._is_inside(transfer)], self._flow, transfer)

    def _step_of(self, rank: int) -> int:
        """The step that a rank takes part in; -1 when it is done."""
        return next(iter(self.left[rank]), -1)

    def _is_inside(self, transfer: Transfer) -> bool:
        """Whether a message stays within a host."""
        return transfer.source // self.ranks_per_host == transfer.target // self.ranks_per_host

    def _flow(self, transfer: Transfer) -> None:
        inside = self._is_inside(transfer)
        source, target = (end if inside else end // self.ranks_per_host for end in (transfer.source, transfer.target))
        route = (self.ports[inside, source, "out"], self.ports[inside, target, "in"])
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
