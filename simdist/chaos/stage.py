"""The stage on which a workload runs: its cluster, and where it leaves what it saw."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from simdist.chaos.scenarios import Scenario
from simdist.coordinator.remote_value import RemoteValue
from simdist.errors import UnavailableError
from simdist.program.arrays import ArrayLike
from simdist.runtime.cluster import Cluster

__all__ = ["Note", "Read", "Result", "Stage", "this_task"]

# A function that gives numbers.
Read: TypeAlias = Callable[[], ArrayLike]

# What a launched main gives: numbers, or nothing.
Result: TypeAlias = np.ndarray | int | None


@dataclass(frozen=True)
class Note:
    """An event that a workload noted: "starts", "ends" and "fails" of a main, "scheduled", "raised", and the like."""

    what: str
    task: str
    time_s: float
    fact: object = None


class Stage:
    """The cluster of a workload, and the notes and values that it leaves.

    Attributes:
        notes: what it saw, in order.
        values: numbers at its end, by name; those of one name under several tasks are copies.
        restores: what was saved, and what was found after each restore of it.
        closures: remote values, each with the letter of its script.
        looks: how many places for a look there were.
        before_looks: called with the number of a look and the function that reads.
    """

    def __init__(self, scenario: Scenario, cluster: Cluster) -> None:
        self.scenario = scenario
        self.cluster = cluster
        self.options = scenario.options
        self.notes: list[Note] = []
        self.values: dict[str, np.ndarray] = {}
        self.copies: dict[str, list[np.ndarray]] = {}
        self.closures: list[tuple[str, RemoteValue]] = []
        self.restores: list[tuple[np.ndarray, np.ndarray]] = []
        self.results: dict[str, tuple[int, Result] | None] = {}
        self.observations = 0
        self.before_observations: list[Callable[[int, Read], None]] = []

    def note(self, what: str, task: str = "chief:0", fact: object = None) -> None:
        self.notes.append(Note(what, task, self.cluster.now, fact))

    def observe(self, read: Read) -> None:
        """An observation point: `read` is called if the scenario says so."""
        self.observations += 1
        if self.scenario.has_numbers and (self.observations in self.scenario.reads or self._disturbed()):
            self._observe(read)

    def observe_served(self, read: Read) -> None:
        """An observation point for variables on servers. Of lost ones there is nothing to see; what needs them fails by itself."""
        with suppress(UnavailableError):
            self.observe(read)

    def _disturbed(self) -> bool:
        return any(d.figures.get("observation") == self.observations for d in self.scenario.disturbances)

    def _observe(self, read: Read) -> ArrayLike:
        for before in self.before_observations:
            before(self.observations, read)
        return read()

    def keep(self, name: str, read: Read) -> None:
        """Read a number and keep it; with timing only there is none."""
        self.observations += 1
        if self.scenario.has_numbers:
            self.values[name] = np.array(self._observe(read))

    def keep_copies(self, name: str, read: Callable[[], Iterable[ArrayLike]]) -> None:
        """The copies of a value that are to agree."""
        if self.scenario.has_numbers:
            self.copies[name] = [np.array(value) for value in read()]


def this_task() -> str:
    """The task of the launched main that asks, as its TF_CONFIG says it."""
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return f"{task['type']}:{task['index']}"
