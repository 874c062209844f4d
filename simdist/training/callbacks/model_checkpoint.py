"""`keras.callbacks.ModelCheckpoint` for a cluster: files appear whole or not at all, and of launched mains only the chief leaves one.

When to save, and under which name, is Keras' decision. Among launched mains all save, as the state of a layer may be each replica's own
and is read by all mains together; the others save into a directory of their own, which is deleted at once.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keras
from keras.src.utils import io_utils

from simdist.errors import InvalidArgumentError
from simdist.trace.atomic_file import replacing_path
from simdist.training.callbacks.caller import model_of, strategy_or_none, with_servers_of
from simdist.training.keras_model import Logs

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Saves the model, or its weights, after epochs or batches; arguments are those of `keras.callbacks.ModelCheckpoint`.

    Args:
        filepath: ends with ``.keras``, or with ``.weights.h5`` for weights alone; placeholders are ``{epoch}``, ``{batch}`` (with a
            number as `save_freq`) and the names of losses and metrics, as in ``{epoch:02d}-{val_loss:.2f}.keras``.
        monitor, verbose, save_best_only, save_weights_only, mode, initial_value_threshold: as Keras'. Where `save_best_only` and there is
            no value of `monitor`, as in an epoch without validation, nothing is saved, and a warning says so.
        save_freq: "epoch", or every how many batches.

    Raises:
        ValueError: an argument that Keras refuses.
        KeyError: when it saves, and a placeholder has no value.
        InvalidArgumentError: when it saves, and the path is a directory, or lies below a file.
        ResourceExhaustedError: the disk is full; a file that was there before stays as it was.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> with sd.OneDeviceStrategy().scope():
        ...     model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        ...     model.compile("sgd", "mse")
        >>> directory = Path(tempfile.mkdtemp())
        >>> saving = keras.callbacks.ModelCheckpoint(directory / "{epoch}.weights.h5", save_weights_only=True)
        >>> _ = model.fit(np.ones((4, 2)), np.ones((4, 1)), epochs=2, verbose=0, callbacks=[saving])
        >>> sorted(path.name for path in directory.iterdir())
        ['1.weights.h5', '2.weights.h5']
    """

    def _should_save_model(self, epoch: int, batch: int | None, logs: Logs | None, filepath: str) -> bool:
        if self.save_best_only and (logs or {}).get(self.monitor) is None:
            there = ", ".join(sorted(logs or {})) or "none"
            warnings.warn(
                f"ModelCheckpoint has save_best_only, but there is no value of {self.monitor!r} (there are: {there}), so epoch "
                f"{epoch + 1} is not saved. Set monitor, or give fit validation_data.",
                stacklevel=2,
            )
            return False
        if self.save_best_only and self.monitor_op is None:
            self._set_monitor_op()  # Keras does so at the end of an epoch, and compares before it where a number of batches is over
        return bool(super()._should_save_model(epoch, batch, logs, filepath))

    def _save_model(self, epoch: int, batch: int | None, logs: Logs | None) -> None:
        path = self._get_file_path(epoch, batch, logs or {})
        if Path(path).is_dir():
            raise InvalidArgumentError(f"ModelCheckpoint has the path {path!r}, which is a directory. Give the path of a file.")
        if not self._should_save_model(epoch, batch, logs, path):
            return
        with_servers_of(model_of(self), lambda: self._save_to(Path(path)))
        if self.verbose > 0:
            io_utils.print_msg(f"\nEpoch {epoch + 1}: finished saving model to {path}")

    def _save_to(self, path: Path) -> None:
        model = model_of(self)
        with _destination(model, path) as destination:
            if self.save_weights_only:
                model.save_weights(destination, overwrite=True)
            else:
                model.save(destination, overwrite=True)


@contextmanager
def _destination(model: keras.Model, path: Path) -> Iterator[Path]:
    """Where this program saves: what will become the file, or what will be deleted."""
    strategy = strategy_or_none(model)
    if strategy is None:
        with replacing_path(path) as unfinished:
            yield unfinished
    elif strategy.is_chief:
        yield path  # where a file of the model appears whole by itself
    else:
        with tempfile.TemporaryDirectory(prefix="simdist-") as elsewhere:
            yield Path(elsewhere, path.name)
        strategy.engine.disk(strategy.program_task).delete(str(Path(elsewhere, path.name)))
