"""A scenario: everything that one run of a campaign depends on, as data that fits on a few lines of JSON.

A scenario names a workload (`simdist.chaos.workloads`) and its options, a cluster and its figures, what disturbs it
(`simdist.chaos.kinds`), and where numbers are read on the way. The same scenario gives the same run in every process.

Invariant: `Scenario.from_json(scenario.to_json()) == scenario`. Figures that have their default are left out of the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast

from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, Exponential, Jitter, LogNormal, Network, NoJitter, Uniform

__all__ = ["Chips", "Disturbance", "Options", "Scenario", "Wires"]

# An object of JSON: whoever wrote a key knows the type of its value.
Options: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Wires:
    """The network of a scenario: bytes per second and seconds of a port, and hosts per rack (0: one switch)."""

    bandwidth: float = 1.25e9
    latency_s: float = 50e-6
    tasks_per_rack: int = 0
    oversubscription: float = 1.0

    def network(self) -> Network:
        network = Network(bandwidth=self.bandwidth, latency=self.latency_s)
        return network.in_racks(self.tasks_per_rack, self.oversubscription) if self.tasks_per_rack else network


@dataclass(frozen=True)
class Chips:
    """The device of every task: seconds that each program costs, and how they vary."""

    launch_overhead_s: float = 20e-6
    jitter: str = "none"
    spread: float = 0.0

    def device(self) -> Device:
        return Device(launch_overhead=self.launch_overhead_s, jitter=self._jitter())

    def _jitter(self) -> Jitter:
        match self.jitter:
            case "none":
                return NoJitter()
            case "uniform":
                return Uniform(1.0 - self.spread, 1.0 + self.spread)
            case "lognormal":
                return LogNormal(self.spread)
            case "exponential":
                return Exponential()
            case _:
                raise InvalidArgumentError(f"jitter={self.jitter!r} is not known; use 'none', 'uniform', 'lognormal' or 'exponential'.")


@dataclass(frozen=True)
class Disturbance:
    """One disturbance of a scenario: a kind, a task and figures.

    Args:
        kind: its name in `simdist.chaos.kinds`.
        task: whom it befalls.
        at_s: the virtual second; or
        after_steps: after so many steps of that task; or
        when: as soon as the trace has so many instants of a category: ``("detect", 1)``.
        figures: whatever else the kind needs.
    """

    kind: str
    task: str
    at_s: float | None = None
    after_steps: int | None = None
    when: tuple[str, int] | None = None
    figures: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """One run of a campaign.

    Args:
        workload: its name in `simdist.chaos.workloads`.
        options: of the workload.
        workers, servers: how many tasks of each job the cluster has.
        wires, chips: network and devices.
        numerics: the cluster's word: "off" for timing only.
        disturbances: what goes wrong.
        reads: the numbers of the workload's observation points at which numbers are read.
        seed: the cluster's.

    Example:
        >>> scenario = Scenario("mains", {"naps": 2}, workers=2)
        >>> scenario.to_json()
        '{"options": {"naps": 2}, "workers": 2, "workload": "mains"}'
        >>> Scenario.from_json(scenario.to_json()) == scenario
        True
    """

    workload: str
    options: Options = field(default_factory=dict)
    workers: int = 1
    servers: int = 1
    wires: Wires = Wires()
    chips: Chips = Chips()
    numerics: str = "off"
    disturbances: tuple[Disturbance, ...] = ()
    reads: tuple[int, ...] = ()
    seed: int = 0

    @property
    def has_numbers(self) -> bool:
        return self.numerics != "off"

    def to_json(self) -> str:
        return json.dumps(_plain(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Scenario:
        """The scenario of a text that `to_json` made.

        Raises:
            InvalidArgumentError: the text is no scenario.
        """
        try:
            given: Options = json.loads(text)
            disturbances = tuple(_disturbance(item) for item in given.pop("disturbances", ()))
            wires, chips = Wires(**given.pop("wires", {})), Chips(**given.pop("chips", {}))
            reads = tuple(given.pop("reads", ()))
            return cls(**given, reads=reads, wires=wires, chips=chips, disturbances=disturbances)
        except (TypeError, ValueError, AttributeError) as error:
            raise InvalidArgumentError(f"This is no scenario: {error}. Give the text that Scenario.to_json() made.") from error


def _disturbance(given: Options) -> Disturbance:
    when = given.pop("when", None)
    return Disturbance(**given, when=None if when is None else (str(when[0]), int(when[1])))


def _plain(value: object) -> object:
    """A structure of JSON; of a record, the fields that differ from their defaults."""
    if isinstance(value, (Scenario, Wires, Chips, Disturbance)):
        stated = {item.name: getattr(value, item.name) for item in fields(value)}
        return {name: _plain(own) for name, own in stated.items() if own != _default(value, name)}
    return [_plain(item) for item in cast("Sequence[object]", value)] if isinstance(value, (tuple, list)) else value


def _default(value: Scenario | Wires | Chips | Disturbance, name: str) -> object:
    item = next(item for item in fields(value) if item.name == name)
    return item.default_factory() if callable(item.default_factory) else item.default
