"""Callbacks of fit, evaluate and predict: which are called, and which are refused.

All hooks of Keras are called, with the logs that Keras gives. Refused are Keras' own callbacks that reach for something which a model under
a strategy does not have. Launched mains each have their own; what would write the same file or send the same message again is the chief's
alone: `CSVLogger` and `RemoteMonitor` are left out in the others, and our `ModelCheckpoint` and `TensorBoard` know the chief themselves.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized

import keras
from keras.src.callbacks import CallbackList

from simdist.errors import InvalidArgumentError
from simdist.training.callbacks.backup_and_restore import BackupAndRestore
from simdist.training.callbacks.caller import is_chief, is_one_of_several
from simdist.training.callbacks.model_checkpoint import ModelCheckpoint
from simdist.training.callbacks.tensorboard import TensorBoard
from simdist.training.keras_model import Callbacks, StrategyModel

__all__ = ["usable"]

OF_THE_CHIEF = (keras.callbacks.CSVLogger, keras.callbacks.RemoteMonitor)


def usable(callbacks: Callbacks, model: StrategyModel) -> CallbackList | Sequence[keras.callbacks.Callback]:
    """The callbacks one by one, or the list of Keras that they came in; without those that are the chief's, where this is another main.

    Args:
        callbacks: as given to fit, evaluate or predict.
        model: of a strategy.

    Raises:
        TypeError: something is no callback.
        InvalidArgumentError: one that could not do what it is for.
    """
    empty = callbacks is None or (isinstance(callbacks, Sized) and not len(callbacks))
    given = callbacks.callbacks if isinstance(callbacks, CallbackList) else [] if empty else keras.tree.flatten(callbacks)
    several = is_one_of_several(model)
    for callback in given:
        if not isinstance(callback, keras.callbacks.Callback):
            raise TypeError(f"callbacks takes objects of keras.callbacks.Callback; got {type(callback).__name__}.")
        _require_kind(callback, several)
    if several and not is_chief(model):
        given[:] = [callback for callback in given if not isinstance(callback, OF_THE_CHIEF)]
    return callbacks if isinstance(callbacks, CallbackList) else given


def _require_kind(callback: keras.callbacks.Callback, several: bool) -> None:
    """Keras' own callbacks that need what a strategy does not have.

    Args:
        several: whether other launched mains train the same model.
    """
    name = type(callback).__name__
    if isinstance(callback, keras.callbacks.BackupAndRestore) and not isinstance(callback, BackupAndRestore):
        raise InvalidArgumentError(
            f"{name} is Keras' own, which knows neither the state of replicas nor that of the input. Take that of simdist: "
            "from simdist import keras; keras.callbacks.BackupAndRestore(...)."
        )
    if isinstance(callback, keras.callbacks.OrbaxCheckpoint):
        raise InvalidArgumentError(f'{name} cannot save a model under a strategy. Use ModelCheckpoint(save_freq="epoch").')
    if isinstance(callback, keras.callbacks.TensorBoard) and not isinstance(callback, TensorBoard):
        raise InvalidArgumentError(
            f"{name} is Keras' own, which writes with TensorFlow. Take that of simdist: from simdist import keras; "
            "keras.callbacks.TensorBoard(...)."
        )
    if several and isinstance(callback, keras.callbacks.ModelCheckpoint) and not isinstance(callback, ModelCheckpoint):
        raise InvalidArgumentError(
            f"{name} is Keras' own, with which all launched mains would write the same file. Take that of simdist, with which the chief "
            "does: from simdist import keras; keras.callbacks.ModelCheckpoint(...)."
        )
