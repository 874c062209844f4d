"""The exercises of lesson 09, checkpoints, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

import simdist as sd
from classroom.answers import a_function, a_number
from classroom.calls import called_in_main
from classroom.checkpoints import Training, slow_cluster
from classroom.exercise import Exercise, NotAnswered
from classroom.values import described
from classroom.young_daly import best_interval, expected_stretch

__all__ = [
    "SAVES_S",
    "STEPS_OF_JOB",
    "WHY_BYTES",
    "WHY_INTERVAL",
    "WHY_PARTED",
    "WHY_REPEATED",
    "WHY_SLOW_DISK",
    "LargerTraining",
    "break_the_disk",
    "first_exercise",
    "run_job",
    "second_exercise",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_BYTES = """
Three times the weights: Adam has two numbers more for each of them, the mean of its gradients and that of their squares. So a checkpoint
of a model with 70 billion weights of 4 bytes is not 280 GB, but 840.
"""

WHY_PARTED = """
The optimizer. Adam divides the mean of the gradients by the root of the mean of their squares. After some steps that is a small
number for most weights. With fresh means of one gradient it is +1 or -1 for **each** weight, so the first step after the restore moves all
of them by the whole learning rate, and throws the model out of the valley in which it was. Other rows and other random numbers are as
good as those that should have come.
"""

WHY_REPEATED = """
Nineteen until the crash, and nine after it. There are four backups by then: of the beginning, and after steps 5, 10 and 15. All three
workers go back to step 15, not only the one that died, because their copies must be of one step. So three steps are taken twice, and the
one that was under way, too.
"""

WHY_SLOW_DISK = """
Three seconds, four times 0.75: 1 MB takes 2 s to write and 1 s to read back. Each owner writes its quarter, side by side, and the
checkpoint is whole when the **last** of them is done. That is still sooner than the chief, whose disk is healthy: it needs the whole 4 MB.
"""

WHY_INTERVAL = """
100 seconds. Twice as often, saving costs twice as much; half as often, twice as much work is lost with each failure. In between lies a flat
valley: 80 or 125 seconds would hardly be worse.
"""

# -- how often ----------------------------------------------------------------------------------------------------------

SAVE_MIN, RESTART_MIN = 3.0, 10.0
BETWEEN_FAILURES_MIN = 400 * 24 * 60 / 512
OF_ONE_MACHINE_MIN = 400 * 24 * 60
NEAR = 0.1


def stretch_with(interval_min: float) -> float:
    """How many times as long as its work the training of the first exercise takes."""
    return expected_stretch(interval_min, SAVE_MIN, BETWEEN_FAILURES_MIN, RESTART_MIN)


def good_interval(interval_min: float) -> str | None:
    """An interval that is near Young's."""
    best_min = best_interval(SAVE_MIN, BETWEEN_FAILURES_MIN)
    if abs(interval_min - best_min) <= NEAR * best_min:
        return None
    if abs(interval_min - best_interval(SAVE_MIN, OF_ONE_MACHINE_MIN)) <= NEAR * best_interval(SAVE_MIN, OF_ONE_MACHINE_MIN):
        return f"{interval_min:,.0f} minutes would be right for one machine. Some machine of 512 fails more often."
    if interval_min > 5 * BETWEEN_FAILURES_MIN:
        return f"with {interval_min:,g} minutes between two checkpoints the training hardly comes to its end."
    found, least = stretch_with(interval_min), stretch_with(best_min)
    return f"with {interval_min:,g} minutes it takes {found:.3f} times as long as the work; {least:.3f} is possible."


first_exercise = Exercise(
    "Give the minutes of work between two checkpoints.",
    a_number("minutes", good_interval, least=0.1, most=1e6),
    hints=(
        "Young's interval is the root of 2 C M. C is 3 minutes. How many minutes lie between two failures of the whole cluster?",
        "One machine fails once in 576,000 minutes, so one of 512 fails every 1,125 minutes.",
    ),
    why="The root of 2 times 3 times 1,125 is 82 minutes. The restart of 10 minutes plays no part: it costs the same for every interval.",
)

# -- what is missing ----------------------------------------------------------------------------------------------------

STEPS_BEFORE, STEPS_AFTER = 6, 6
NEEDED = ("model", "optimizer", "rows", "contrast", "average")


