"""A loop that saves checkpoints and goes back to them: where its word says so, and after each failure, for which it builds all again.

What it does is a word of letters:

    t   a training step
    s   save
    r   restore the newest checkpoint

What was saved is kept here, too, so that an invariant can compare. `under` says by which strategy it trains.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist.chaos.dice import Dice
from simdist.chaos.scenarios import Options, Scenario
from simdist.chaos.workloads.base import EndedRun, Excuse, Workload
from simdist.chaos.workloads.coordinator import excuses_of_servers
from simdist.chaos.workloads.plain import descend
from simdist.chaos.workloads.regression import BATCH_SIZES, LEARNING_RATE, MOMENTUM, START, Training, batches
from simdist.chaos.workloads.synchronous import excuses_of_deaths
from simdist.errors import AbortedError, DataLossError, ResourceExhaustedError, TimedOutError, UnavailableError

if TYPE_CHECKING:
    from simdist.chaos.stage import Stage

__all__ = ["Checkpoints"]

FAILURES = (UnavailableError, AbortedError, ResourceExhaustedError)
MOST_FAILURES = 4
BACK_OFF_S = 1.0
STEPS = "steps"


class Checkpoints(Workload):
    """See above."""

    name = "checkpoints"
    weight = 0.7  # it writes files
    needs_numbers = True
    most_workers = 4
    same_result = False
    same_costs = False
    same_memory = False  # what is built again takes room beside what it replaces
    uses_disks = True
    scales_s = (BACK_OFF_S,)

    def draw(self, dice: Dice, scenario: Scenario) -> Options:
        letters = dice.part("acts")
        return {
            "under": dice.part("under").pick(["servers", "elastic", "multi-worker"]),
            "acts": "ts" + "".join(letters.pick("tsr", [4, 2, 1]) for _ in range(letters.whole(2, 8))),
            "batch": dice.part("batch").pick(BATCH_SIZES),
            "momentum": dice.part("momentum").chance(0.5),
            "async": dice.part("async").chance(0.3),
            "kept": dice.part("kept").whole(1, 3),
        }

    def jobs(self, scenario: Scenario) -> dict[str, int]:
        jobs = super().jobs(scenario)
        return {**jobs, "ps": scenario.servers} if scenario.options["under"] == "servers" else jobs

    def run(self, stage: Stage) -> None:
        with tempfile.TemporaryDirectory() as directory:
            loop = _Loop(stage, directory)
            for letter in stage.options["acts"]:
                loop.perform(letter)
            loop.manager.sync()
        stage.note(STEPS, fact=loop.steps)
        stage.keep("weights", loop.trained.value)

    def smaller(self, scenario: Scenario) -> Iterator[Options]:
        acts = scenario.options["acts"]
        for position in range(len(acts)):
            yield {**scenario.options, "acts": acts[:position] + acts[position + 1 :]}
        for name in ("momentum", "async"):
            if scenario.options[name]:
                yield {**scenario.options, name: False}

    def excuses(self, run: EndedRun) -> Iterator[Excuse]:
        yield from super().excuses(run)
        if run.scenario.options["under"] == "servers":
            yield from excuses_of_servers(run)
        else:
            yield from excuses_of_deaths(run, run.scenario.options["under"] == "elastic")
        marks = {mark.category for mark in run.cluster.trace.instants}
        if "disk_full" in marks:
            yield ResourceExhaustedError, "a disk was full"
        if "torn_write" in marks:
            yield DataLossError, "a checkpoint was torn"
            yield AbortedError, "a disk tore each attempt to write a checkpoint"
        for task in run.processes.crashed(run.cluster.tasks, run.end_s):
            yield UnavailableError, f"{task} died, and what was to be gathered from it with it"
        if run.silences.begun:
            yield TimedOutError, "what is saved or restored was lost on its way, or a task stood still"

    def replayed(self, run: EndedRun) -> dict[str, np.ndarray]:
        """Of synchronous steps: what is left after those that were not taken back."""
        options, steps = run.scenario.options, [note.fact for note in run.stage.notes if note.what == STEPS]
        if options["under"] == "servers" or not isinstance(steps[-1], int):
            return {}
        return {"weights": descend(options["batch"], steps[-1], options["momentum"])}


class _Trained(Protocol):
    """What is trained and saved."""

    def step(self) -> None: ...
    def value(self) -> np.ndarray: ...
    def parts(self) -> dict[str, Any]: ...


class _Synchronous(Training):
    """Training by replicas together."""

    def parts(self) -> dict[str, Any]:
        return {"weights": self.weights, "optimizer": self.optimizer, "iterator": self.iterator}


class _Served:
    """Training with parameter servers: a step is one closure, which is waited for."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        options = stage.options
        strategy = sd.ParameterServerStrategy(stage.cluster)
        with strategy.scope():
            weights = sd.Variable(START, name="weights")
            optimizer = sd.Optimizer(optax.sgd(LEARNING_RATE, momentum=MOMENTUM if options["momentum"] else None))
        self.weights, self.optimizer = weights, optimizer

        @sd.function
        def step(iterator: Any) -> None:
            x, y = next(iterator)
            _, gradients = sd.value_and_grad(lambda: jnp.mean((x @ weights.value - y) ** 2), [weights])()
            optimizer.apply_gradients(zip(gradients, [weights], strict=True))

        self._step = step
        self._coordinator = sd.ClusterCoordinator(strategy)
        self._iterator = iter(self._coordinator.create_per_worker_dataset(lambda: batches(options["batch"])))

    def step(self) -> None:
        self.stage.closures.append(("c", self._coordinator.schedule(self._step, args=(self._iterator,))))
        self._coordinator.join()

    def value(self) -> np.ndarray:
        return np.asarray(self.weights.numpy())

    def parts(self) -> dict[str, Any]:
        return {"weights": self.weights, "optimizer": self.optimizer}


