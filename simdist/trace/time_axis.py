"""The ticks of a time axis: round moments, one unit for all labels, never more than two digits behind the point.

The interactive timeline (widgets/src/time_scale.ts) has the same rules; tests/widgets/picture_cases.json holds examples that both sides
are tested with. Far from the start of a run, labels count from a base that is said once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TimeAxis", "round_step", "set_time_ticks", "time_axis"]

GAP_PX = 96  # between two ticks, at least
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


@dataclass(frozen=True)
class TimeAxis:
    """Ticks of a stretch of time.

    Attributes:
        times_s: the moments, virtual seconds.
        labels: a text for each of them, with its unit.
        base: what all labels count from, "" for the start of the run.
    """

    times_s: list[float]
    labels: list[str]
    base: str


def time_axis(start_s: float, end_s: float, width_px: float) -> TimeAxis:
    """The ticks of a picture.

    Args:
        start_s, end_s: the stretch of time in the picture, virtual seconds.
        width_px: its width in CSS pixels.

    Example:
        >>> time_axis(0.0, 0.5, 600.0).labels
        ['0 ms', '100 ms', '200 ms', '300 ms', '400 ms', '500 ms']
    """
    step_s = round_step((end_s - start_s) / max(width_px, 1.0) * GAP_PX)
    size_s = max(abs(start_s), abs(end_s))
    unit_s, name, digits = _unit(size_s, step_s)
    group_s = unit_s * 1000
    far = unit_s < 1 and size_s / unit_s >= 1e5
    base_s = floor(start_s / group_s) * group_s if far else 0.0
    first, last = ceil(start_s / step_s - 1e-9), floor(end_s / step_s + 1e-9)
    times_s = [index * step_s for index in range(first, last + 1)]
    values = [round((time_s - base_s) / unit_s, digits) + 0.0 for time_s in times_s]  # + 0.0: no minus before a zero
    labels = [f"{'+' if far else ''}{value:.{digits}f} {name}" for value in values]
    return TimeAxis(times_s, labels, f"{base_s:.{max(0, round(-log10(group_s)))}f} s" if far else "")


def set_time_ticks(ax: Axes, width_px: float) -> None:
    """Gives matplotlib axes the ticks of their present limits, and a label that says what they count from."""
    start_s, end_s = ax.get_xlim()
    axis = time_axis(start_s, end_s, width_px)
    ax.set_xticks(axis.times_s, axis.labels)
    ax.set_xlabel(f"virtual time, from {axis.base}" if axis.base else "virtual time")


def round_step(least: float) -> float:
    """The next 1, 2 or 5 times a power of ten that is at least this.

    Example:
        >>> round_step(0.03), round_step(7)
        (0.05, 10.0)
    """
    exponent = floor(log10(least) + 1e-12)
    mantissa = least / 10.0**exponent
    digit = next((candidate for candidate in (1, 2, 5, 10) if mantissa <= candidate * (1 + 1e-9)), 10)
    if digit == 10:
        digit, exponent = 1, exponent + 1
    return digit / 10**-exponent if exponent < 0 else float(digit * 10**exponent)  # a division keeps 0.001 exact


def _unit(size_s: float, step_s: float) -> tuple[float, str, int]:
    """The largest unit in which the ticks need at most two digits, its name, and the digits."""
    for unit_s, name in UNITS:
        digits = max(0, ceil(-log10(step_s / unit_s) - 1e-9))
        if size_s >= unit_s and digits <= 2:
            return unit_s, name, digits
    unit_s, name = UNITS[-1]
    return unit_s, name, min(3, max(0, ceil(-log10(step_s / unit_s) - 1e-9)))
