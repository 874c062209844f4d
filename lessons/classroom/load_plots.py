"""The figures of lesson 06: how long rounds and steps take, and how the load is spread over servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from IPython.display import Image

from classroom.pictures import MARKERS, new_panels, picture_of

__all__ = ["picture_of_load", "picture_of_rounds", "picture_of_tables"]

MS_OF_ROUNDS = (16, 32, 64, 128, 256)
MS_OF_STEPS = (0.1, 0.2, 0.4, 0.8)
MS_OF_TABLES = (0.01, 0.1, 1, 10, 100)
HATCHES = ("", "//", "..")  # of bars
BELOW, ABOVE = 0.75, 1.5  # how far a panel goes on beyond its last ticks


def picture_of_rounds(
    by_servers: Mapping[tuple[str, float], Mapping[int, float]],
    by_workers: Mapping[int, Mapping[int, float]],
    formula_ms: Callable[..., Any],
    workers: int,
) -> Image:
    """The milliseconds of a round, by the number of servers and by the number of workers: dots are runs, lines the formula.

    Args:
        by_servers: of each model, with the part of it that is hot, the milliseconds by the number of servers.
        by_workers: for each number of servers, the milliseconds by the number of workers.
        formula_ms: takes the numbers of workers and of servers, and the hot part.
        workers: on the left.
    """
    figure, (left, right) = new_panels(f"{workers} workers, more and more servers: ms", "A variable that is cut: ms")
    for ((name, hot), times), marker in zip(by_servers.items(), cycle(MARKERS), strict=False):
        servers = np.geomspace(min(times), max(times), 97)
        (line,) = left.loglog(servers, formula_ms(workers, servers, hot), "-", linewidth=1)
        left.loglog(list(times), list(times.values()), marker, color=line.get_color(), label=name)
        label_ticks(left, "servers", times, MS_OF_ROUNDS)
    for (servers, times), marker in zip(by_workers.items(), cycle(MARKERS), strict=False):
        counts = np.geomspace(min(times), max(times), 97)
        (line,) = right.loglog(counts, formula_ms(counts, servers, 0.0), "-", linewidth=1)
        right.loglog(list(times), list(times.values()), marker, color=line.get_color(), label=f"{servers} servers")
        label_ticks(right, "workers", times, MS_OF_ROUNDS)
    left.legend(frameon=False, fontsize=9, loc="upper right")
    right.legend(frameon=False, fontsize=9, loc="upper left")
    return picture_of(figure)


def picture_of_tables(growing: Mapping[str, Mapping[int, float]]) -> Image:
    """The milliseconds of a step by the rows of a table, for each way to look up rows."""
    figure, (panel,) = new_panels("Milliseconds of a step, by the rows of the table")
    for (name, times), marker in zip(growing.items(), cycle(MARKERS), strict=False):
        panel.loglog(list(times), list(times.values()), f"{marker}-", label=name)
        label_ticks(panel, "rows of the table", times, MS_OF_TABLES)
    panel.legend(frameon=False)
    return picture_of(figure)


def picture_of_load(shares: Mapping[str, np.ndarray], steps: Mapping[str, Mapping[int, float]]) -> Image:
    """The percent of the load on each server, and the milliseconds of a step by the number of servers, for each split."""
    count = len(next(iter(shares.values())))
    figure, (left, right) = new_panels(f"{count} servers: percent of the bytes", "Milliseconds of a step")
    for number, (name, parts) in enumerate(shares.items()):
        left.bar(np.arange(count) + 0.27 * (number - 1), parts, 0.25, label=name, hatch=HATCHES[number % len(HATCHES)], edgecolor="white")
        right.loglog(list(steps[name]), list(steps[name].values()), f"{MARKERS[number % len(MARKERS)]}-", label=name)
        label_ticks(right, "servers", steps[name], MS_OF_STEPS)
    left.axhline(100 / count, color="0.5", linestyle=":")
    left.set_xticks(range(count), [f"ps:{index}" for index in range(count)])
    left.set_ylabel("percent")
    left.legend(frameon=False, fontsize=9)
    return picture_of(figure)


def label_ticks(panel: Any, what: str, counts: Sequence[int] | Mapping[int, float], ms: Sequence[float]) -> None:
    """Write the counts below, and the milliseconds beside, a panel with two logarithmic axes: more of them, where its lines need it."""
    drawn = [float(y) for line in panel.get_lines() for y in line.get_ydata()]
    ms = list(ms)
    while ms[0] * BELOW > min(drawn) > 0:
        ms.insert(0, ms[0] ** 2 / ms[1])
    while ms[-1] * ABOVE < max(drawn) < float("inf"):
        ms.append(ms[-1] ** 2 / ms[-2])
    panel.set_xticks(list(counts), [f"{count:,}" for count in counts])
    panel.set_yticks(ms, [f"{tick:g}" for tick in ms])
    panel.minorticks_off()
    panel.set(xlabel=f"{what} (log scale)", ylim=(BELOW * min(ms), ABOVE * max(ms)))