class _Loop:
    """The user's loop.

    Attributes:
        steps: that count: those that were not taken back.
    """

    def __init__(self, stage: Stage, directory: str) -> None:
        self.stage = stage
        self.directory = directory
        self.chief = stage.cluster.engine.process(stage.cluster.engine.chief)
        self.steps = self.failures = 0
        self._saved: dict[str, tuple[int, np.ndarray]] = {}  # steps and weights by path
        self._tried: tuple[int, np.ndarray] = 0, START  # those of the last save, whatever became of it
        self._build()

    def _build(self) -> None:
        """Make strategy, variables and manager, as a program that starts does."""
        self.trained = _trained(self.stage)
        self.checkpoint = sd.Checkpoint(**self.trained.parts())
        self.manager = sd.CheckpointManager(self.checkpoint, self.directory, max_to_keep=self.stage.options["kept"])

    def perform(self, letter: str) -> None:
        """Perform a letter of the word; if that fails, go back to a checkpoint instead."""
        try:
            {"t": self._step, "s": self._save, "r": self._restore}[letter]()
        except FAILURES:
            self._outlive()

    def _outlive(self) -> None:
        """Wait, build all again, and go back: what died with its task cannot be restored in its old place.

        Raises:
            SimdistError: the error that is handled, or a later one: that was one failure too many, there is no checkpoint, or the chief has
                died, and this program with it.
        """
        while True:
            self.failures += 1
            if self.failures > MOST_FAILURES or not self.manager.checkpoints or not self.chief.alive:
                raise
            self.stage.cluster.world.clock.sleep(BACK_OFF_S)
            try:
                with suppress(*FAILURES):
                    self.manager.sync()  # what is still being saved
                self._build()
                return self._restore()
            except FAILURES:
                continue

    def _step(self) -> None:
        self.trained.step()
        self.steps += 1

    def _save(self) -> None:
        self.manager.sync()
        self._tried = self.steps, self.trained.value()
        path = self.manager.save(options=sd.CheckpointOptions(enable_async=self.stage.options["async"]))
        assert path is not None
        self._saved[path] = self._tried

    def _restore(self) -> None:
        """Go back to the newest checkpoint that is not damaged."""
        self.manager.sync()
        paths = list(reversed(self.manager.checkpoints))
        for path in paths:
            try:
                self.checkpoint.restore(path).expect_partial()  # slots are made with the first step
            except DataLossError:
                if path == paths[-1]:
                    raise
                continue
            self.steps, weights = self._saved.get(path, self._tried)
            self.stage.restores.append((weights, self.trained.value()))
            return


def _trained(stage: Stage) -> _Trained:
    if stage.options["under"] == "servers":
        return _Served(stage)
    survives = "continue" if stage.options["under"] == "elastic" else "raise"
    strategy = sd.MultiWorkerMirroredStrategy(stage.cluster, on_failure=survives)
    return _Synchronous(strategy, stage.options["batch"], stage.options["momentum"])
