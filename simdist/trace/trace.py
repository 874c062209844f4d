"""`Trace`: the event log together with its views.

Nothing is computed here. Each method hands the log to the file of that name; matplotlib and pandas are loaded by those
that need them, when they are called.

Taught in lesson 00.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from simdist.trace import charts, critical_path, dataframe, digest, perfetto, plots, summary, tensorboard
from simdist.trace.event_log import EventLog
from simdist.trace.summary_records import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from pandas import DataFrame

__all__ = ["Trace"]


class Trace(EventLog):
    """The log of one cluster: spans, instants and counters, and the views of them.

    Args:
        seed: the seed of the run, which is part of the digest's header (default 0).
        enabled: with False nothing but instants is recorded, for measuring what recording costs (default True).

    Example:
        >>> trace = Trace(seed=0)
        >>> _ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
        >>> _ = trace.instant("worker:0", "crash", "crash of worker:0", 0.5)
        >>> trace.spans[0].duration_s
        0.5
    """

    def digest(self) -> str:
        """Sixteen hexadecimal digits that are equal for two runs exactly when the same things happened at the same times."""
        return digest.digest(self)

    def summary(self) -> Summary:
        """The run in numbers: busy time, counts by category, bytes, staleness, queues, the critical path, faults, recovery."""
        return summary.summary(self)

    def critical_path(self) -> critical_path.CriticalPath:
        """The chain of causes that ends with the last span: what decided how long the run took.

        Its `seconds` are virtual seconds by category, its `segments` one span after the other.
        """
        return critical_path.critical_path(self)

    def to_perfetto(self, path: str | os.PathLike[str]) -> None:
        """Write a file that https://ui.perfetto.dev opens."""
        perfetto.to_perfetto(self, path)

    def to_tensorboard(self, directory: str | os.PathLike[str], bins: int = 200) -> Path:
        """Write scalars over virtual time for TensorBoard, in that many bins (default 200), and return the file's path."""
        return tensorboard.to_tensorboard(self, directory, bins)

    def to_dataframe(self) -> DataFrame:
        """All spans as a pandas DataFrame (needs pandas)."""
        return dataframe.to_dataframe(self)

    def timeline(self, ax: Axes | None = None) -> Figure | SubFigure:
        """A static matplotlib picture: one lane per task, time to the right, faults as marks."""
        return plots.timeline(self, ax=ax)

    def staleness(self, ax: Axes | None = None) -> Figure | SubFigure:
        """A static matplotlib picture: how many updates were how stale."""
        return charts.staleness(self, ax=ax)

    def utilisation(self, ax: Axes | None = None) -> Figure | SubFigure:
        """A static matplotlib picture: the share of the run in which the devices of each task computed."""
        return charts.utilisation(self, ax=ax)

    def queue(self, ax: Axes | None = None) -> Figure | SubFigure:
        """A static matplotlib picture: the length of each queue over virtual time."""
        return charts.queue(self, ax=ax)
