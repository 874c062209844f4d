"""The static picture of one step of a collective: ranks as rows, chunks as columns, transfers as arrows beside the columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from simdist.collectives.base import Schedule
from simdist.extras import needs
from simdist.hardware.memory import readable
from simdist_widgets import collective_states as states

MOST_SEGMENTS = 16  # ranks; with more of them a chunk shows how many it contains, not which
MOST_ARROWS = 200  # of one step; more of them hide the picture
MOST_TEXTS = 144  # chunks of all ranks together
CELL_HEIGHT = 0.70  # of a row
BAR_HEIGHT = 0.62  # of a cell with words under the bar
COMPLETE_COLOR, EMPTY_COLOR, LEVEL_COLOR, INK = "#1b7f4b", "#eef0f3", "#0072b2", "#1b1f24"
FADED = 0.25


def collective_figure(schedule: Schedule, header: Mapping[str, Any], step: int, values: np.ndarray | None) -> Any:
    """Draws what every rank holds after a step, and how it got there.

    Args:
        schedule: any schedule.
        header: what `simdist_widgets.collective_data.encode` made of it.
        step: 0 to the last.
        values: what the ranks began with, or None.

    Returns:
        A matplotlib ``Figure``.

    Example:
        >>> from simdist.collectives.ring import schedule
        >>> from simdist_widgets.collective_data import encode
        >>> header, _ = encode(schedule(2), 8, 0.0, 1.0, None)
        >>> collective_figure(schedule(2), header, 1, None).axes[0].get_title(loc="left")
        'Ring all-reduce, step 1 of 2'
    """
    with needs("The picture of a collective", "lab"):
        from matplotlib.figure import Figure

    ranks, chunks = schedule.num_ranks, schedule.num_chunks
    figure = Figure(figsize=(min(max(2.0 + 1.15 * chunks, 5.0), 12.0), 1.5 + min(0.52 * ranks, 9.0)), layout="constrained")
    ax = figure.add_subplot()
    gutters = _gutters(header)
    pitch = 1.0 + sum(gutters)
    _draw_cells(ax, schedule, header, step, values, pitch)
    _draw_arrows(ax, header["steps"][step]["transfers"], pitch)
    ax.set(xlim=(-gutters[0], chunks * pitch - gutters[0]), ylim=(ranks - 0.4, -0.6))
    ax.set_xticks(np.arange(0, chunks, _stride(chunks)) * pitch + 0.5, [f"chunk {c}" for c in range(0, chunks, _stride(chunks))])
    ax.set_yticks(np.arange(0, ranks, _stride(ranks)), [f"rank {r}" for r in range(0, ranks, _stride(ranks))])
    ax.tick_params(length=0, labelsize=9, labeltop=True, labelbottom=False)
    ax.spines[:].set_visible(False)
    _write(figure, ax, header, step)
    return figure


def _gutters(header: Mapping[str, Any]) -> tuple[float, float]:
    """Room for the arrows left and right of a column of chunks, where a chunk is 1 wide; the same in every step."""
    lanes = {False: -1, True: -1}
    for step in header["steps"]:
        for t in step["transfers"]:
            lanes[t["target"] > t["source"]] = max(lanes[t["target"] > t["source"]], *t["lanes"])
    return tuple(0.06 + (0.10 + 0.09 * (lanes[side] + 1) if lanes[side] >= 0 else 0.0) for side in (False, True))  # pyright: ignore[reportReturnType]


def _draw_cells(ax: Any, schedule: Schedule, header: Mapping[str, Any], step: int, values: np.ndarray | None, pitch: float) -> None:
    held = states.contributions(schedule)
    wanted = states.needed(schedule, held)
    complete = states.complete(schedule, held, wanted)[step] & header["sums"]
    held, wanted = held[step], wanted[step]
    words = schedule.num_ranks * schedule.num_chunks <= MOST_TEXTS
    numbers = states.numbers(schedule, values)[step] if values is not None else None
    arrived = {(t["target"], c) for t in header["steps"][step]["transfers"] for c in t["chunks"]}
    boxes: dict[tuple[str, bool], list[tuple[float, float, float, float]]] = {}
    for rank, chunk in np.ndindex(*wanted.shape):
        left, top, live = chunk * pitch, rank - CELL_HEIGHT / 2, bool(wanted[rank, chunk])
        boxes.setdefault((EMPTY_COLOR, True), []).append((left, top, 1.0, CELL_HEIGHT))
        height = CELL_HEIGHT * (BAR_HEIGHT if words and not complete[rank, chunk] else 1.0)
        for x, width, color in _bars(header, held[rank, chunk], bool(complete[rank, chunk]), live):
            boxes.setdefault((color, live), []).append((left + x, top, width, height))
        if words:
            _label(ax, left, rank, header, held[rank, chunk], bool(complete[rank, chunk]), live, numbers, chunk)
    _add_boxes(ax, boxes)
    outline = [(chunk * pitch, rank - CELL_HEIGHT / 2, 1.0, CELL_HEIGHT) for rank, chunk in sorted(arrived)]
    ax.add_collection(_collection(outline, facecolor="none", edgecolor=INK, linewidth=1.8, zorder=3))


def _bars(header: Mapping[str, Any], held: np.ndarray, complete: bool, live: bool) -> Iterable[tuple[float, float, str]]:
    """The coloured parts of one chunk: left edge, width, colour."""
    if complete:
        return [(0.0, 1.0, COMPLETE_COLOR)]
    if not header["sums"]:
        ranks = np.flatnonzero(held) if live else []
        return [(place / len(ranks), 1 / len(ranks), header["colors"][rank]) for place, rank in enumerate(ranks)]
    n = len(held)
    if n > MOST_SEGMENTS:
        return [(0.0, held.sum() / n, LEVEL_COLOR)]
    return [(rank / n, 1 / n, header["colors"][rank]) for rank in np.flatnonzero(held)]


def _label(
    ax: Any,
    left: float,
    rank: int,
    header: Mapping[str, Any],
    held: np.ndarray,
    complete: bool,
    live: bool,
    numbers: np.ndarray | None,
    chunk: int,
) -> None:
    origin = f"from {'+'.join(map(str, np.flatnonzero(held)))}" if live else ""
    part = "added twice" if held.all() else f"{held.sum()} of {len(held)}"
    whole = "sum" if complete else part if header["sums"] else origin
    said = whole if numbers is None else f"{numbers[rank, chunk]:.4g}"
    y = rank if complete else rank - CELL_HEIGHT / 2 + CELL_HEIGHT * (1 + BAR_HEIGHT) / 2
    appearance = {"color": "white", "fontsize": 9, "fontweight": "bold"} if complete else {"color": INK, "fontsize": 6.5}
    ax.text(left + 0.5, y + 0.01, said, ha="center", va="center", zorder=4, alpha=1.0 if live or complete else 0.45, **appearance)


def _add_boxes(ax: Any, boxes: Mapping[tuple[str, bool], list[tuple[float, float, float, float]]]) -> None:
    for (color, live), boxes_of_color in boxes.items():
        layer = 1 if color == EMPTY_COLOR else 2
        ax.add_collection(_collection(boxes_of_color, facecolor=color, edgecolor="none", alpha=1.0 if live else FADED, zorder=layer))


def _collection(boxes_of_color: list[tuple[float, float, float, float]], **appearance: Any) -> Any:
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    return PatchCollection([Rectangle((x, y), w, h) for x, y, w, h in boxes_of_color], **appearance)


def _draw_arrows(ax: Any, transfers: list[Mapping[str, Any]], pitch: float) -> None:
    """One arrow for each chunk that travels: downwards right of its column, upwards left of it."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    if sum(len(t["chunks"]) for t in transfers) > MOST_ARROWS:
        return
    for t in transfers:
        side = 1 if t["target"] > t["source"] else -1
        start, end = t["source"] + 0.16 * side, t["target"] - 0.16 * side
        for chunk, lane in zip(t["chunks"], t["lanes"], strict=True):
            x = chunk * pitch + (1.0 if side > 0 else 0.0)
            out = x + side * (0.13 + 0.09 * lane) / 0.75
            path = Path([(x, start), (out, start), (out, end), (x, end)], [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
            style = "-" if t["adds"] else (0, (3, 1.5))
            arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=8, linewidth=1.3, linestyle=style, color=INK, zorder=5)
            ax.add_patch(arrow)


def _write(figure: Any, ax: Any, header: Mapping[str, Any], step: int) -> None:
    record, last = header["steps"][step], len(header["steps"]) - 1
    name = header["name"][0].upper() + header["name"][1:]
    ax.set_title(f"{name}, step {step} of {last}", loc="left", fontsize=11, fontweight="bold", parse_math=False)
    sentence = record["text"][0].upper() + record["text"][1:]
    done = f"{record['end_s']:.6f} s; {readable(record['sent_bytes'])} sent by all ranks together."
    figure.supxlabel(f"{sentence}\n{done}", fontsize=8.5, x=0.01, ha="left", wrap=True, parse_math=False)


def _stride(count: int) -> int:
    """Label every one, or every 2nd, 4th, 8th, ... so that about 16 labels remain."""
    stride = 1
    while count / stride > 16:
        stride *= 2
    return stride