class Contrast:
    """Shows the images pale at first, and clearer with each step."""

    def __init__(self) -> None:
        self.steps = 0

    def next(self) -> float:
        """Of the next step."""
        self.steps += 1
        return min(1.0, 0.4 + self.steps / 20)

    def state_dict(self) -> dict[str, int]:
        return {"steps": self.steps}

    def load_state_dict(self, state: Any) -> None:
        self.steps = int(state["steps"])


class LargerTraining(Training):
    """As `Training`, with images that become clearer, and a moving average of the last bias.

    Attributes:
        model, optimizer, rows, contrast, average: its state.
        losses: after each step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.contrast = Contrast()
        with self.strategy.scope():
            self.average = sd.Variable(np.zeros(10, np.float32), name="average")

    def train(self, steps: int) -> list[float]:
        for _ in range(steps):
            x, y = next(self.rows)
            self.step((x, y), np.float32(self.contrast.next()))
            self.losses.append(self.loss())
        return self.losses[-steps:]

    def _step(self, batch: Any, contrast: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.strategy.run(self._paler, args=(batch, contrast))

    def _paler(self, batch: Any, contrast: Any) -> None:
        x, y = batch
        self._replica((x * contrast, y))
        self.average.assign(0.9 * self.average.value + 0.1 * self.model.trainable_variables[-1].value)


@cache
def undisturbed() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The losses after the checkpoint, and the average in the end, of a larger training that nothing befalls."""
    training = LargerTraining()
    training.train(STEPS_BEFORE)
    return tuple(training.train(STEPS_AFTER)), tuple(training.average.numpy().tolist())


def complete(function: Callable[..., Any]) -> str | None:
    """A function that says what to save, so that a restored training goes on as if nothing had been."""
    training = LargerTraining()
    training.train(STEPS_BEFORE)
    found = function(training)
    if found is ...:
        raise NotAnswered
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        return f"your function returned {described(found)}; expected is a dict of objects by name, such as {{'model': training.model}}."
    with tempfile.TemporaryDirectory() as directory:
        path = sd.Checkpoint(**cast("dict[str, Any]", found)).save(directory + "/ckpt")
        again = LargerTraining()
        sd.Checkpoint(**function(again)).restore(path).expect_partial()
        losses = again.train(STEPS_AFTER)
    return parted(losses, again.average.numpy().tolist())


def parted(losses: list[float], average: list[float]) -> str | None:
    """Where a restored training differs from the undisturbed one."""
    expected, expected_average = undisturbed()
    differing = [number for number, (one, other) in enumerate(zip(losses, expected, strict=True), 1) if one != other]
    if differing:
        first = differing[0]
        return (
            f"step {first} after the restore gives a loss of {losses[first - 1]:.4f}; without the interruption it is "
            f"{expected[first - 1]:.4f}. Something of {', '.join(NEEDED)} is missing."
        )
    if tuple(average) != expected_average:
        return "the losses are the same, bit for bit, but the average of the bias is not: nothing trains with it, so no loss shows it."
    return None


second_exercise = Exercise(
    "Complete to_save, which returns a dict of the objects to save.",
    a_function("of a training", complete),
    hints=(
        "What does the next step depend on that changes from step to step? Look at the attributes of LargerTraining.",
        "The weights, the slots of the optimizer, the position in the rows, the steps that the contrast has counted, and the average.",
    ),
    why="Five objects have a state. The random streams are saved without being asked for; no step needs the list of losses.",
)

# -- a bad disk ---------------------------------------------------------------------------------------------------------

STEPS_OF_JOB = 60
SAVES_S = 5  # seconds of work between two attempts to save
MOST_REPEATED = 5
CRASH_S = 52.0
MOST_FAILED = 20  # saves at one moment; each takes a part of a real second
MOST_FAILED_IN_ALL = 200  # by one main: the disk is full for 12 s, and torn three times
MOST_SAVED = 60  # by one main: as often as there are steps


def break_the_disk(cluster: sd.Cluster) -> None:
    """Plan what befalls the disk of the third exercise: full for a while, torn three times in a row, and a crash of the process."""
    cluster.faults.disk_full("worker:0", at=12.0, until=24.0)
    cluster.faults.torn_write("worker:0", at=33.0, writes=3)
    cluster.faults.crash("worker:0", at=CRASH_S, restart_after=4.0)


