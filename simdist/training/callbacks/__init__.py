"""Callbacks of fit, evaluate and predict: which are used, and those of Keras that need something else under a strategy.

`simdist.keras.callbacks` shows these classes in the place of Keras' own of the same names; all others are Keras'.
"""

from simdist.training.callbacks.backup_and_restore import BackupAndRestore
from simdist.training.callbacks.model_checkpoint import ModelCheckpoint
from simdist.training.callbacks.progbar_logger import ProgbarLogger
from simdist.training.callbacks.swap_averages import SwapEMAWeights
from simdist.training.callbacks.tensorboard import TensorBoard
from simdist.training.callbacks.usable import usable

__all__ = ["BackupAndRestore", "ModelCheckpoint", "ProgbarLogger", "SwapEMAWeights", "TensorBoard", "usable"]
