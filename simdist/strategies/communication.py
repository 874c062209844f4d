"""Communication of the replicas of a strategy: the options of users, and the collective plans that follow.

Taught in lesson 03a.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, cast

from simdist.arguments import END_S, known_word, number, shown, whole_number
from simdist.collectives import ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE, REDUCE_SCATTER
from simdist.collectives.base import Algorithm, Schedule, Transfer
from simdist.collectives.choose import CANDIDATES, choose
from simdist.collectives.in_racks import RackFigures, seconds_in_racks
from simdist.errors import InvalidArgumentError
from simdist.hardware import FlatSwitch, Racks
from simdist.program.collective import Collective
from simdist.runtime.base import Engine
from simdist.runtime.replicas import CollectivePlan
from simdist.variables.compressed_sum import CompressedSum

__all__ = ["CommunicationImplementation", "CommunicationOptions", "GroupCommunication"]


class CommunicationImplementation(Enum):
    """The library that carries out collectives.

    Attributes:
        AUTO: chooses by size, topology and kind of device, among those that a library for these devices has: "hierarchical copy" is
            not among them, and may be faster where workers have several devices each.
        RING: always a ring.
        NCCL: chooses between the ring and the double tree.

    Example:
        >>> CommunicationOptions(implementation=CommunicationImplementation.RING).implementation.name
        'RING'
    """

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@dataclass(frozen=True)
class CommunicationOptions:
    """A user's options for the collectives of a strategy.

    Args:
        bytes_per_pack: gradients, and what one call of a replica's `all_reduce` is given, travel in packs, the last array first; a new one
            begins after one with more bytes than this. 0: all in one.
        timeout_seconds: how long the first replica at a collective waits for the last, or for the main of the last that starts again
            meanwhile, from then on; None for ever. One that cannot end because bytes
            were lost, or a task is paused or gone without a word, is given up after as long; with None after 30 s. Where a notebook drives
            the workers it hears their heartbeats, and gives up one that was silent for 5 s, however long this is.
        implementation: a `CommunicationImplementation`, or its name.
        algorithm: one all-reduce by its name ("ring", "recursive doubling", ...), whatever the implementation would choose.
        num_packs: the number of equal parts into which the gradients of each dtype are cut, whatever their layers; default 1. Gradients
            with fewer numbers than parts travel in one.
        compression: a compressor of gradients (`simdist.collectives.compression`); default none. It has no effect with one replica, whose
            gradients do not travel.

    Raises:
        InvalidArgumentError: a negative pack or time-out, an unknown word, or more than one of the packs and compression.
        TypeError: a number of another type.

    Example:
        >>> CommunicationOptions(bytes_per_pack=1 << 20, implementation="RING").implementation.name
        'RING'
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation = CommunicationImplementation.AUTO
    algorithm: str | None = None
    compression: Any = None
    num_packs: int = 1

    def __post_init__(self) -> None:
        whole_number(self.bytes_per_pack, "bytes_per_pack", 0)
        whole_number(self.num_packs, "num_packs", 1)
        if self.timeout_seconds is not None:
            object.__setattr__(self, "timeout_seconds", number(self.timeout_seconds, "timeout_seconds", below=END_S))
            if not self.timeout_seconds:
                raise InvalidArgumentError("timeout_seconds=0 must be a positive number of seconds, or None for ever.")
        plans = [name for name, wanted in self.of_gradients().items() if wanted]
        if len(plans) > 1:
            raise InvalidArgumentError(f"{' and '.join(plans)} are different ways for gradients to travel. Choose one of them.")
        word = known_word(self.implementation, "implementation", CommunicationImplementation.__members__, any_case=True)
        object.__setattr__(self, "implementation", CommunicationImplementation(word))
        if self.compression is not None:
            CompressedSum(self.compression)
        if self.algorithm is not None:
            object.__setattr__(self, "algorithm", known_word(self.algorithm, "algorithm", ALL_REDUCE))

    def of_gradients(self) -> dict[str, bool]:
        """Which of the options that concern gradients alone say something."""
        return {
            "bytes_per_pack": self.bytes_per_pack > 0,
            "num_packs": self.num_packs > 1,
            "compression": self.compression is not None,
        }

    @staticmethod
    def of_call(options: Any, in_packs: bool = False) -> CommunicationOptions | None:
        """Options for one collective that is not of an optimizer, checked.

        Args:
            options: of a user.
            in_packs: whether what travels can be packed.

        Raises:
            InvalidArgumentError: something else, or options that concern gradients alone.
        """
        if options is None:
            return None
        if not isinstance(options, CommunicationOptions):
            raise InvalidArgumentError(f"options must be sd.CommunicationOptions(...); got {options!r}.")
        wanted = [name for name, said in options.of_gradients().items() if said and not (in_packs and name == "bytes_per_pack")]
        if wanted:
            raise InvalidArgumentError(f"{', '.join(wanted)} concern gradients: give them to the strategy, not to one call.")
        return options

    @staticmethod
    def of_gather(options: Any) -> CommunicationOptions | None:
        """Options for one all-gather, checked.

        Raises:
            InvalidArgumentError: as `of_call`; or an algorithm, which is one of an all-reduce.
        """
        checked = CommunicationOptions.of_call(options)
        if checked is not None and checked.algorithm is not None:
            raise InvalidArgumentError(
                f"algorithm={checked.algorithm!r} is that of an all-reduce, and an all-gather is always a ring. Leave it out."
            )
        return checked

    def merge(self, other: CommunicationOptions | None) -> CommunicationOptions:
        """These options, overruled by what `other` says that is not its default.

        Example:
            >>> CommunicationOptions(5, 1.0, "RING").merge(CommunicationOptions(timeout_seconds=9.0)).bytes_per_pack
            5
        """
        if other is None:
            return self
        if not isinstance(cast("object", other), CommunicationOptions):
            raise TypeError(f"merge takes sd.CommunicationOptions(...); got {shown(other)}")
        default = CommunicationOptions()
        fields = CommunicationOptions.__dataclass_fields__
        values = {name: getattr(other, name) if getattr(other, name) != getattr(default, name) else getattr(self, name) for name in fields}
        return CommunicationOptions(**values)


