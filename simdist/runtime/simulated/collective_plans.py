"""Collective plans of one strategy, with what is the same each time: routes, durations and combinations."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from simdist.collectives.base import Schedule
from simdist.ledger.entry import Site, Where
from simdist.ledger.replica_lane import stacks_of
from simdist.program.collective import Collective
from simdist.program.values import Bundle
from simdist.runtime.combining import Combination, Combinations
from simdist.runtime.replicas import CollectivePlan
from simdist.runtime.simulated.timetable import Timetable
from simdist.runtime.simulated.transfers import RoutedSchedule
from simdist.runtime.simulated.uncontended import uncontended_seconds
from simdist.runtime.simulated.world import World
from simdist.simulation.network import Link
from simdist.trace import Trace

__all__ = ["CollectivePlans"]


class CollectivePlans:
    """Collective plans with their routes, made once for each kind of collective."""

    def __init__(self) -> None:
        # By the identity of the schedule, which is kept with the wiring.
        self._wired: dict[tuple[int, tuple[str, ...], float], tuple[Schedule, RoutedSchedule]] = {}
        self._uncontended: dict[RoutedSchedule, tuple[list[float], list[float]]] = {}
        self._timetables: WeakKeyDictionary[RoutedSchedule, tuple[list[float], Timetable]] = WeakKeyDictionary()
        self._combinations = Combinations()
        self._sites: dict[Combination, Site] = {}
        self._kinds: dict[tuple[str, str, str], tuple[int, int]] = {}

    def routed(self, world: World, plan: CollectivePlan, devices: tuple[str, ...], size_bytes: float) -> RoutedSchedule:
        """The schedule of a plan with the routes between its devices.

        Args:
            size_bytes: of each rank's data.
        """
        key = (id(plan.travel), devices, size_bytes)
        known = self._wired.get(key)
        if known is not None:
            return known[1]
        tasks = [world.task_of(device) for device in devices]
        made = RoutedSchedule(plan.travel, lambda a, b: world.routes.between(devices[a], devices[b]), size_bytes, tasks, devices)
        if not plan.equivalent_devices or devices == plan.equivalent_devices:
            # The dropped replicas differ from step to step: only plans without them are kept.
            self._wired[key] = plan.travel, made
        return made

    def carried(self, world: World, plan: CollectivePlan, routed: RoutedSchedule) -> dict[Link, float]:
        """The bytes that each link will carry in a plan."""
        if not plan.equivalent_devices:
            return routed.carried
        here = dict(zip(plan.equivalent_devices, plan.devices, strict=True))
        named = ((link.name.rpartition("/"), num_bytes) for link, num_bytes in routed.carried.items())
        return {world.fabric.link(f"{here[device]}/{port}"): num_bytes for (device, _, port), num_bytes in named}

    def uncontended_seconds(self, routed: RoutedSchedule, carried: dict[Link, float]) -> list[float]:
        """The seconds that each rank takes on uncontended links, with the links' present bandwidths."""
        capacities = [link.bandwidth_bytes_per_s for link in carried]
        known = self._uncontended.get(routed)
        if known is None or known[0] != capacities:
            known = self._uncontended[routed] = (capacities, uncontended_seconds(routed))
        return known[1]

    def timetable(self, routed: RoutedSchedule, carried: dict[Link, float]) -> Timetable:
        """Where the transfers are on uncontended links, with the links' present bandwidths."""
        capacities = [link.bandwidth_bytes_per_s for link in carried]
        known = self._timetables.get(routed)
        if known is None or known[0] != capacities:
            known = self._timetables[routed] = (capacities, Timetable(routed))
        return known[1]

    def kinds_of_spans(self, trace: Trace, device: str, name: str, algorithm: str, bytes_type: type) -> tuple[int, int]:
        """The kinds of spans of a wait for a collective, and of the collective itself, on the lane of a device."""
        found = self._kinds.get((device, name, algorithm))
        if found is None:
            wait = trace.kind(device, "wait", f"wait for {name}")
            found = wait, trace.kind(device, "collective", name, {"bytes": bytes_type}, algorithm=algorithm)
            self._kinds[device, name, algorithm] = found
        return found

    def combined(
        self, world: World, collective: Collective, plan: CollectivePlan, given: Sequence[Bundle], scale: float, where: Where
    ) -> Sequence[Bundle]:
        """The results of each replica.

        Args:
            given: the bundle of each replica that takes part, by rank.
            scale: factor on sums; 1 unless some replicas were dropped.
            where: task, step and second, for error messages.
        """
        stacks = stacks_of(given) if collective.kind == "all_reduce" or collective.gives_rows else []
        types = tuple([bundle.avals for bundle in stacks or given])
        if stacks:
            combination, given = self._combinations.of_stacks(collective, plan.schedule, types, scale), stacks
        else:
            combination = self._combinations.of(collective, plan.schedule, types, scale)
        if combination.kernel is None:
            return [given[0]] * len(given)
        num_ranks = len(plan.devices)
        site = self._sites.get(combination)
        if site is None:
            site = self._sites[combination] = world.ledger.site(combination.kernel, combination.reads, combination.writes)
        results = world.ledger.call(site, given, None, (), where)
        return list(results) * num_ranks if combination.is_shared else results
