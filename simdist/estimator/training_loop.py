"""The loop of `Estimator.train`: steps, checkpoints when they are due, a loss now and then, listeners.

1. The state before the first step is saved, or is there already.
2. After each step it is asked whether a checkpoint is due, by steps or by virtual seconds. Workers that are under way are waited for.
   Where each worker has a main of its own, the chief says when seconds are over, and whether a listener ends the training.
3. At the end the last state is saved, if it was not.

Source: the order of saves and of listeners is that of TensorFlow's ``CheckpointSaverHook``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simdist.checkpoint.mains import Mains
from simdist.errors import InvalidArgumentError
from simdist.estimator.listeners import CheckpointSaverListener
from simdist.estimator.run_config import RunConfig
from simdist.estimator.runners import Runner
from simdist.estimator.saved_steps import SavedSteps
from simdist.estimator.summaries import Summaries
from simdist.strategies.synchronous import SynchronousStrategy

if TYPE_CHECKING:  # it loads Keras
    from simdist.estimator.built_model import BuiltModel

__all__ = ["CommonTimer", "StepTimer", "TrainingLoop"]

log = logging.getLogger("simdist")

# The chief is asked again after so many steps at the latest: steps may become slower.
MOST_STEPS = 1_000


@dataclass
class StepTimer:
    """Says when something is due again: after so many steps, or so many virtual seconds.

    Args:
        every_steps, every_s: one of the two; None or 0 for neither: it is never due.

    Example:
        >>> timer = StepTimer(every_steps=10)
        >>> timer.happened(0, 0.0)
        >>> timer.is_due(9, 0.5), timer.is_due(10, 0.5)
        (False, True)
    """

    every_steps: int | None = None
    every_s: float | None = None
    last_step: int | None = None
    last_s: float = 0.0

    def happened(self, step: int, now_s: float) -> None:
        """It has happened after so many steps."""
        self.last_step, self.last_s = step, now_s

    def is_due(self, step: int, now_s: float) -> bool:
        """Whether it is due; the first time, and never twice for one step."""
        if self.last_step is None:
            return True
        if step == self.last_step:
            return False
        if self.every_s is not None:
            return now_s >= self.last_s + self.every_s
        return bool(self.every_steps) and step >= self.last_step + (self.every_steps or 0)

    def steps_left(self, step: int) -> float:
        """Steps until it is due by its number of steps; infinite where that is not so."""
        return self.last_step + self.every_steps - step if self.every_steps and self.last_step is not None else math.inf


class CommonTimer:
    """Says to several launched mains when a checkpoint is due, at the same step: by seconds, whose clock counts is the chief's.

    Clocks differ by the time of a message. So the mains ask the chief, not in every step: it says after how many they ask again, by the
    seconds of a step so far, half way at most.

    Args:
        timer: of this main.
        mains: that save together.
        step: how many steps the model has seen.
        now_s: the virtual second.
    """

    def __init__(self, timer: StepTimer, mains: Mains, step: int, now_s: float) -> None:
        self._timer = timer
        self._mains = mains
        self._begun = step, now_s
        self._asks_at = step + 1

    def is_due(self, step: int, now_s: float) -> bool:
        """Whether a checkpoint is due after so many steps; all mains have to ask."""
        timer = self._timer
        if timer.every_s is None:
            return timer.is_due(step, now_s)
        if step < self._asks_at:
            return False
        steps: int = self._mains.of_chief(0 if timer.is_due(step, now_s) else self._steps_to_wait(step, now_s))
        self._asks_at = step + max(steps, 1)
        return steps == 0

    def _steps_to_wait(self, step: int, now_s: float) -> int:
        first, begun_s = self._begun
        step_s, left_s = (now_s - begun_s) / (step - first), self._timer.last_s + (self._timer.every_s or 0.0) - now_s
        return max(1, int(min(left_s / step_s / 2, MOST_STEPS))) if step_s > 0 else 1


class TrainingLoop:
    """One call of `Estimator.train`.

    Args:
        model: what is trained, with the values that it begins with.
        runner: takes the steps.
        directory: of checkpoints and event files.
        config: says how often what is done.
        listeners: called at each checkpoint.
        first_step: how many steps the model has seen.
    """

    def __init__(
        self,
        model: BuiltModel,
        runner: Runner,
        directory: str,
        config: RunConfig,
        listeners: Sequence[CheckpointSaverListener],
        first_step: int,
    ) -> None:
        self.model = model
        self.runner = runner
        self.listeners = listeners
        self.step = first_step
        self._engine = model.strategy.engine
        self._saves = bool(config.save_checkpoints_steps or config.save_checkpoints_secs)
        self._saved = SavedSteps(model, directory, config) if self._saves else None
        self._saving = StepTimer(config.save_checkpoints_steps, config.save_checkpoints_secs)
        self._mains = Mains([model.strategy])
        is_launched = isinstance(model.strategy, SynchronousStrategy) and model.strategy.launched
        self._all_save = CommonTimer(self._saving, self._mains, first_step, self._engine.now) if is_launched else self._saving
        self._summaries = Summaries(directory, model.strategy.is_chief)
        self._summarizing = StepTimer(config.save_summary_steps)
        self._logging = StepTimer(config.log_step_count_steps)
        self._is_stopped = False

    def run(self, last_step: int | None) -> None:
        """Take steps up to this one; None: to the end of the data.

        Raises:
            InvalidArgumentError: a loss was no number.
        """
        for listener in self.listeners:
            listener.begin()
        for timer in (self._summarizing, self._logging):
            timer.happened(self.step, self._engine.now)
        try:
            self._run(last_step)
        except BaseException:  # also by Ctrl-C
            with suppress(Exception):  # the first error is the one that is raised
                self.runner.leave()
            raise

    def _run(self, last_step: int | None) -> None:
        self._save()
        while not self._is_stopped and (last_step is None or self.step < last_step):
            limit = min(
                math.inf if last_step is None else last_step - self.step, self._saving.steps_left(self.step) if self._saves else math.inf
            )
            if not self.runner.advance(self.model.step, 1 << 30 if limit == math.inf else int(limit)):
                break
            self.step += 1
            self._report()
            if self._saves and self._all_save.is_due(self.step, self._engine.now):
                self._finish()
                self._save()
        self._finish()
        self._end()

    def _finish(self) -> None:
        """Wait for the steps that were begun, and ask the model how many it has seen: where data have ended, some were done unheard."""
        self.runner.finish()
        self.step = int(self.model.global_step.numpy())

    def _end(self) -> None:
        if not self._saves:
            self._require_finite_losses()
        elif self.step != self._saving.last_step:
            self._save()
        for listener in self.listeners:
            listener.end(None, self.step)
        log.info("The loss of the last step, %d, is %g.", self.step, self.runner.loss())

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._saved is None:
            return
        self._require_finite_losses()
        for listener in self.listeners:
            listener.before_save(None, self.step)
        self._saved.save(self.step)
        self._saving.happened(self.step, self._engine.now)
        for listener in self.listeners:
            if listener.after_save(None, self.step):
                log.info("A listener ends the training after %d steps.", self.step)
                self._is_stopped = True
        self._is_stopped = self._mains.of_chief(self._is_stopped)  # which alone has listeners, where mains are launched

    def _require_finite_losses(self) -> None:
        """What was learned from losses that are no numbers must not take the place of a good checkpoint."""
        if self.runner.had_nan():
            last = "" if self._saving.last_step is None else f"; the last checkpoint is of step {self._saving.last_step}"
            raise InvalidArgumentError(
                f"A loss was no number (NaN) in the {self.step} steps so far, so nothing is saved{last}. Lower the learning rate, or look "
                "for the first such number with sd.check_numerics."
            )

    # -- reports --------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        now_s = self._engine.now
        if self._summarizing.is_due(self.step, now_s):
            self._summaries.write(self.step, now_s, {"loss": self.runner.loss()})
            self._summarizing.happened(self.step, now_s)
        if self._logging.is_due(self.step, now_s):
            seconds = now_s - self._logging.last_s
            steps = self.step - (self._logging.last_step or 0)
            if seconds > 0:
                self._summaries.write(self.step, now_s, {"global_step/sec": steps / seconds})
            log.info("Step %d: the loss is %g, after %g virtual seconds for %d steps.", self.step, self.runner.loss(), seconds, steps)
            self._logging.happened(self.step, now_s)