class GroupCommunication:
    """The collective plans of one strategy, from its links; see `simdist.runtime.base.Communication`.

    Args:
        engine: where they are.
        options: of the strategy.
        reducer_device: a device that adds what changes variables, and keeps the sum; where it is none of theirs, it adds all else, too,
            and sends the sums back.
        backup_workers: how many replicas a step does not wait for.
        local_updates: whether each replica takes steps of its own between two averages.
    """

    def __init__(
        self,
        engine: Engine,
        options: CommunicationOptions,
        reducer_device: str | None = None,
        backup_workers: int = 0,
        local_updates: bool = False,
    ) -> None:
        self.engine = engine
        self.options = options
        self.timeout_s = options.timeout_seconds
        self.reducer_device = reducer_device
        self.backup_workers = backup_workers
        self.local_updates = local_updates
        self._plans: dict[Any, CollectivePlan] = {}

    def plan(self, collective: Collective, devices: tuple[str, ...]) -> CollectivePlan:
        """The plan of a collective; the same for equal collectives."""
        equivalent_devices = self.equivalent_devices(devices)
        key = (collective.travels_as, collective.size_bytes, equivalent_devices, collective.options, collective.is_for_update)
        if key not in self._plans:
            self._plans[key] = self._plan(collective, equivalent_devices)
        plan = self._plans[key]
        return plan if equivalent_devices == devices else replace(plan, devices=devices, equivalent_devices=plan.devices)

    def equivalent_devices(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        """Devices with equal durations: on one switch with equal ports, any other tasks will do."""
        network = self.engine.network
        # A subclass may have ports that differ.
        even = type(network.topology) is FlatSwitch and not network.overrides and self.reducer_device is None
        return tuple(list(self.engine.task_names)[: len(devices)]) if even and not any("/" in device for device in devices) else devices

    def _plan(self, collective: Collective, devices: tuple[str, ...]) -> CollectivePlan:
        wanted = collective.options
        options = self.options.merge(wanted if isinstance(wanted, CommunicationOptions) else None)
        reducer = self.reducer_device
        if collective.travels_as == "all_reduce" and reducer is not None and (collective.is_for_update or reducer not in devices):
            return reducer_plan(devices, reducer, keeps_sum=collective.is_for_update)
        algorithm = self._algorithm(collective, devices, options)
        schedule = algorithm.schedule(len(devices))
        return CollectivePlan(algorithm.name, schedule, schedule, devices)

    def _algorithm(self, collective: Collective, devices: tuple[str, ...], options: CommunicationOptions) -> Algorithm:
        if collective.travels_as != "all_reduce":
            return USUAL[collective.travels_as]
        if options.algorithm is not None:
            return ALL_REDUCE[options.algorithm]
        if options.implementation is CommunicationImplementation.RING:
            return ALL_REDUCE["ring"]
        return self.chosen(collective.size_bytes, devices, options)

    def chosen(self, size_bytes: int, devices: tuple[str, ...], options: CommunicationOptions) -> Algorithm:
        """The all-reduce that is predicted to be the fastest for these devices."""
        hosts: dict[str, list[str]] = {}
        for device in devices:
            hosts.setdefault(device.partition("/")[0], []).append(device)
        kinds = {device.partition("/")[2].partition(":")[0] or "cpu" for device in devices}
        first = next(iter(hosts.values()))
        inside = self.engine.path_figures(first[0], first[-1]) if len(first) > 1 else (None, None)
        between = self.engine.path_figures(next(iter(hosts)), list(hosts)[-1]) if len(hosts) > 1 else inside
        nccl = options.implementation is CommunicationImplementation.NCCL
        kind = "gpu" if nccl else kinds.pop() if len(kinds) == 1 else "mixed"
        topology = self.engine.network.topology
        if isinstance(topology, Racks):
            positions = self._positions(devices, topology)
            if len({rack for _, rack in positions}) > 1:
                figures = self._rack_figures(topology, positions, inside)
                return min(CANDIDATES[kind], key=lambda algorithm: seconds_in_racks(algorithm, size_bytes, positions, figures))
        return choose(
            len(devices),
            size_bytes,
            between[0] or 0.0,
            between[1] or float("inf"),
            ranks_per_host=len(first) if len(hosts) > 1 else 1,
            device_kind=kind,
            intra_host_latency_s=inside[0],
            intra_host_bandwidth_bytes_per_s=inside[1],
        )

    def _positions(self, devices: tuple[str, ...], racks: Racks) -> list[tuple[int, int]]:
        """The host and the rack of each device."""
        hosts = {name: number for number, name in enumerate(self.engine.task_names)}
        numbers = [hosts[device.partition("/")[0]] for device in devices]
        return [(number, number // racks.tasks_per_rack) for number in numbers]

    def _rack_figures(self, racks: Racks, positions: list[tuple[int, int]], inside: tuple[float | None, float | None]) -> RackFigures:
        """The figures of the way from the first rack to another one; the links of a user's own racks may have any names."""
        network, hosts = self.engine.network, list(self.engine.task_names)
        first, rack = positions[0]
        other = next(number for number, another in positions if another != rack)
        links = {link.name: link for link in racks.links(hosts, network.bandwidth, network.latency)}
        ports = (*racks.port(hosts, first), *racks.port(hosts, other))
        between = [links[name] for name in racks.route(hosts, first, other) if name not in ports]
        uplink_bandwidth = min([link.bandwidth for link in between], default=float("inf"))
        hop_latency_s = sum([link.latency for link in between]) / 2
        return RackFigures(network.latency, network.bandwidth, uplink_bandwidth, hop_latency_s, inside[0] or 0.0, inside[1] or float("inf"))


USUAL = {
    "all_gather": ALL_GATHER["ring"],
    "broadcast": BROADCAST["binomial"],
    "reduce": REDUCE["binomial"],
    "reduce_scatter": REDUCE_SCATTER["ring"],
}


def reducer_plan(devices: tuple[str, ...], reducer_device: str, keeps_sum: bool) -> CollectivePlan:
    """The plan in which all send to one device, perhaps to another one than theirs, which adds in the order of their ranks.

    Args:
        keeps_sum: whether it keeps the sum; otherwise it sends the sum back to all.
    """
    n = len(devices)
    ranks = devices if reducer_device in devices else (*devices, reducer_device)
    reducer = ranks.index(reducer_device)
    others = [rank for rank in range(len(ranks)) if rank != reducer]
    transfers = [Transfer(0, rank, reducer, (0,), True) for rank in others]
    if not keeps_sum:
        transfers += [Transfer(1, reducer, rank, (0,), False) for rank in others]
    travel = Schedule("reduce" if keeps_sum else "all_reduce", "reduction to one", len(ranks), 1, tuple(transfers))
    return CollectivePlan("reduction to one", ALL_REDUCE["reduction to one"].schedule(n), travel, ranks)
