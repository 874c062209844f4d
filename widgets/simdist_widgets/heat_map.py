"""A shard map of very many tasks: one cell per task, its colour by its bytes, in rows that begin anew with every job.

The cells, their colours and the scale are computed here, once for the live map (src/heat_map.ts) and for the static picture.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from simdist.extras import needs
from simdist_widgets.byte_units import format_bytes
from simdist_widgets.color_ramp import RAMP_LENGTH, ramp_color
from simdist_widgets.shard_colors import FIGURES, color_of, scale_of
from simdist_widgets.shard_figure import BAR, range_text

HEAT_MAP_FROM = 40  # tasks, from which columns of blocks say less than cells
COLUMNS = (10, 20, 25, 50)  # that a row may have
MOST_LARGEST = 5
ROW_INCH, MOST_ROWS_INCH, LOWEST_INCH = 0.27, 14.0, 0.12  # a row of a picture, all of them, and the least room of a name


def heat_map(tasks: Sequence[str], shards: Sequence[Mapping[str, Any]], balanced: Sequence[str]) -> dict[str, Any]:
    """The cells of a heat map, as the front end reads them.

    Args:
        tasks: the tasks, in their order.
        shards: dicts with the fields of a placement record.
        balanced: the tasks between which the variables are meant to be shared.

    Returns:
        A JSON-able dict: columns, rows of cells, the colours of the scale, and the bytes at its end.

    Example:
        >>> shard = {"task": "ps:1", "variable": "w", "size_bytes": 32, "num_shards": 1}
        >>> cells = heat_map(["ps:0", "ps:1"], [shard], ["ps:0", "ps:1"])["rows"][0]
        >>> [(cell["task"], cell["bytes"], cell["color"]) for cell in cells]
        [('ps:0', 0, '#eff3fa'), ('ps:1', 32, '#08408a')]
    """
    of_task: dict[str, list[Mapping[str, Any]]] = {task: [] for task in tasks}
    for shard in shards:
        of_task[shard["task"]].append(shard)
    bytes_of = {task: sum(shard["size_bytes"] for shard in held) for task, held in of_task.items()}
    greatest = max(bytes_of.values(), default=0)
    total = sum(bytes_of[task] for task in balanced)
    members = set(balanced)

    def cell(task: str) -> dict[str, Any]:
        size, held = bytes_of[task], of_task[task]
        largest = heapq.nlargest(MOST_LARGEST, held, key=lambda shard: shard["size_bytes"])
        return {
            "task": task,
            "bytes": size,
            "color": ramp_color(size / greatest if greatest else 0.0),
            "num_shards": len(held),
            "share": size / total if total and task in members else None,
            "largest": [[_shard_name(shard), shard["size_bytes"]] for shard in largest],
        }

    columns = next((count for count in COLUMNS if count**2 >= 1.5 * len(tasks)), COLUMNS[-1])
    jobs = [list(job) for _, job in groupby(tasks, key=lambda task: task.partition(":")[0])]
    rows = [job[first : first + columns] for job in jobs for first in range(0, len(job), columns)]
    ramp = [ramp_color(step / (RAMP_LENGTH - 1)) for step in range(RAMP_LENGTH)]
    return {"columns": columns, "rows": [[cell(task) for task in row] for row in rows], "ramp": ramp, "greatest": greatest}


def color_cells(heat: dict[str, Any], shards: Sequence[Mapping[str, Any]], color_by: str) -> None:
    """Colour the cells of a heat map by a figure of the shards in place of their bytes.

    Args:
        heat: what `heat_map` returned; its cells get the figure of their task, and the map its scale.
        shards: with the traffic of each.
        color_by: a key of `FIGURES`.
    """
    figure = FIGURES[color_by]
    values: dict[str, list[float]] = {}
    for shard in shards:
        if (value := figure.value(shard)) is not None:
            values.setdefault(shard["task"], []).append(value)
    together = {task: figure.together(held) for task, held in values.items()}
    greatest = max(together.values(), default=0)
    cells = [cell for row in heat["rows"] for cell in row]
    for cell in cells:
        value = together.get(cell["task"])
        cell["color"] = color_of(value, greatest)
        cell["figure"] = [figure.title, "none" if value is None else figure.text(value)]
    heat["scale"] = scale_of(color_by, greatest, any(cell["task"] not in together for cell in cells))


def heat_figure(heat: Mapping[str, Any], title: str) -> Any:
    """The same cells as a matplotlib ``Figure``.

    Args:
        heat: what `heat_map` returned.
        title: what to say about the balance.

    Example:
        >>> heat_figure(heat_map(["ps:0"], [], ["ps:0"]), "").axes[0].get_yticklabels()[0].get_text()
        'ps:0'
    """
    with needs("The picture of a shard map", "lab"):
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle

    rows = heat["rows"]
    inch = min(ROW_INCH, MOST_ROWS_INCH / max(len(rows), 1))
    every, edge = math.ceil(LOWEST_INCH / inch), 0.6 if inch >= LOWEST_INCH else 0.0
    figure = Figure(figsize=(10.0, 1.5 + inch * len(rows)), layout="constrained")
    ax = figure.add_subplot()
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            ax.add_patch(Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, facecolor=cell["color"], edgecolor="#c4cbd3", linewidth=edge))
    ax.set(xlim=(0, heat["columns"]), ylim=(len(rows), 0), xticks=[])
    names = [row[0]["task"] for row in rows[::every]]
    ax.set_yticks([y + 0.5 for y in range(0, len(rows), every)], names, fontsize=min(9.0, 60 * inch * every), parse_math=False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title, loc="left", fontsize=9)
    ends = heat["scale"]["ends"] if "scale" in heat else ["0 B", f"{format_bytes(heat['greatest'])} of a task"]
    scale = ScalarMappable(Normalize(0, heat["greatest"] or 1), ListedColormap(heat["ramp"]))
    bar = figure.colorbar(scale, ax=ax, **BAR)
    bar.set_ticks([0, heat["greatest"] or 1], labels=ends)
    if "scale" in heat:
        bar.set_label(heat["scale"]["title"])
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return figure


def _shard_name(shard: Mapping[str, Any]) -> str:
    """The variable, with its rows where it is cut."""
    return f"{shard['variable']} {range_text(shard)}" if shard["num_shards"] > 1 else str(shard["variable"])
