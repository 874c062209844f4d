"""How far a call has come, as one line of text: steps, their rate, time to go, real and virtual seconds, and at the end the results.

Losses stand in the line of a whole epoch and in no other: within an epoch they would have to be computed at moments that the real clock
chooses. This file reads no clock and prints nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simdist.training.keras_model import Logs

__all__ = ["Progress"]

BAR_COLUMNS = 20


@dataclass(frozen=True)
class Progress:
    """How far a call has come.

    Attributes:
        title: what goes on: "Epoch 2/5", "Evaluation".
        done: steps that have ended.
        steps: all of them; None where nobody knows yet.
        real_s: real seconds since the beginning.
        virtual_s: virtual seconds of the cluster since the beginning; None where there is no such time.
        expected_s: the real seconds that an epoch before has taken in all; None of the first.
        results: losses and metrics; None while it goes on.
        before: of the steps that have ended, those that had when it began: an epoch goes on after a restore.

    Example:
        >>> Progress("Epoch 1/2", done=5, steps=20, real_s=0.5, virtual_s=2.0).line()
        'Epoch 1/2 ━━━━━─────────────── 5/20 steps - 10.0 steps/s - 1.5 s to go - 0.5 s real - 2 s virtual'
        >>> Progress("Epoch 1/2", done=20, steps=20, real_s=2.5, virtual_s=8.0, results={"loss": 0.25}).line()
        'Epoch 1/2 - 20/20 steps - 8.0 steps/s - 2.5 s real - 8 s virtual - loss: 0.2500'
    """

    title: str
    done: int
    steps: int | None
    real_s: float
    virtual_s: float | None = None
    expected_s: float | None = None
    results: Logs | None = field(default=None)
    before: int = 0

    def line(self) -> str:
        """The line."""
        head = self.title if self.results is not None else f"{self.title}{self._bar()}"
        ended = self.results is not None
        count = f"{self.done} steps" if self.steps is None else f"{self.done}/{self.steps} steps"
        rate = [f"{self._taken / self.real_s:.1f} steps/s"] if self._taken and self.real_s > 0 else []
        virtual = [] if self.virtual_s is None else [f"{_seconds(self.virtual_s)} virtual"]
        first, *rest = [count, *rate, *([] if ended else self._to_go()), f"{_seconds(self.real_s)} real", *virtual]
        results = [f"{name}: {_number(value)}" for name, value in (self.results or {}).items()]
        return " - ".join([f"{head} - {first}" if ended else f"{head} {first}", *rest, *results])

    @property
    def _taken(self) -> int:
        """The steps of these seconds."""
        return self.done - self.before

    def _bar(self) -> str:
        if not self.steps:
            return ""
        full = BAR_COLUMNS * min(self.done, self.steps) // self.steps
        return f" {'━' * full}{'─' * (BAR_COLUMNS - full)}"

    def _to_go(self) -> list[str]:
        """What is left of the real time: by the steps so far, and by the epoch before, at whose end losses were computed."""
        if self.steps is not None and self.done >= self.steps:
            return ["computing results"]
        by_steps = 0.0 if not self._taken or self.steps is None else self.real_s / self._taken * (self.steps - self.done)
        left_s = max(by_steps, (self.expected_s or 0.0) - self.real_s)
        return [f"{_seconds(left_s)} to go"] if left_s > 0 else []


def _seconds(seconds: float) -> str:
    """A duration, with three digits, or in hours and minutes.

    Example:
        >>> [_seconds(0.000123), _seconds(12.34), _seconds(75.0), _seconds(3725.0)]
        ['0.000123 s', '12.3 s', '1:15 min', '1:02:05 h']
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def _number(value: object) -> str:
    """A loss or a metric with four digits behind the point, or as a power of ten where these would be zeros."""
    array = np.asarray(value)
    if array.ndim or array.dtype.kind not in "biuf":
        return str(value)
    number = float(array)
    return f"{number:.4f}" if number == 0 or abs(number) > 1e-3 else f"{number:.4e}"
