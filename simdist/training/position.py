"""Where a training stands: its epoch, the batches of it that are done, the position of its input, and what callbacks have counted.

`fit` keeps one for its model while it runs; a backup saves it, and a restore lets `fit` go on from there.

Taught in lesson 09.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, cast

import keras

from simdist.errors import InvalidArgumentError
from simdist.program.saved_parts import SavedState
from simdist.training.callback_counts import counts_of, named, set_counts

__all__ = ["PositionedData", "PositionedSteps", "TrainingPosition"]

StateDict: TypeAlias = dict[str, Any]
"""A position as plain data."""


class PositionedSteps(Protocol):
    """What runs the steps of a training, as far as its position is concerned."""

    @property
    def is_quiet(self) -> bool:
        """Whether no step is under way, so that the position is that of the variables."""
        ...

    def position(self) -> SavedState:
        """Where the input stands; None where nobody knows: each worker has its own."""
        ...

    def go_to(self, position: SavedState) -> None:
        """Go to such a position."""
        ...


class PositionedData(Protocol):
    """What is read after epochs, as far as its position is concerned."""

    def position(self) -> SavedState:
        """Where the next pass begins; None where there are no data."""
        ...

    def go_to(self, position: SavedState) -> None:
        """Go to such a position."""
        ...


class Stoppable(Protocol):
    """A model whose training callbacks may end."""

    stop_training: bool


class TrainingPosition:
    """The position of a training.

    Args:
        steps: runs its steps.
        callbacks: of the call.
        epoch: the first.
        steps_per_epoch: None where only the end of the data shows it.
        model: that is trained; None of steps without one.
        validation: what is read after epochs; None: nothing.

    Attributes:
        epoch: that runs, or is the next; from 0.
        batch: batches of it that are done.
        is_over: whether the training had been ended after an epoch, before the epochs were over, when it was saved.
    """

    def __init__(
        self,
        steps: PositionedSteps,
        callbacks: Sequence[keras.callbacks.Callback],
        epoch: int = 0,
        steps_per_epoch: int | None = None,
        model: Stoppable | None = None,
        validation: PositionedData | None = None,
    ) -> None:
        self.steps = steps
        self.callbacks = callbacks
        self.epoch = epoch
        self.steps_per_epoch = steps_per_epoch
        self.model = model
        self.validation = validation
        self.batch = 0
        self.is_over = False
        self._counts: StateDict | None = None  # that were restored, by the names of the callbacks
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_quiet(self) -> bool:
        """Whether what is saved now belongs to one moment of the training."""
        return self.steps.is_quiet

    def state_dict(self) -> StateDict:
        """The position, as plain data."""
        counts = {name: counts_of(callback) for name, callback in named(self.callbacks).items()}
        where = {"epoch": self.epoch, "batch": self.batch, "steps_per_epoch": self.steps_per_epoch}
        stopped = self.model is not None and bool(self.model.stop_training)
        validation = None if self.validation is None else self.validation.position()
        return {**where, "stopped": stopped, "input": self.steps.position(), "validation": validation, "callbacks": counts}

    def load_state_dict(self, state: SavedState) -> None:
        """Go to a saved position; callbacks get their counts when all of them have begun.

        Raises:
            InvalidArgumentError: it is none, or the input is another one.
        """
        if isinstance(state, dict) and isinstance(cast("StateDict", state).get("callbacks"), list):
            raise InvalidArgumentError(
                "The backup was saved by an earlier version of simdist, which knew callbacks by their places in the list. End that "
                "training with it, or delete the backup: the training then begins anew."
            )
        try:
            found = cast("StateDict", state)
            epoch, batch, position, counts = int(found["epoch"]), int(found["batch"]), found["input"], dict(found["callbacks"])
            stopped, validation = bool(found.get("stopped")), found.get("validation")  # older backups have neither
            steps = None if found.get("steps_per_epoch") is None else int(found["steps_per_epoch"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(f"not a saved position of a training: {state!r}; expected that of a backup") from error
        if batch and None not in (steps, self.steps_per_epoch) and steps != self.steps_per_epoch:
            raise InvalidArgumentError(
                f"The backup was saved after batch {batch} of {steps} of an epoch, and this training has {self.steps_per_epoch} in an "
                "epoch: it has other data, or another batch_size. Give it those of the backup, or delete the backup."
            )
        if position is not None:
            self.steps.go_to(position)
        if validation is not None and self.validation is not None:
            self.validation.go_to(validation)  # after the input, which may have a shuffle in common with it
        self.is_over = stopped and not batch and epoch > self.epoch
        if self.model is not None:
            self.model.stop_training = stopped and (bool(batch) or self.is_over)
        self.epoch, self.batch, self._counts = epoch, batch, counts

    def begin(self) -> None:
        """All callbacks have begun."""
        for name, callback in named(self.callbacks).items():
            if self._counts is not None and name in self._counts:
                set_counts(callback, self._counts[name])
        for function in self._waiting:
            function()

    def unlike(self) -> tuple[list[str], list[str]]:
        """The names of counts that were restored and that no callback takes, and of callbacks for which there are none."""
        saved, present = self._counts or {}, named(self.callbacks)
        return [name for name in saved if name not in present], [name for name in present if name not in saved]

    def when_begun(self, function: Callable[[], None]) -> None:
        """Call a function when all callbacks have begun."""
        self._waiting.append(function)

    def begin_epoch(self, epoch: int) -> int:
        """An epoch begins; with how many batches that are done."""
        done = self.batch if epoch == self.epoch else 0
        self.epoch, self.batch = epoch, done
        return done
