"""How long an all-reduce takes where hosts stand in racks, whose uplinks are shared by all messages to other racks.

Steps are counted one by one: a step lasts as long as the slowest of its links takes for what it carries, and its latency is that of its
longest route. An algorithm whose late steps all go to other racks (Rabenseifner's, recursive doubling) fills uplinks that a ring, where
each rack sends to one other, leaves nearly idle.

Not modelled: ranks that go on without waiting for the slowest of a step, and other figures of single ports.

Taught in lesson 03a.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simdist.collectives.base import Algorithm
from simdist.collectives.order import steps_of
from simdist.collectives.ring import RING

__all__ = ["RackFigures", "seconds_in_racks"]


@dataclass(frozen=True)
class RackFigures:
    """What a network with racks does with a message.

    Args:
        latency_s, bandwidth_bytes_per_s: of a message in a rack, and of a host's port.
        uplink_bandwidth_bytes_per_s: of a rack, in each direction.
        hop_latency_s: of an uplink or a downlink.
        intra_host_latency_s, intra_host_bandwidth_bytes_per_s: of a message within a host, and of a rank's port there.
    """

    latency_s: float
    bandwidth_bytes_per_s: float
    uplink_bandwidth_bytes_per_s: float
    hop_latency_s: float
    intra_host_latency_s: float
    intra_host_bandwidth_bytes_per_s: float


def seconds_in_racks(algorithm: Algorithm, size_bytes: float, positions: Sequence[tuple[int, int]], figures: RackFigures) -> float:
    """The duration of an all-reduce on an idle network.

    Args:
        algorithm: of the all-reduce.
        size_bytes: of each rank's data.
        positions: the host and the rack of each rank.
        figures: of the network.

    Example:
        >>> from simdist.collectives.rabenseifner import RABENSEIFNER
        >>> figures = RackFigures(50e-6, 1.25e9, 0.625e9, 0.0, 50e-6, 1.25e9)
        >>> positions = [(rank, rank // 4) for rank in range(8)]
        >>> [round(seconds_in_racks(one, 12e6, positions, figures), 4) for one in (RABENSEIFNER, RING)]
        [0.0843, 0.0343]
    """
    ranks = len(positions)
    if algorithm is RING:  # each step is like the others, and there are too many to count them
        step = _step_seconds([(rank, (rank + 1) % ranks, 1) for rank in range(ranks)], size_bytes / ranks, positions, figures)
        return 2 * (ranks - 1) * step
    schedule = algorithm.schedule(ranks)
    chunk_bytes = size_bytes / schedule.num_chunks
    steps = ([(one.source, one.target, len(one.chunks)) for one in step] for step in steps_of(schedule))
    return sum(_step_seconds(step, chunk_bytes, positions, figures) for step in steps)


def _step_seconds(
    transfers: Iterable[tuple[int, int, int]], chunk_bytes: float, positions: Sequence[tuple[int, int]], figures: RackFigures
) -> float:
    """How long transfers take that begin together, each with its source, its target and its number of chunks."""
    within: Counter[tuple[str, int]] = Counter()
    ports: Counter[tuple[str, int]] = Counter()
    uplinks: Counter[tuple[str, int]] = Counter()
    for source, target, chunks in transfers:
        (host, rack), (other_host, other_rack) = positions[source], positions[target]
        loads, ends = (within, (source, target)) if host == other_host else (ports, (host, other_host))
        _add(loads, ends, chunks)
        if rack != other_rack:
            _add(uplinks, (rack, other_rack), chunks)
    seconds = [0.0]
    if within:
        seconds.append(figures.intra_host_latency_s + max(within.values()) * chunk_bytes / figures.intra_host_bandwidth_bytes_per_s)
    if ports:
        seconds.append(figures.latency_s + max(ports.values()) * chunk_bytes / figures.bandwidth_bytes_per_s)
    if uplinks:
        latency_s = figures.latency_s + 2 * figures.hop_latency_s
        busiest_s = max(uplinks.values()) * chunk_bytes / figures.uplink_bandwidth_bytes_per_s
        seconds.append(latency_s + max(busiest_s, max(ports.values()) * chunk_bytes / figures.bandwidth_bytes_per_s))
    return max(seconds)


def _add(loads: Counter[tuple[str, int]], ends: tuple[int, int], chunks: int) -> None:
    loads["out", ends[0]] += chunks
    loads["in", ends[1]] += chunks