class EndlessSavingError(Exception):
    """A save was tried again and again, and no time passed, or little; or the program saved far more often than it took steps."""


class WatchedManager(sd.CheckpointManager):
    """Counts the saves that fail, those at one moment and all, and those that succeed: a loop of either may not end, or not soon."""

    def __init__(self, cluster: sd.Cluster, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cluster = cluster
        self.failed, self.failed_at_s, self.failed_in_all, self.saved, self.endless = 0, -1.0, 0, 0, ""

    def save(self, *args: Any, **options: Any) -> Any:
        if self.endless:
            return None
        if self.saved == MOST_SAVED:
            raise EndlessSavingError(
                f"it has saved {MOST_SAVED} times: once is enough. Does your function return when a save has succeeded?"
            )
        try:
            path = super().save(*args, **options)
            self.saved += 1
            return path
        except sd.errors.SimdistError:
            now = self.cluster.now
            self.failed = self.failed + 1 if now == self.failed_at_s else 1
            self.failed_at_s = now
            self.failed_in_all += 1
            if self.failed < MOST_FAILED and self.failed_in_all < MOST_FAILED_IN_ALL:
                raise
        # No error could end a loop that catches all of them.
        often = f"the same save failed {MOST_FAILED} times in one virtual moment: sleep"
        if self.failed < MOST_FAILED:
            often = f"{MOST_FAILED_IN_ALL} saves have failed: sleep longer"
        self.endless = f"{often} between attempts, or give up until the next one."
        return None


def run_job(function: Callable[..., Any]) -> tuple[int, int]:
    """Run the job of the third exercise with a function that saves.

    Returns:
        How many steps were taken in all, and how often the main was started again.

    Raises:
        EndlessSavingError: a save was tried again and again.
    """
    return job_with(function)[:2]


def job_with(function: Callable[..., Any]) -> tuple[int, int, int]:
    """As `run_job`, and how many saves have succeeded."""
    cluster = slow_cluster(workers=1)
    directory = cluster.directory("saved")
    taken: list[float] = []
    managers: list[WatchedManager] = []

    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            done = sd.Variable(np.zeros((1000,), np.float32), name="done")
        manager = WatchedManager(cluster, sd.Checkpoint(done=done), directory, max_to_keep=2)
        managers.append(manager)
        manager.restore_or_initialize()
        while (steps := int(done.numpy()[0])) < STEPS_OF_JOB:
            sd.sleep(1.0)
            done.assign(np.full(1000, steps + 1, np.float32))
            taken.append(cluster.now)
            if (steps + 1) % SAVES_S == 0 and called_in_main(function, manager) is ...:
                raise NotAnswered

    break_the_disk(cluster)
    run = cluster.launch(main, restart="always")
    run.join()
    if endless := [manager.endless for manager in managers if manager.endless]:
        raise EndlessSavingError(endless[0])
    return len(taken), run.restarts["worker:0"], sum(manager.saved for manager in managers)


def survived(function: Callable[..., Any]) -> str | None:
    """A function that saves, or goes on without."""
    try:
        taken, restarts, saved = job_with(function)
    except EndlessSavingError as error:
        return str(error)
    except (sd.errors.ResourceExhaustedError, sd.errors.AbortedError) as error:
        return f"the training has ended with {type(error).__name__}: {str(error)[:60]}..."
    repeated = taken - STEPS_OF_JOB
    if repeated > MOST_REPEATED:
        often = "once" if restarts == 1 else f"{restarts} times"
        return f"{repeated} steps were done again, at most {MOST_REPEATED} are allowed; the main was started again {often}."
    if not saved:
        return "no checkpoint was written: a crash later on would cost all steps. Let your function call manager.save()."
    return None


third_exercise = Exercise(
    "Complete save, which saves with a manager, and lets the training go on where that fails.",
    a_function("of a CheckpointManager", survived),
    hints=(
        "manager.save() raises where the disk is full, and where three writes in a row were torn. Which errors are these? Catch them, and "
        "no others.",
        "Catch sd.errors.ResourceExhaustedError and sd.errors.AbortedError around manager.save(). The next attempt comes 5 steps later.",
    ),
    why="A save that fails has changed nothing: the checkpoints before are there, and whole. So the training may go on, and try again.",
)
