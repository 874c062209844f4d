"""`keras.callbacks.ProgbarLogger` for a cluster: steps, their rate, time to go, and the real and the virtual seconds of each epoch.

The real clock decides when a line is written, and never whether a number is computed: losses are those that an epoch ends with.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import keras

from simdist.training.callbacks.caller import is_in_a_main, model_of, virtual_now_s
from simdist.training.callbacks.displays import Display, display_here
from simdist.training.keras_model import Logs, StrategyModel
from simdist.training.progress import Progress

__all__ = ["ProgbarLogger"]


class ProgbarLogger(keras.callbacks.ProgbarLogger):
    """Shows how far a call is; fit, evaluate and predict have one unless ``verbose=0``.

    In a terminal and in a notebook, ``verbose=1`` (or "auto") updates a line in place; elsewhere, and with ``verbose=2``, each epoch gets
    a line when it ends. Launched mains have a line an epoch each. Nothing is shown in kernels of nbval, nor
    where lessons are stored.

    Args:
        clock: gives real seconds; default `time.perf_counter`.
        display: shows the lines; None (default): what fits `verbose` and the place.

    Example:
        >>> import numpy as np
        >>> import simdist as sd
        >>> from simdist import keras
        >>> with sd.OneDeviceStrategy().scope():
        ...     model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        ...     model.compile("sgd", "mse")
        >>> _ = model.fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=2)
        Epoch 1/1 - 2/2 steps - ... steps/s - ... real - ... virtual - loss: ...
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, display: Display | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._given = display
        self._display: Display | None = None
        self._title = ""
        self._done = 0
        self._before = 0  # batches of this epoch that were done before a restore
        self._began_s, self._shown_s = 0.0, 0.0
        self._virtual_began_s: float | None = None
        self._expected_s: float | None = None

    def set_params(self, params: dict[str, Any]) -> None:
        """A call begins."""
        super().set_params(params)
        self._display = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Evaluations are silent from here on."""
        self._called_in_fit, self._expected_s = True, None

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Evaluations have lines of their own from here on."""
        self._called_in_fit = False

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        """An epoch begins."""
        self._begin(f"Epoch {epoch + 1}/{self.epochs}", _batches_done(model_of(self)))

    def on_test_begin(self, logs: Logs | None = None) -> None:
        """An evaluation begins."""
        if not self._called_in_fit:
            self._begin("Evaluation")

    def on_predict_begin(self, logs: Logs | None = None) -> None:
        """A prediction begins."""
        self._begin("Prediction")

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """A batch has ended."""
        self._go_on(batch)

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """A batch of an evaluation has ended."""
        if not self._called_in_fit:
            self._go_on(batch)

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """A batch of a prediction has ended."""
        self._go_on(batch)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """An epoch has ended, with its losses."""
        self.target = self.target or self._done
        self._expected_s = self._end(logs)

    def on_test_end(self, logs: Logs | None = None) -> None:
        """An evaluation has ended, with its losses."""
        if not self._called_in_fit:
            self._end(logs)

    def on_predict_end(self, logs: Logs | None = None) -> None:
        """A prediction has ended."""
        self._end({})

    def _begin(self, title: str, before: int = 0) -> None:
        if self._display is None:
            self._display = self._given or display_here(int(self.verbose), alone=not is_in_a_main())
        self._title, self._done, self._before = title, before, before
        self._began_s = self._shown_s = self._clock()
        self._virtual_began_s = virtual_now_s(model_of(self))

    def _go_on(self, batch: int) -> None:
        self._done = batch + 1
        interval_s = None if self._display is None else self._display.interval_s
        if self._display is None or interval_s is None:
            return
        now_s = self._clock()
        if now_s - self._shown_s >= interval_s or self._done == self.target:
            self._display.show(self._progress(now_s, None).line())
            self._shown_s = now_s

    def _end(self, logs: Logs | None) -> float:
        """Show the last line; the real seconds in all."""
        now_s = self._clock()
        if self._display is not None:
            self._display.end(self._progress(now_s, dict(logs or {})).line())
        return now_s - self._began_s

    def _progress(self, now_s: float, results: Logs | None) -> Progress:
        virtual_s = virtual_now_s(model_of(self))  # 0.0 on an engine without time
        virtual_s = virtual_s - self._virtual_began_s if virtual_s and self._virtual_began_s is not None else None
        return Progress(self._title, self._done, self.target, now_s - self._began_s, virtual_s, self._expected_s, results, self._before)


def _batches_done(model: keras.Model) -> int:
    """The batches of the epoch that begins, or goes on, which were done before."""
    position = model.simdist_state.position if isinstance(model, StrategyModel) else None
    return 0 if position is None else position.batch
