"""The protocol of a workload: a program that uses the library as people use it, and its expected results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from simdist.chaos.dice import Dice
from simdist.chaos.incarnations import Incarnations
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.silences import Silences
from simdist.chaos.stage import Stage
from simdist.errors import UnavailableError
from simdist.runtime.cluster import Cluster

__all__ = ["EndedRun", "Excuse", "Workload"]

Excuse = tuple[type[BaseException], str]
"""A class of errors with which a run may end, and why."""


class EndedRun(Protocol):
    """The result of a scenario, as its workload judges it (`simdist.chaos.runs.ScenarioRun`).

    Attributes:
        stage: what the workload saw.
        processes: who was up when.
        silences: who was silent when.
        end_s: when it ended.
    """

    scenario: Scenario
    cluster: Cluster
    stage: Stage
    processes: Incarnations
    silences: Silences
    end_s: float


class Workload(ABC):
    """A workload. To add one: a file here, and an entry in `WORKLOADS`.

    Attributes:
        name: as scenarios write it.
        weight: how often it is drawn, among those that fit.
        needs_numbers: whether it cannot run with timing only.
        most_workers: how many make sense.
        same_result: whether a run that was disturbed and ended well ends with the numbers of one that was not.
        same_costs: whether a kernel of one name costs the same in each step.
        same_memory: whether tasks hold in the end what they hold in the undisturbed run.
        uses_disks: whether tasks use their disks, with some of its options.
        has_mains: whether it launches mains, and notes when they start and end.
        scales_s: spans of time that matter to its recovery.
        message_bytes: of its largest message, where that takes long.
    """

    name: str
    weight: float = 1.0
    needs_numbers: bool = False
    most_workers: int = 20
    same_result: bool = True
    same_costs: bool = True
    same_memory: bool = True
    uses_disks: bool = False
    has_mains: bool = False
    scales_s: tuple[float, ...] = ()
    message_bytes: float = 0.0

    @abstractmethod
    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        """Options, for a cluster that was drawn already."""

    @abstractmethod
    def run(self, stage: Stage) -> None:
        """Run it; what it raises is how it ended."""

    def jobs(self, scenario: Scenario) -> dict[str, int]:
        """The jobs of its cluster."""
        return {"worker": scenario.workers}

    def roles(self, scenario: Scenario) -> dict[str, tuple[str, ...]]:
        """Who may be hit."""
        jobs = self.jobs(scenario)
        roles = {"worker": "worker", "server": "ps"}
        found = {role: tuple(f"{job}:{index}" for index in range(jobs.get(job, 0))) for role, job in roles.items()}
        return {**found, "chief": ("chief:0",)}

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        """Options that make less of it."""
        for name, value in scenario.options.items():
            if value is True:
                yield {**scenario.options, name: False}
            elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
                for less in dict.fromkeys((1, value // 2, value - 1)):
                    yield {**scenario.options, name: less}

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        """The errors with which this run may end, by explicit rules; without any it has to end well."""
        if run.processes.crashed(["chief:0"], run.end_s):
            yield UnavailableError, "the chief, whose program this is, died"

    def expected(self, scenario: Scenario) -> dict[str, np.ndarray]:
        """The expected result, computed without the engine; empty where it is not known."""
        return {}

    def replayed(self, run: EndedRun) -> dict[str, np.ndarray]:
        """The expected result of a run that ended well, computed without the engine from what its trace says happened; empty where it
        does not say enough."""
        return {}
