"""Callbacks of fit, evaluate and predict: which are called, and which are refused.

A step under a strategy has no logs: its numbers are late, and under parameter servers it is part of a closure on a worker.
So hooks of training batches are refused, and Keras' callbacks where they stand on such hooks. Epochs, evaluation and
prediction have all hooks that Keras has, with the logs that Keras gives.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import keras
from keras.src.callbacks import CallbackList

from simdist.errors import InvalidArgumentError
from simdist.training.keras_model import Callbacks, Logs, StrategyModel, Verbose

__all__ = ["TRAIN_BATCH_HOOKS", "callback_list", "usable", "watch_for_nan"]

TRAIN_BATCH_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")


def usable(callbacks: Callbacks, *, training: bool) -> CallbackList | Sequence[keras.callbacks.Callback]:
    """The callbacks one by one, or the list of Keras that they came in.

    Args:
        callbacks: as given to fit, evaluate or predict.
        training: whether batches of training would call them.

    Raises:
        TypeError: something is no callback.
        InvalidArgumentError: one that could not do what it is for.
    """
    given = callbacks.callbacks if isinstance(callbacks, CallbackList) else keras.tree.flatten(callbacks) if callbacks else []
    for callback in given:
        if not isinstance(callback, keras.callbacks.Callback):
            raise TypeError(f"callbacks takes objects of keras.callbacks.Callback; got {type(callback).__name__}.")
        _require_kind(callback)
        if training:
            _require_epochs_only(callback)
    return callbacks if isinstance(callbacks, CallbackList) else given


def callback_list(
    callbacks: Callbacks, model: StrategyModel, verbose: Verbose, *, epochs: int = 1, steps: int | None, history: bool = False
) -> CallbackList:
    """Keras' list of callbacks, with its progress bar; the hooks are called one after the other, in no thread of their own."""
    if isinstance(callbacks, CallbackList):
        return callbacks
    made = CallbackList(callbacks, add_history=history, add_progbar=verbose != 0, model=model, verbose=verbose, epochs=epochs, steps=steps)
    for phase in ("train", "test", "predict"):
        setattr(made, f"_async_{phase}", False)
    return made


def watch_for_nan(callbacks: CallbackList, steps_done: int, logs: Logs) -> bool:
    """Let `TerminateOnNaN` read the loss of the epoch, since there is none of each batch; returns whether there is one."""
    watching = [callback for callback in callbacks.callbacks if isinstance(callback, keras.callbacks.TerminateOnNaN)]
    for callback in watching:
        callback.on_batch_end(steps_done - 1, logs)
    return bool(watching)


def _require_kind(callback: keras.callbacks.Callback) -> None:
    """Keras' own callbacks that need what a strategy does not have."""
    name = type(callback).__name__
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        raise InvalidArgumentError(
            f"{name} does not bring back a training under a strategy yet. Save weights with "
            'ModelCheckpoint(save_freq="epoch"), load them, and pass initial_epoch= to fit.'
        )
    if isinstance(callback, keras.callbacks.OrbaxCheckpoint):
        raise InvalidArgumentError(f'{name} cannot save a model under a strategy. Use ModelCheckpoint(save_freq="epoch").')
    if isinstance(callback, keras.callbacks.SwapEMAWeights):
        raise InvalidArgumentError(
            f"{name} looks for the averages in the optimizer, but under a strategy they are stored with the weights. Leave it out: with "
            "use_ema=True the weights are the averages after fit, or every ema_overwrite_frequency steps."
        )
    if isinstance(callback, keras.callbacks.ModelCheckpoint) and callback.save_freq != "epoch":
        raise InvalidArgumentError(f'{name} has save_freq={callback.save_freq!r}, but batches cannot save. Use save_freq="epoch".')
    if isinstance(callback, keras.callbacks.TensorBoard):
        _require_tensorboard(callback)


def _require_tensorboard(callback: keras.callbacks.TensorBoard) -> None:
    if callback.update_freq != "epoch":
        raise InvalidArgumentError(f'TensorBoard has update_freq={callback.update_freq!r}, but batches have no logs. Use "epoch".')
    if callback._should_trace:
        raise InvalidArgumentError(
            "TensorBoard has profile_batch, which measures this machine. Leave it out; the cluster's trace has times."
        )
    if importlib.util.find_spec("tensorflow") is None:
        raise InvalidArgumentError(
            "keras.callbacks.TensorBoard writes with TensorFlow, which is not installed. Use CSVLogger for the losses, or "
            "cluster.trace.to_tensorboard(directory) for the run; both need no TensorFlow."
        )


def _require_epochs_only(callback: keras.callbacks.Callback) -> None:
    """No hook of training batches but those of Keras' own callbacks."""
    for hook in TRAIN_BATCH_HOOKS:
        if _is_own(callback, hook):
            raise InvalidArgumentError(
                f"{type(callback).__name__} has {hook}, but under a strategy no batch of training has logs, and under parameter servers "
                "batches end on workers. Use on_epoch_end (fit(steps_per_epoch=1) makes each step an epoch), or write the loop with "
                "@sd.function."
            )


def _is_own(callback: keras.callbacks.Callback, hook: str) -> bool:
    """Whether a hook is the user's, not one that Keras wrote."""
    if hook in vars(callback):
        return True
    owner = next((cls for cls in type(callback).__mro__ if hook in vars(cls)), type(callback))
    return owner.__module__.split(".")[0] != "keras"
