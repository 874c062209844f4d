"""`keras.callbacks.BackupAndRestore` for a cluster: a training that was interrupted goes on with the step after its last backup.

Bit for bit under synchronous strategies: weights, the optimizer, metrics, the position of the input, random streams and the counts of
callbacks are those of the moment of the backup. What was done after it leaves no mark.

Taught in lesson 09.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import keras
import numpy as np

from simdist.arguments import flag
from simdist.checkpoint import Checkpoint, CheckpointManager
from simdist.checkpoint.mains import Mains
from simdist.checkpoint.notice import Notices
from simdist.checkpoint.preemption import EXIT_STATUS
from simdist.checkpoint.status import RestoreStatus
from simdist.errors import InvalidArgumentError, ResourceExhaustedError
from simdist.strategies.parameter_server import ParameterServerStrategy
from simdist.training.callbacks.best_weights import BestWeights
from simdist.training.callbacks.caller import is_in_a_main, model_of, with_servers_of
from simdist.training.keras_model import Logs, StrategyModel, TrainingState, strategy_of
from simdist.training.position import TrainingPosition
from simdist.variables.keras_objects import core_of, learning_rate_of

__all__ = ["BackupAndRestore"]

NAME = "backup"


class BackupAndRestore(keras.callbacks.BackupAndRestore):
    """Saves the whole state of a training, and restores it when `fit` begins again.

    In launched mains give it to every main, with one directory: the chief writes, and all go on from what the chief chooses. There the
    first backup is that of the beginning, because a main that starts again after a crash draws other random weights. Under parameter
    servers no closure is under way while it saves; where a `DatasetCreator` makes datasets on the workers, their iterators begin
    anew after a restore, as they do when a worker comes back. Give a new generator from its first batch on: those that are done are
    taken, and not used. For a model of no strategy it is Keras' own.

    Args:
        backup_dir: of this training alone; on storage that all mains see.
        save_freq: "epoch" (the default), or every how many batches, counted across epochs. Steps under way end first: where workers of
            parameter servers proceed in rounds, a round ends with each backup, so give a multiple of their number.
        double_checkpoint: True keeps the backup before the last one, too. Default False: a backup is whole or absent.
        delete_checkpoint: True (the default) deletes the backups when the training has ended; the directory stays.
        save_before_preemption: True saves when a task has got notice that its machine will be taken away, after the same step in all mains,
            and ends the program with ``sys.exit(42)``, so that ``restart="always"`` starts it again. `save_freq` may then be None. After
            each step the mains share what they know, with one small all-gather. Default False.

    Raises:
        ValueError: no directory, or save_freq is neither, or nothing would ever be saved.
        InvalidArgumentError: when the training begins, and the backup is of another model, or the directory is a file.

    Warns:
        UserWarning: a disk is full when it saves. The training goes on, and the backup before is still there. Or, when the training
            begins, a backup has counts of a callback that fit was not given, or none of one that it was given.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> def train(stop_after):
        ...     with sd.MirroredStrategy(2).scope():
        ...         model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
        ...         model.compile("adam", "mse")
        ...     def interrupt(batch, logs):
        ...         if batch == stop_after:
        ...             raise KeyboardInterrupt
        ...     backup = keras.callbacks.BackupAndRestore(directory, save_freq=2)
        ...     calls = [backup, keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)]
        ...     history = model.fit(np.ones((16, 2)), np.ones((16, 1)), batch_size=2, verbose=0, callbacks=calls)
        ...     return history.history["loss"]
        >>> directory = tempfile.mkdtemp()
        >>> expected = train(stop_after=None)
        >>> try:
        ...     train(stop_after=4)
        ... except KeyboardInterrupt:
        ...     sorted(os.listdir(directory))
        ['backup-2', 'backup.index.json']
        >>> train(stop_after=None) == expected, os.listdir(directory)
        (True, [])
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: str | int | None = "epoch",
        double_checkpoint: bool = False,
        delete_checkpoint: bool = True,
        save_before_preemption: bool = False,
    ) -> None:
        flag(double_checkpoint, "double_checkpoint")
        flag(delete_checkpoint, "delete_checkpoint")
        self.save_before_preemption = flag(save_before_preemption, "save_before_preemption")
        if not save_freq and not save_before_preemption:
            raise InvalidArgumentError(
                f"save_freq={save_freq!r} saves nothing; give 'epoch' or a number of batches, or save_before_preemption=True."
            )
        if isinstance(save_freq, bool) or (isinstance(save_freq, int) and save_freq < 0):
            raise InvalidArgumentError(f"save_freq={save_freq!r}; expected 'epoch', or a number of batches from 1.")
        freq: Any = save_freq or "epoch"
        super().__init__(os.fspath(backup_dir), freq, double_checkpoint, delete_checkpoint)
        self.save_freq = save_freq or None
        self._notices: Notices | None = None
        self._manager: CheckpointManager | None = None
        self._since = 0  # batches since the last backup
        self._seen = 0  # batches of this epoch
        self._rate: float | None = None  # the learning rate of an epoch that goes on

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Restore the last backup, if there is one."""
        state = self._state()
        self._require_a_step_for_all(state)
        if state is None:
            super().on_train_begin(logs)
            return
        assert state.position is not None
        checkpoint = Checkpoint(model=model_of(self), training=state.position, best_weights=BestWeights(state.position))
        self._manager = CheckpointManager(checkpoint, self.backup_dir, 2 if self.double_checkpoint else 1, checkpoint_name=NAME)
        restored = with_servers_of(model_of(self), self._manager.restore_or_initialize)
        if self.save_before_preemption:
            self._notices = Notices(Mains([strategy_of(model_of(self))]))
        self._since, self._seen = 0, state.position.batch
        if restored is not None:
            self._require_all(self._manager.status)
            _warn_of_other_callbacks(state.position, restored)
            self._rate = _learning_rate(model_of(self)) if state.position.batch else None
        elif is_in_a_main():
            self._save()  # a main that starts again on another incarnation draws other first weights

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Note the epoch."""
        state = self._state()
        if state is None:
            super().on_epoch_begin(epoch, logs)
        else:
            assert state.position is not None
            self._seen = state.position.batch
            if self._rate is not None:
                model_of(self).optimizer.learning_rate = self._rate  # a scheduler has set that of this epoch before, and now again
                self._rate = None

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Save after every `save_freq` batches, where that is a number."""
        state = self._state()
        if state is None:
            super().on_train_batch_end(batch, logs)
            return
        assert state.position is not None
        self._since += batch + 1 - self._seen
        self._seen = state.position.batch = batch + 1
        if isinstance(self.save_freq, int) and self._since >= self.save_freq and state.position.is_quiet:
            self._save()
        if self._notices is not None and state.position.is_quiet and self._notices.soonest_s() is not None:
            self._save()
            assert self._manager is not None
            self._manager.sync()
            sys.exit(EXIT_STATUS)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Save, where that is asked for at the end of an epoch."""
        state = self._state()
        if state is None:
            super().on_epoch_end(epoch, logs)
        elif self.save_freq == "epoch":
            assert state.position is not None
            state.position.epoch, state.position.batch = epoch + 1, 0
            self._save()

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Delete the backups: the training has ended."""
        if self._manager is None:
            super().on_train_end(logs)
            return
        self._manager.sync()
        if self.delete_checkpoint:
            self._manager.remove_all()
        self._manager = None

    def _require_all(self, status: RestoreStatus) -> None:
        missing = [path for path in status.missing if path.startswith(("model/", "training"))]
        unused = [path for path in status.superfluous if path.startswith("model/") and not path.startswith("model/metrics")]
        for what, paths in (("nothing for", missing), ("also", unused)):
            if paths:
                raise InvalidArgumentError(
                    f"The backup {status.path!r} is of another model: it has {what} {', '.join(paths[:8])}. Give each training a "
                    "backup_dir of its own, or delete the backup."
                )

    def _require_a_step_for_all(self, state: TrainingState | None) -> None:
        if self.save_before_preemption and (state is None or isinstance(state.strategy, ParameterServerStrategy)):
            raise InvalidArgumentError(
                "BackupAndRestore(save_before_preemption=True) needs a synchronous strategy, whose mains stop after the same step. Under "
                "parameter servers a worker may go at any time, and save_freq= is enough for the coordinator; leave the argument out."
            )

    def _save(self) -> None:
        assert self._manager is not None
        self._since = 0
        try:
            with_servers_of(model_of(self), self._manager.save)
        except ResourceExhaustedError as error:
            warnings.warn(f"{error} The training goes on, and would come back to the backup before.", stacklevel=2)

    def _state(self) -> TrainingState | None:
        model = model_of(self)
        return model.simdist_state if isinstance(model, StrategyModel) and model.simdist_strategy is not None else None


def _warn_of_other_callbacks(position: TrainingPosition, path: str) -> None:
    """Say which callbacks do not go on from a backup as they were."""
    lost, fresh = position.unlike()
    for names, what in (
        (lost, "has counts of {}, and fit was given no such callback: what it had counted is lost. Give fit the callbacks of before"),
        (fresh, "has no counts of {}, which begins to count anew. Give fit the callbacks of before, if it is to go on"),
    ):
        if names:
            warnings.warn(f"The backup {path!r} {what.format(', '.join(names))}.", stacklevel=3)


def _learning_rate(model: keras.Model) -> float | None:
    """The learning rate; None where a schedule says it."""
    rate = learning_rate_of(core_of(model.optimizer))
    return float(np.asarray(rate)) if isinstance(rate, keras.Variable) else None
