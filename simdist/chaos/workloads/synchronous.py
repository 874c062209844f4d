"""Custom loops under synchronous strategies, driven from one notebook.

mirrored        several devices of one machine
multi-worker    one replica on each worker; a death ends it
elastic         on_failure="continue": goes on as long as one task has the variables
backup          backup_workers=1: a step does not wait for the slowest
local-steps     sync_every=3: an all-reduce in every third step

Those on several workers have an option for the algorithm of their all-reduces, and some for how gradients travel: in packs, or compressed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.holders import somebody_has_the_variables
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.plain import descend, descend_locally
from simdist.chaos.workloads.regression import BATCH_SIZES, Training
from simdist.collectives import ALL_REDUCE, Compressor, Fp16, OneBit, TopK
from simdist.errors import AbortedError, UnavailableError
from simdist.runtime.simulated.collective_timeouts import COLLECTIVE_TIMEOUT_S
from simdist.runtime.simulated.detection import HEARTBEAT_S, SILENCE_S
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.strategies.synchronous.elastic import MAX_TIME_OUTS

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["SYNCHRONOUS", "SynchronousLoop", "excuses_of_deaths"]


# A silence of this length may be one that is noticed: that of the detection, less the time between two heartbeats.
NOTICED_S = SILENCE_S - HEARTBEAT_S

SYNC_EVERY = 3

COMPRESSORS: dict[str, Callable[[], Compressor]] = {"fp16": Fp16, "top-k": lambda: TopK(0.5), "1-bit": OneBit}
"""Of gradients: with these, numbers are no more those of one device."""


class SynchronousLoop(Workload):
    """A loop of steps.

    Args:
        name, weight: of the workload.
        strategy: makes it on a cluster.
        survives: whether it goes on without those that have died.
        promises: whether its numbers are those of one device.
        routes: how gradients may travel, beside all at once: "packs", or a key of `COMPRESSORS`.
    """

    def __init__(
        self,
        name: str,
        weight: float,
        strategy: Callable[[Stage], SynchronousStrategy],
        survives: bool = False,
        promises: bool = True,
        workers: int = 20,
        routes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.weight = weight
        self.strategy = strategy
        self.survives = survives
        self.same_result = self.promises = promises
        self.same_costs = not survives
        self.most_workers = workers
        self.routes = routes

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        return {"steps": dice.whole(2, 8), "batch": dice.pick(BATCH_SIZES), "momentum": dice.chance(0.5), **self._communication(dice)}

    def _communication(self, dice: Dice) -> Options:
        """Options of its collectives; none says: as it is by default."""
        routes, algorithm = dice.part("route"), dice.part("algorithm")
        drawn: Options = {"route": routes.pick(self.routes)} if self.routes and routes.chance(0.5) else {}
        return {**drawn, "algorithm": algorithm.pick(list(ALL_REDUCE))} if algorithm.chance(0.4) else drawn

    def run(self, stage: Stage) -> None:
        training = Training(self.strategy(stage), stage.options["batch"], stage.options["momentum"])
        for _ in range(stage.options["steps"]):
            training.step()
            stage.note("step")
            stage.observe(training.value)
        stage.keep("weights", training.value)
        if self.promises:
            stage.keep_copies("weights", training.copies)

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        for name in ("route", "algorithm"):
            if scenario.options.get(name) is not None:
                yield {**scenario.options, name: None}
        yield from (options for options in super().smaller(scenario) if options["batch"] == scenario.options["batch"])

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        yield from excuses_of_deaths(run, self.survives)

    def expected(self, scenario: Scenario) -> dict[str, np.ndarray]:
        options = scenario.options
        if not self.promises or options.get("route") in COMPRESSORS:
            return {}
        return {"weights": descend(options["batch"], options["steps"], options["momentum"])}


def excuses_of_deaths(run: EndedRun, survives: bool) -> Iterator[Excuse]:
    """A step needs all replicas, or, with survivors, one that has the variables."""
    workers = [task for task in run.cluster.tasks if task.startswith("worker")]
    lasts_s = run.silences.spread_s(run.end_s)
    if run.silences.lost_messages(workers, run.end_s) and (not survives or lasts_s >= MAX_TIME_OUTS * COLLECTIVE_TIMEOUT_S):
        yield UnavailableError, "bytes between two workers with heartbeats were lost, and the chief cannot know which of them to drop"
    if not survives and run.silences.lasted_s(["chief:0", *workers], run.end_s) >= NOTICED_S:
        yield UnavailableError, "a task was silent for so long that the chief detected it, and a step needs all replicas"
    if survives:
        if not somebody_has_the_variables(run.cluster.trace, run.processes, workers, run.end_s, _forgotten(run, workers)):
            yield UnavailableError, "there was a moment when no task had the variables"
        return
    for task in run.processes.crashed(workers, run.end_s):
        yield UnavailableError, f"{task} died, and a step needs all replicas"
        yield AbortedError, f"{task} died, and its copies with it"


def _forgotten(run: EndedRun, workers: list[str]) -> list[tuple[float, str]]:
    """When the chief gave up whose copies: those that it did not hear."""
    marks = run.cluster.trace.instants.where(category="detect")
    return [(mark.time_s, mark.lane) for mark in marks if mark.lane in workers]


def _multi_worker(**options: object) -> Callable[[Stage], SynchronousStrategy]:
    def strategy(stage: Stage) -> SynchronousStrategy:
        fitting: Options = dict(options)
        if "backup_workers" in fitting:
            fitting["backup_workers"] = min(1, stage.scenario.workers - 1)
        return sd.MultiWorkerMirroredStrategy(stage.cluster, communication_options=_communication_of(stage.options), **fitting)

    return strategy


def _communication_of(options: Options) -> sd.CommunicationOptions:
    route = options.get("route")
    compression = COMPRESSORS[route]() if route in COMPRESSORS else None
    return sd.CommunicationOptions(algorithm=options.get("algorithm"), num_packs=2 if route == "packs" else 1, compression=compression)


class Mirrored(SynchronousLoop):
    """Several devices of the first worker."""

    def _communication(self, dice: Dice) -> Options:
        return {}

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        return {**super().draw(dice, scenario), "devices": dice.whole(1, 4)}


class Backup(SynchronousLoop):
    """Steps that drop the gradients of the slowest: whose, the trace says."""

    def replayed(self, run: EndedRun) -> dict[str, np.ndarray]:
        options, ends_s = run.scenario.options, [note.time_s for note in run.stage.notes if note.what == "step"]
        late: list[set[int]] = [set() for _ in ends_s]
        for mark in run.cluster.trace.instants.where(category="drop"):
            if mark.name == "gradient dropped":
                late[bisect_left(ends_s, mark.time_s)].add(int(mark.lane.partition(":")[2]))
        return {"weights": descend(options["batch"], len(ends_s), options["momentum"], run.scenario.workers, late)}


class LocalSteps(SynchronousLoop):
    """Replicas that step alone, and average their weights in every so many steps."""

    def expected(self, scenario: Scenario) -> dict[str, np.ndarray]:
        options = scenario.options
        return {"weights": descend_locally(options["batch"], options["steps"], options["momentum"], scenario.workers, SYNC_EVERY)}


SYNCHRONOUS: list[Workload] = [
    Mirrored("mirrored", 1.0, lambda stage: sd.MirroredStrategy(devices=stage.options["devices"], cluster=stage.cluster), workers=1),
    SynchronousLoop("multi-worker", 1.0, _multi_worker(), routes=("packs", *COMPRESSORS)),
    SynchronousLoop("elastic", 3.0, _multi_worker(on_failure="continue"), routes=("packs",), survives=True),
    Backup("backup", 0.7, _multi_worker(backup_workers=1), routes=("packs",), promises=False),
    LocalSteps("local-steps", 0.7, _multi_worker(sync_every=SYNC_EVERY), promises=False),
]
