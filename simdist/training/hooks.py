"""Keras' list of callbacks, called by our loops: which of them read logs of batches, as those are computed for nobody else."""

from __future__ import annotations

from typing import Literal

import keras
from keras.src.callbacks import CallbackList
from keras.src.utils.python_utils import is_default

from simdist.training.callbacks import ProgbarLogger
from simdist.training.keras_model import Callbacks, StrategyModel, Verbose

__all__ = ["Hooks", "hooks_of"]

Phase = Literal["train", "test", "predict"]


class Hooks:
    """The callbacks of a call.

    Args:
        call: Keras' list of them, whose hooks call those of each, one after the other and in no thread of their own.

    Attributes:
        follows_train: whether one of them does something at each batch of training.
        quiet_every: after so many batches a backup is saved, while no step is under way; None: only between epochs.
        reads_train_logs, reads_test_logs: whether one of them reads loss and metrics of batches.
        reads_outputs: whether one reads what a batch of prediction gives.
    """

    def __init__(self, call: CallbackList) -> None:
        self.call = call
        # A backup has what the others have counted, so it comes after them.
        call.callbacks.sort(key=lambda callback: isinstance(callback, keras.callbacks.BackupAndRestore))
        for phase in ("train", "test", "predict"):
            setattr(call, f"_async_{phase}", False)
        self.reads_train_logs = self._is_read("train")
        self.follows_train = self.reads_train_logs or any(map(begins_batches, call.callbacks))
        self.quiet_every = self._quiet_every()
        self.reads_test_logs = self._is_read("test")
        self.reads_outputs = self._is_read("predict")

    def _quiet_every(self) -> int | None:
        saving = [callback for callback in self.call.callbacks if isinstance(callback, keras.callbacks.BackupAndRestore)]
        return min((callback.save_freq for callback in saving if isinstance(callback.save_freq, int)), default=None)

    def _is_read(self, phase: Phase) -> bool:
        return any(reads_batches(callback, phase) for callback in self.call.callbacks)


def reads_batches(callback: keras.callbacks.Callback, phase: Phase) -> bool:
    """Whether a callback does something with the logs of a batch."""
    match callback:
        case keras.callbacks.BackupAndRestore() if phase == "train" and _is_plain(callback):
            return False
        case keras.callbacks.ModelCheckpoint() if phase == "train" and _is_plain(callback):
            return callback.save_freq != "epoch"
        case keras.callbacks.TensorBoard() if phase == "train" and _is_plain(callback):
            return callback.update_freq != "epoch"
        case keras.callbacks.ProgbarLogger() if _is_plain(callback):
            return False  # it shows them at the end of an epoch
        case _:
            names = [f"on_{phase}_batch_end", *(["on_batch_end"] if phase == "train" else [])]
            return not all(is_default(getattr(callback, name)) for name in names)


def begins_batches(callback: keras.callbacks.Callback) -> bool:
    """Whether a callback of the user does something before a batch of training."""
    return not _is_plain(callback) and not (is_default(callback.on_train_batch_begin) and is_default(callback.on_batch_begin))


def _is_plain(callback: keras.callbacks.Callback) -> bool:
    """Whether a callback is Keras', without hooks of the user's own."""
    return type(callback).__module__.split(".")[0] in ("keras", "simdist") and not any(name.startswith("on_") for name in vars(callback))


def hooks_of(
    callbacks: Callbacks | Hooks, model: StrategyModel, verbose: Verbose, *, epochs: int = 1, steps: int | None, history: bool = False
) -> Hooks:
    """The hooks of a call, with a progress bar.

    Args:
        callbacks, verbose, epochs: as given to the call; hooks that exist already stay.
        model: which is trained, evaluated, or predicts.
        steps: how many the bar shows.
        history: whether the call returns a history.
    """
    if isinstance(callbacks, Hooks):
        return callbacks
    if isinstance(callbacks, CallbackList):
        return Hooks(callbacks)
    call = CallbackList(callbacks, add_history=history, model=model, verbose=verbose, epochs=epochs, steps=steps)
    if verbose != 0 and not any(isinstance(callback, keras.callbacks.ProgbarLogger) for callback in call.callbacks):
        progress = ProgbarLogger()
        progress.set_model(model)
        progress.set_params(call.params)
        call.callbacks.append(progress)
    return Hooks(call)
