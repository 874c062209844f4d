"""Callbacks of fit, evaluate and predict: which are called, and which are refused.

All hooks of Keras are called, with the logs that Keras gives. Refused are Keras' own callbacks that reach for something which a model under
a strategy does not have.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import keras
from keras.src.callbacks import CallbackList

from simdist.errors import InvalidArgumentError
from simdist.training.keras_model import Callbacks

__all__ = ["usable"]


def usable(callbacks: Callbacks) -> CallbackList | Sequence[keras.callbacks.Callback]:
    """The callbacks one by one, or the list of Keras that they came in.

    Args:
        callbacks: as given to fit, evaluate or predict.

    Raises:
        TypeError: something is no callback.
        InvalidArgumentError: one that could not do what it is for.
    """
    given = callbacks.callbacks if isinstance(callbacks, CallbackList) else keras.tree.flatten(callbacks) if callbacks else []
    for callback in given:
        if not isinstance(callback, keras.callbacks.Callback):
            raise TypeError(f"callbacks takes objects of keras.callbacks.Callback; got {type(callback).__name__}.")
        _require_kind(callback)
    return callbacks if isinstance(callbacks, CallbackList) else given


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
