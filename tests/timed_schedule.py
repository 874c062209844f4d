"""Collectives timed by the engine's own transfers, on ports that a test makes up: a switch, or hosts whose ranks share a port."""

from __future__ import annotations

from simdist.collectives.base import Schedule
from simdist.runtime.simulated.transfers import RoutedSchedule
from simdist.runtime.simulated.uncontended import uncontended_seconds
from simdist.simulation.fabric import Route
from simdist.simulation.network import Link


def timed(
    schedule: Schedule,
    size_bytes: float,
    latency_s: float,
    bandwidth_bytes_per_s: float,
    ranks_per_host: int = 1,
    intra_host_latency_s: float = 0.0,
    intra_host_bandwidth_bytes_per_s: float = 1e12,
) -> float:
    """Seconds until the last byte of a collective has arrived, where nothing else is on the way.

    A message between hosts leaves and enters by the hosts' ports, which their ranks share; one within a host by the ranks' own.
    """
    bandwidths = {False: bandwidth_bytes_per_s, True: intra_host_bandwidth_bytes_per_s}
    ports = {
        (is_inside, end, way): Link(f"{end}/{way}", bandwidth)
        for is_inside, bandwidth in bandwidths.items()
        for end in range(schedule.num_ranks)
        for way in ("out", "in")
    }

    def route(source: int, target: int) -> Route:
        is_inside = source // ranks_per_host == target // ranks_per_host
        first, last = (end if is_inside else end // ranks_per_host for end in (source, target))
        return Route((ports[is_inside, first, "out"], ports[is_inside, last, "in"]), intra_host_latency_s if is_inside else latency_s)

    return max(uncontended_seconds(RoutedSchedule(schedule, route, size_bytes)))
