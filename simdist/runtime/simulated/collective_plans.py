"""What the collectives of one strategy need each time: who sends what where, how long that takes, how the numbers are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.collectives.base import Schedule
from simdist.ledger.entry import Site
from simdist.program.collective import Collective
from simdist.program.values import Bundle
from simdist.runtime.combining import Combination, Combinations
from simdist.runtime.replicas import CollectivePlan
from simdist.runtime.simulated.transfers import RoutedSchedule, uncontended_seconds
from simdist.runtime.simulated.world import World
from simdist.simulation.network import Link

__all__ = ["CollectivePlans"]


class CollectivePlans:
    """Worked out once for each kind of exchange."""

    def __init__(self) -> None:
        # By the identity of the schedule, which is kept with the wiring.
        self._wired: dict[tuple[int, tuple[str, ...], float], tuple[Schedule, RoutedSchedule]] = {}
        self._rehearsed: dict[RoutedSchedule, tuple[list[float], list[float]]] = {}
        self._combinations = Combinations()
        self._sites: dict[Combination, Site] = {}

    def routed(self, world: World, plan: CollectivePlan, devices: tuple[str, ...], size_bytes: float) -> RoutedSchedule:
        """Who sends what where, between these places.

        Args:
            size_bytes: of each rank's data.
        """
        key = (id(plan.travel), devices, size_bytes)
        known = self._wired.get(key)
        if known is not None:
            return known[1]
        tasks = [world.task_of(device) for device in devices]
        made = RoutedSchedule(plan.travel, lambda a, b: world.routes.between(devices[a], devices[b]), size_bytes, tasks)
        if not plan.equivalent_devices or devices == plan.equivalent_devices:
            # Whoever is dropped differs from step to step: only what comes again is kept.
            self._wired[key] = plan.travel, made
        return made

    def carried(self, world: World, plan: CollectivePlan, routed: RoutedSchedule) -> dict[Link, float]:
        """What each link will carry, on the links of the places of a way."""
        if not plan.equivalent_devices:
            return routed.carried
        here = dict(zip(plan.equivalent_devices, plan.devices, strict=True))
        named = ((link.name.rpartition("/"), num_bytes) for link, num_bytes in routed.carried.items())
        return {world.fabric.link(f"{here[device]}/{port}"): num_bytes for (device, _, port), num_bytes in named}

    def rehearsed(self, routed: RoutedSchedule, carried: dict[Link, float]) -> list[float]:
        """How long each rank takes where nobody is in the way, with the links' present bandwidths, in seconds."""
        capacities = [link.bandwidth_bytes_per_s for link in carried]
        known = self._rehearsed.get(routed)
        if known is None or known[0] != capacities:
            known = self._rehearsed[routed] = (capacities, uncontended_seconds(routed))
        return known[1]

    def combined(
        self, world: World, collective: Collective, plan: CollectivePlan, given: Sequence[Bundle], scale: float, where: Any
    ) -> Sequence[Bundle]:
        """What each replica gets.

        Args:
            given: the bundle of each replica that takes part, by rank.
            scale: factor on sums; 1 unless some replicas were dropped.
            where: task, step and second, for error messages.
        """
        combination = self._combinations.of(collective, plan.schedule, tuple([bundle.avals for bundle in given]), scale)
        if combination.kernel is None:
            return [given[0]] * len(given)
        site = self._sites.get(combination)
        if site is None:
            site = self._sites[combination] = world.ledger.site(combination.kernel, combination.reads, combination.writes)
        results = world.ledger.call(site, given, None, (), where)
        return list(results) * len(given) if combination.is_shared else results
