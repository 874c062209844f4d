"""Closures on workers with parameter servers, in a loop of the user's own.

What is scheduled is a word of letters, one a closure, and `j` for a join:

    s   a traced step: reads, computes a gradient, updates the servers
    p   a plain function
    b   a plain function that takes and gives more bytes than a packet has
    z   a plain function that sleeps in virtual time
    r   a plain function that raises an error of its own
    x   a plain function that exits, as `sys.exit` does

`callers=2`: a second caller joins from a task of its own at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.silences import Cut, Silences
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.regression import LEARNING_RATE, START, batches
from simdist.coordinator.closure import MAX_TIME_OUTS
from simdist.errors import AbortedError, DeadlineExceededError, TimedOutError, UnavailableError
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Coordinator", "ClosureError", "excuses_of_servers"]

NAP_S = 3e-4
LARGE = np.ones(250_000, np.float32)


class ClosureError(Exception):
    """What a closure of a workload raises."""


class Coordinator(Workload):
    """See above."""

    name = "coordinator"
    weight = 3.0
    same_result = False
    message_bytes = LARGE.nbytes

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        letters, odds = ["s"], [1.0]
        for letter, share, weight in (("p", 0.4, 0.4), ("z", 0.3, 0.4), ("r", 0.12, 0.08), ("x", 0.06, 0.05)):
            if dice.chance(share):
                letters.append(letter)
                odds.append(weight)
        words = ["".join(dice.pick(letters, odds) for _ in range(dice.whole(1, 12))) for _ in range(dice.whole(1, 3))]
        large = dice.part("bytes")
        script = "".join("b" if letter in "pz" and large.chance(0.5) else letter for letter in "j".join(words))
        return {"script": script, "callers": 2 if dice.chance(0.08) else 1}

    def jobs(self, scenario: Scenario) -> dict[str, int]:
        jobs = {"worker": scenario.workers, "ps": scenario.servers}
        return {**jobs, "evaluator": 1} if scenario.options["callers"] == 2 else jobs

    def run(self, stage: Stage) -> None:
        loop = _Loop(stage)
        for letter in stage.options["script"]:
            if letter == "j":
                loop.join()
            else:
                loop.schedule(letter)
        loop.join()
        stage.keep("count", loop.count.numpy)
        stage.keep("weights", loop.weights.numpy)

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        script, options = scenario.options["script"], scenario.options
        if options["callers"] == 2:
            yield {**options, "callers": 1}
        for size in (len(script) // 2, len(script) // 4, 1):
            if size:
                for first in range(0, len(script), size):
                    less = script[:first] + script[first + size :]
                    if less:
                        yield {**options, "script": less}

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        yield from excuses_of_servers(run)
        if "x" in run.scenario.options["script"]:
            yield AbortedError, "a closure wanted to end the process of its worker"


def excuses_of_servers(run: EndedRun) -> Iterator[Excuse]:
    """What a coordinator cannot mend: variables that died with a server, and no worker left for ever."""
    tasks = run.cluster.tasks
    for server in run.processes.crashed([task for task in tasks if task.startswith("ps")], run.end_s):
        yield UnavailableError, f"{server} died, and its variables with it"
        yield AbortedError, f"{server} came back without its variables"
        if server in run.silences.lost_hosts:
            yield TimedOutError, f"{server} did not answer, as its machine was lost"
    workers = [task for task in tasks if task.startswith("worker")]
    silences, lost = run.silences, run.processes.lost(workers, run.end_s)
    if all(worker in lost or _is_cut_off(silences, worker, run.end_s) for worker in workers):
        yield DeadlineExceededError, "all workers are down or silent for good"
        yield UnavailableError, "all workers are down or silent for good"
    if silences.spread_s(run.end_s) >= MAX_TIME_OUTS * CALL_TIMEOUT_S:
        yield TimedOutError, "messages of each try of a closure may have been lost"


def _is_cut_off(silences: Silences, worker: str, at_s: float) -> bool:
    """Whether a worker stands still, or has lost messages of its work, for good."""
    if any(
        still.until_s == inf and still.from_s <= at_s and (still.task == worker or still.task.startswith("ps")) for still in silences.stills
    ):
        return True
    return any(
        cut.until_s == inf
        and cut.is_sure
        and cut.from_s <= at_s
        and worker in (cut.source, cut.target)
        and not {cut.source, cut.target} <= set(_workers(cut))
        for cut in silences.cuts
    )


def _workers(cut: Cut) -> list[str]:
    return [task for task in (cut.source, cut.target) if task.startswith("worker")]


class _Loop:
    """The user's loop."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        strategy = sd.ParameterServerStrategy(stage.cluster)
        self.coordinator = sd.ClusterCoordinator(strategy)
        with strategy.scope():
            self.weights = sd.Variable(START, name="weights")
            self.count = sd.Variable(np.float32(0.0), name="count")
        self.iterator = iter(self.coordinator.create_per_worker_dataset(lambda: batches(6)))
        self.functions: dict[str, Callable[..., object]] = {
            "p": lambda: 7,
            "b": np.negative,
            "z": self._sleep,
            "r": _raise,
            "x": lambda: sys.exit(3),
        }
        weights, count = self.weights, self.count

        @sd.function
        def step(iterator: Any) -> Any:
            x, y = next(iterator)
            loss, (gradient,) = sd.value_and_grad(lambda: jnp.mean((x @ weights.value - y) ** 2), [weights])()
            weights.assign_sub(LEARNING_RATE * gradient)
            count.assign_add(1.0)
            return loss

        self.step = step

    def _sleep(self) -> None:
        self.stage.cluster.world.clock.sleep(NAP_S)

    def schedule(self, letter: str) -> None:
        # An error of an earlier closure is raised by whatever is called next, once.
        while True:
            try:
                if letter == "s":
                    value = self.coordinator.schedule(self.step, args=(self.iterator,))
                else:
                    value = self.coordinator.schedule(self.functions[letter], args=(LARGE,) if letter == "b" else ())
                break
            except ClosureError as error:
                self._raised(error)
        self.stage.closures.append((letter, value))
        self.stage.note("scheduled", fact=letter)

    def join(self) -> None:
        if self.stage.options["callers"] == 2:
            self.stage.cluster.launch(self._join_too, job="evaluator")
        try:
            self.coordinator.join()
        except ClosureError as error:
            self._raised(error)
        self.stage.observe_served(self.weights.numpy)

    def _join_too(self) -> None:
        try:
            self.coordinator.join()
        except ClosureError as error:
            self._raised(error)

    def _raised(self, error: ClosureError) -> None:
        self.stage.note("raised", fact=str(error))


def _raise() -> None:
    raise ClosureError("an error of the closure's own")
