"""`keras.callbacks.TensorBoard` without TensorFlow: Keras' tags and directories, written with the package `tensorboard`.

Keras' class draws graphs and measures this machine, with TensorFlow. What a training of a cluster has to show needs neither: losses and
metrics of epochs and batches, the learning rate, the validation's values, and histograms of weights. The wall time of a value is the
virtual second of the cluster, as in `Trace.to_tensorboard`, so that equal trainings write equal bytes.

Among launched mains all read the same values, as a value of all replicas is read by all mains together, and the chief writes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import keras
import numpy as np

from simdist.errors import InvalidArgumentError
from simdist.trace.atomic_file import require_on_this_machine
from simdist.trace.event_file import EventFile, Histogram, Scalar, require_tensorboard
from simdist.training.callbacks.caller import is_chief, model_of, virtual_now_s
from simdist.training.keras_model import KerasArgument, Logs

__all__ = ["TensorBoard"]


class TensorBoard(keras.callbacks.TensorBoard):
    """Writes losses, metrics, learning rates and histograms for TensorBoard; ``tensorboard --logdir LOG_DIR`` shows them.

    Below `log_dir`, ``train`` gets ``epoch_loss``, ``epoch_learning_rate`` and the like by epoch, ``batch_loss`` by batch, and
    ``<path of a weight>/histogram``; ``validation`` gets ``epoch_loss`` by epoch, and ``evaluation_loss_vs_iterations`` by updates.

    Args:
        log_dir: the directory.
        histogram_freq: every how many epochs histograms of all weights are written; 0: never.
        update_freq: "epoch"; or every how many batches their losses are written, too ("batch": each). Losses of batches are then computed
            as the training goes on.
        write_steps_per_second: whether to write steps by virtual second, of epochs as ``epoch_steps_per_second`` and of batches that are
            written as ``batch_steps_per_second``.
        write_graph, write_images, profile_batch, embeddings_freq, embeddings_metadata: as Keras', to be left out: they need TensorFlow.

    Raises:
        ModuleNotFoundError: `tensorboard` is not installed.
        InvalidArgumentError: something that needs TensorFlow was asked for, a frequency is no count, or the directory is an address.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> with sd.OneDeviceStrategy().scope():
        ...     model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        ...     model.compile("sgd", "mse")
        >>> x, y, directory = np.ones((4, 2)), np.ones((4, 1)), tempfile.mkdtemp()
        >>> _ = model.fit(x, y, verbose=0, callbacks=[keras.callbacks.TensorBoard(log_dir=directory)])
        >>> [path.name for path in Path(directory, "train").iterdir()]
        ['events.out.tfevents.0000000000.simdist']
    """

    update_freq: int | str  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        log_dir: KerasArgument = "logs",
        histogram_freq: int = 0,
        write_graph: bool | None = None,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        update_freq: int | str = "epoch",
        profile_batch: KerasArgument = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: KerasArgument = None,
    ) -> None:
        require_tensorboard("keras.callbacks.TensorBoard")
        require_on_this_machine(str(log_dir))
        _refuse("write_graph", write_graph, "no graph of TensorFlow is made here. For a picture of the layers call model.summary()")
        _refuse("write_images", write_images, "pictures of weights are not written. histogram_freq=1 writes histograms of them")
        _refuse("profile_batch", profile_batch, "it measures this machine with TensorFlow. cluster.trace has the cluster's times")
        _refuse("embeddings_freq", embeddings_freq, "tables are not written. Save them with ModelCheckpoint")
        _refuse("embeddings_metadata", embeddings_metadata, "tables are not written. Save them with ModelCheckpoint")
        super().__init__(
            str(log_dir),
            _count(histogram_freq, "histogram_freq", 0),
            write_graph=False,
            write_steps_per_second=write_steps_per_second,
        )
        own = {"epoch": "epoch", "batch": 1}
        self.update_freq = own[update_freq] if update_freq in own else _count(update_freq, "update_freq", 1)
        self._files: dict[str, EventFile] = {}
        self._in_fit = False
        self._steps_before = 0  # of the epochs of this training that are over
        self._steps_done = 0
        self._steps_begun = 0  # those that were done as the epoch began, or went on after a restore
        self._written = 0  # the step of the last batch that was written
        self._began_s = self._batch_began_s = 0.0

    def set_model(self, model: keras.Model) -> None:
        """A training or an evaluation of this model begins: it gets new files."""
        self._model = model
        self._files = {}

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Steps are counted from here."""
        self._in_fit, self._steps_before, self._steps_done, self._written = True, 0, 0, 0

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Nothing is left to be written."""
        self._in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """Note when the epoch began."""
        self._steps_begun = self._steps_done
        self._began_s = self._batch_began_s = self._now_s()

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Nothing is measured from here: under parameter servers, batches overlap."""

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Write losses and metrics of batches."""
        self._steps_done = self._steps_before + batch + 1
        if self.update_freq == "epoch" or self._steps_done // int(self.update_freq) == self._written // int(self.update_freq):
            return
        values = _numbers(logs, "batch_")
        if self.write_steps_per_second:
            first = max(self._written, self._steps_begun)
            values |= self._rate("batch_steps_per_second", self._steps_done - first, self._batch_began_s)
        self._write("train", values, self._steps_done)
        self._written, self._batch_began_s = self._steps_done, self._now_s()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """Nothing is written before there are values."""

    def on_test_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        """Nothing is written before there are values."""

    def on_test_end(self, logs: Logs | None = None) -> None:
        """Write what an evaluation gave, against the number of updates of the weights."""
        optimizer = model_of(self).optimizer
        if optimizer is not None:
            values = {f"evaluation_{name}_vs_iterations": value for name, value in _numbers(logs, "").items()}
            self._write("validation", values, int(np.asarray(optimizer.iterations)))

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write losses, metrics and learning rates of an epoch, and histograms where they are due."""
        own = {name: value for name, value in (logs or {}).items() if not name.startswith("val_")}
        of_validation = {name.removeprefix("val_"): value for name, value in (logs or {}).items() if name.startswith("val_")}
        if logs:
            values = _numbers(own, "epoch_") | _numbers(self._collect_learning_rate({}), "epoch_")
            if self.write_steps_per_second:
                values |= self._rate("epoch_steps_per_second", self._steps_done - self._steps_begun, self._began_s)
            self._write("train", values, epoch)
        self._write("validation", _numbers(of_validation, "epoch_"), epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._write_histograms(epoch)
        self._steps_before = self._steps_done

    def _write_histograms(self, epoch: int) -> None:
        weights = [weight for layer in model_of(self).layers for weight in layer.weights]
        now_s = self._now_s()
        arrays = [(weight.path.replace(":", "_"), np.asarray(weight)) for weight in weights]  # by all mains together
        self._append("train", [Histogram(f"{path}/histogram", epoch, now_s, array) for path, array in arrays])

    def _rate(self, tag: str, steps: int, since_s: float) -> dict[str, float]:
        """Steps by second; nothing where no time has passed, as on an engine without time."""
        seconds = self._now_s() - since_s
        return {tag: steps / seconds} if seconds > 0 else {}

    def _write(self, part: str, values: Mapping[str, float], step: int) -> None:
        now_s = self._now_s()
        self._append(part, [Scalar(tag, step, now_s, value) for tag, value in values.items()])

    def _append(self, part: str, values: list[Scalar] | list[Histogram]) -> None:
        if is_chief(model_of(self)):
            if part not in self._files:
                self._files[part] = EventFile(Path(self.log_dir, part))
            self._files[part].append(values)

    def _now_s(self) -> float:
        now_s = virtual_now_s(model_of(self))
        return time.time() if now_s is None else now_s


def _numbers(logs: Mapping[str, object] | None, prefix: str) -> dict[str, float]:
    """The logs that are single numbers, with tags."""
    arrays = {name: np.asarray(value) for name, value in (logs or {}).items()}
    return {f"{prefix}{name}": float(array) for name, array in arrays.items() if array.ndim == 0 and array.dtype.kind in "biuf"}


def _refuse(name: str, value: object, why: str) -> None:
    if value:
        raise InvalidArgumentError(f"TensorBoard has {name}={value!r}, but {why}. Leave {name} out.")


def _count(value: object, name: str, least: int) -> int:
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least:
        return int(value)
    also = '"epoch", "batch" or ' if name == "update_freq" else ""
    raise InvalidArgumentError(f"TensorBoard has {name}={value!r}; expected {also}a whole number from {least}.")
