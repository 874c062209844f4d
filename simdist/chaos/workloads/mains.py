"""Launched mains that sleep, and do nothing else: what is left when no strategy can hide a mistake.

mains           each sleeps a few times and returns
trained-mains   each makes a strategy and trains, all of them together
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING

import numpy as np

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.stage import Result, this_task
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.plain import descend
from simdist.chaos.workloads.regression import BATCH_SIZES, Training
from simdist.errors import AbortedError, DeadlineExceededError, UnavailableError
from simdist.runtime.simulated.collective_timeouts import COLLECTIVE_TIMEOUT_S

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Launched", "Mains", "TrainedMains"]

BACK_OFF_S = 1.0


class Launched(Workload):
    """Mains that note when they start, end and fail; with restart="always" they have to come to an end."""

    has_mains = True
    scales_s = (BACK_OFF_S,)

    def launch(self, stage: Stage, body: Callable[[], Result]) -> None:
        """Run a body in a main of each worker, and keep what the mains return."""

        def main() -> tuple[int, Result]:
            task = this_task()
            stage.note("starts", task)
            try:
                result = body()
            except BaseException as error:
                stage.note("fails", task, type(error).__name__)
                raise
            number = sum(note.what == "starts" and note.task == task for note in stage.notes)
            stage.note("ends", task, number)
            return number, result

        launched = stage.cluster.launch(main, restart=stage.options.get("restart", "never"))
        try:
            launched.join()
        finally:
            stage.results = dict(launched.results)

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        workers = [task for task in run.cluster.tasks if task.startswith("worker")]
        ended = {note.task: note.time_s for note in run.stage.notes if note.what == "ends"}
        hit = [down for down in run.processes.downs if down.task in workers and down.from_s <= ended.get(down.task, run.end_s)]
        if run.scenario.options.get("restart", "never") == "never":
            for down in hit:
                yield UnavailableError, f"{down.task} died before its main ended, and restart='never'"
                yield AbortedError, f"{down.task} died before its main ended, and restart='never'"
        for still in run.silences.stills:
            if still.task in workers and still.until_s == inf and still.from_s <= ended.get(still.task, run.end_s):
                yield DeadlineExceededError, f"{still.task} stood still before its main ended, and never went on"
        for task in run.processes.lost(workers, run.end_s):
            if any(down.task == task for down in hit):
                yield UnavailableError, f"{task} died before its main ended, and was not restarted"
                yield DeadlineExceededError, f"{task} died before its main ended, and was not restarted"


class Mains(Launched):
    """Mains that sleep."""

    name = "mains"
    weight = 1.5

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        return {"naps": dice.whole(1, 5), "nap_s": dice.pick([0.001, 0.1, 1.0]), "restart": dice.pick(["never", "always"], [1, 2])}

    def run(self, stage: Stage) -> None:
        def body() -> int:
            for _ in range(stage.options["naps"]):
                stage.cluster.world.clock.sleep(stage.options["nap_s"])
            return stage.options["naps"]

        self.launch(stage, body)


class TrainedMains(Launched):
    """Mains that train together under MultiWorkerMirroredStrategy."""

    name = "trained-mains"
    weight = 2.0
    most_workers = 6

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        training = {"steps": dice.whole(2, 6), "batch": dice.pick(BATCH_SIZES), "momentum": dice.chance(0.5)}
        return {**training, "restart": dice.pick(["never", "always"], [1, 2])}

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        return (options for options in super().smaller(scenario) if options["batch"] == scenario.options["batch"])

    def run(self, stage: Stage) -> None:
        def body() -> np.ndarray | None:
            training = Training(sd.MultiWorkerMirroredStrategy(), stage.options["batch"], stage.options["momentum"])
            for _ in range(stage.options["steps"]):
                training.step()
            return training.value() if stage.scenario.has_numbers else None

        self.launch(stage, body)
        if stage.scenario.has_numbers:
            weights = [end[1] for end in stage.results.values() if end is not None and end[1] is not None]
            stage.keep("weights", lambda: weights[0])
            stage.keep_copies("weights", lambda: weights)

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        ends = {note.task: note.time_s for note in run.stage.notes if note.what == "ends"}
        # A main that has ended needs no other one; one that died before its end has no partner when it comes back.
        deaths = [down for down in run.processes.downs if down.from_s <= min(ends.get(down.task, run.end_s), run.end_s)]
        workers = [task for task in run.cluster.tasks if task.startswith("worker")]
        silent_s = run.silences.lasted_s(workers, run.end_s)
        gives_up = run.silences.lost_messages(workers, run.end_s) or silent_s >= COLLECTIVE_TIMEOUT_S
        if gives_up and (silent_s == inf or run.scenario.options["restart"] == "never"):
            yield UnavailableError, "a replica or bytes were missing, and the collective was given up"
        if gives_up and ends:
            yield UnavailableError, "a main gave up when another had ended, and then had no partner"
        if any(other != down.task for down in deaths for other in ends):
            yield UnavailableError, "a main died when another had ended, and then had no partner"

    def expected(self, scenario: Scenario) -> dict[str, np.ndarray]:
        options = scenario.options
        return {"weights": descend(options["batch"], options["steps"], options["momentum"])}
