"""A collective, step by step: which rank sends which chunk to whom, and whose contributions every chunk then holds.

Ranks are rows and chunks are columns; a chunk always stays in its column, so every transfer is an arrow along a column. The
widget is made from a schedule alone: no cluster runs, and the seconds are those of an idle network.

Taught in lesson 03a.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from simdist.arguments import number, whole_number
from simdist.collectives.base import Algorithm, Schedule
from simdist.collectives.checking import check_schedule
from simdist.errors import InvalidArgumentError
from simdist_widgets import collective_text as text
from simdist_widgets.base import BaseWidget
from simdist_widgets.collective_data import encode
from simdist_widgets.collective_figure import collective_figure
from simdist_widgets.host_page import text_of

MOST_CHUNKS = 4096  # of all ranks together: smaller ones cannot be seen
MOST_BITS = 64_000_000  # moments x ranks x chunks x contributors


class CollectiveStepper(BaseWidget):
    """A collective that can be stepped through.

    Args:
        schedule: who sends what to whom, for instance ``ring.schedule(4)``.
        size_bytes: data of each rank (default: 64 MiB).
        latency_s: of one transfer, seconds (default: 10 microseconds).
        bandwidth_bytes_per_s: of each rank's port, in each direction (default: 12.5e9, which is 100 Gbit/s).
        values: numbers of shape [rank, chunk] that the ranks begin with; the chunks then show what becomes of them
            (default: the chunks show how many ranks they contain).
        step: where to begin, 0 (before the first step) to ``schedule.num_steps``.

    Raises:
        TypeError: `schedule` is not a Schedule, a quantity is no number, or `step` is no whole number.
        InvalidArgumentError: a quantity is out of range, `values` has another shape, there is too much to draw, or the schedule breaks a
            rule (`simdist.collectives.check_schedule`).

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> stepper = CollectiveStepper(schedule(4), size_bytes=4000, latency_s=0.001, bandwidth_bytes_per_s=1e6)
        >>> stepper.step = 3
        >>> stepper
        CollectiveStepper(ring all-reduce, 4 ranks, 4 chunks, 4000 bytes, step 3 of 6, 0.006000 seconds)
    """

    page_name = "collective_stepper"
    page_traits = ("header", "data", "step")
    _esm = text_of("collective_stepper.js")
    _css = text_of("collective_stepper.css")

    header = traitlets.Dict().tag(sync=True)
    data = traitlets.Bytes().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    """The step whose end is shown, 0 before the first one; the reader's buttons and keys set it too."""

    def __init__(
        self,
        schedule: Schedule,
        *,
        size_bytes: float = 64 * 2**20,
        latency_s: float = 10e-6,
        bandwidth_bytes_per_s: float = 12.5e9,
        values: Any = None,
        step: int = 0,
    ) -> None:
        if not isinstance(schedule, Schedule):  # pyright: ignore[reportUnnecessaryIsInstance]
            hint = "call its .schedule(num_ranks)" if isinstance(schedule, Algorithm) else "pass for instance ring.schedule(4)"
            raise TypeError(f"CollectiveStepper: expected a Schedule, got {type(schedule).__name__}; {hint}.")
        _check_quantities(size_bytes, latency_s, bandwidth_bytes_per_s)
        check_schedule(schedule)
        _check_room(schedule)
        numbers = None if values is None else _as_numbers(values, schedule)
        header, data = encode(schedule, size_bytes, latency_s, bandwidth_bytes_per_s, numbers)
        self._schedule = schedule
        self._values = numbers
        super().__init__(header=header, data=data, step=whole_number(step, "CollectiveStepper: step"))

    @traitlets.validate("step")
    def _check_step(self, proposal: Any) -> int:
        last = self._schedule.num_steps
        if not 0 <= proposal["value"] <= last:
            raise InvalidArgumentError(f"CollectiveStepper: step must be 0 (before the first) to {last}; given {proposal['value']}.")
        return proposal["value"]

    def picture(self) -> Any:
        """The step that is shown now as a matplotlib ``Figure``."""
        return self.figure(self.step)

    def figure(self, step: int) -> Any:
        """One step as a matplotlib ``Figure``, with the same rows, columns, arrows and words.

        Args:
            step: 0 (before the first step) to ``schedule.num_steps``.

        Returns:
            A ``matplotlib.figure.Figure``, made without pyplot.

        Raises:
            TypeError: it is no whole number.
            InvalidArgumentError: there is no such step.
        """
        shown = self._check_step({"value": whole_number(step, "CollectiveStepper: step")})
        return collective_figure(self._schedule, self.header, shown, self._values)

    def __repr__(self) -> str:
        s = self._schedule
        size = f"{text.count(s.num_ranks, 'rank')}, {text.count(s.num_chunks, 'chunk')}, {self.header['size_bytes']:.0f} bytes"
        seconds = self.header["steps"][self.step]["end_s"]
        return f"CollectiveStepper({text.name(s)}, {size}, step {self.step} of {s.num_steps}, {seconds:.6f} seconds)"


def _check_quantities(size_bytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> None:
    number(size_bytes, "CollectiveStepper: size_bytes")
    number(latency_s, "CollectiveStepper: latency_s")
    if number(bandwidth_bytes_per_s, "CollectiveStepper: bandwidth_bytes_per_s") == 0:
        raise InvalidArgumentError("CollectiveStepper: bandwidth_bytes_per_s=0 must be more than 0: no byte would ever arrive.")


def _check_room(schedule: Schedule) -> None:
    chunks = schedule.num_ranks * schedule.num_chunks
    bits = chunks * schedule.num_ranks * (schedule.num_steps + 1)
    if chunks > MOST_CHUNKS or bits > MOST_BITS:
        raise InvalidArgumentError(
            f"CollectiveStepper: {schedule.num_ranks} ranks with {schedule.num_chunks} chunks in {schedule.num_steps} steps are more "
            f"than can be drawn ({MOST_CHUNKS:,} chunks of all ranks together); take fewer ranks: 4 to 16 show the idea best."
        )


def _as_numbers(values: Any, schedule: Schedule) -> np.ndarray:
    numbers = np.asarray(values, np.float64)
    wanted = (schedule.num_ranks, schedule.num_chunks)
    if numbers.shape != wanted:
        raise InvalidArgumentError(
            f"CollectiveStepper: values must have one number for each rank and chunk, shape {wanted}; given shape {numbers.shape}."
        )
    return numbers
