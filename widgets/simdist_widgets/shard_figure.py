"""The static picture of a shard map: one stacked bar of bytes per task, its shards in their order, the total beside it.

All bars have one height and one scale, so areas are bytes; above them stands how even the tasks are. A dollar sign in a name begins no
formula.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simdist.extras import needs
from simdist.trace.axes import show_names_as_they_are
from simdist_widgets.byte_units import byte_ticks, format_bytes
from simdist_widgets.shard_colors import ink_on

# Hues that people with any of the common colour deficiencies tell apart (after Okabe and Ito); order of the stack.
KIND_COLORS = {"parameter": "#0072b2", "slot": "#e69f00", "metric": "#009e73", "other": "#7f8790"}
ROOM_PER_CHARACTER = 0.0085  # of the longest bar
LEAST_CHARACTERS = 7
MOST_ROWS_INCH, LOWEST_INCH = 14.0, 0.16  # of all rows; a lower one has no room for text
# How a scale of colours lies below a map.
BAR: dict[str, Any] = {"orientation": "horizontal", "fraction": 0.05, "aspect": 50, "shrink": 0.5}


def shard_figure(
    tasks: Sequence[str],
    shards: Sequence[Mapping[str, Any]],
    balanced: Sequence[str],
    scale: Mapping[str, Any] | None = None,
) -> Any:
    """Draws the bytes of every task as one bar, cut into shards.

    Args:
        tasks: the tasks, top to bottom.
        shards: dicts with the fields of a placement record, in the order in which they are stacked.
        balanced: the tasks between which the variables are meant to be shared.
        scale: of the colours that the shards have (`simdist_widgets.shard_colors`); default None: they are coloured by their kind.

    Returns:
        A matplotlib ``Figure``.

    Example:
        >>> shard = {"task": "ps:0", "variable": "w", "kind": "parameter", "size_bytes": 32, "num_shards": 1}
        >>> [text.get_text() for text in shard_figure(["ps:0"], [shard], ["ps:0"]).axes[0].texts]
        ['w', '32 B · 100 %']
    """
    with needs("The picture of a shard map", "lab"):
        from matplotlib.figure import Figure

    inch = _row_inch(len(tasks))
    figure = Figure(figsize=(10.0, 1.0 + inch * max(len(tasks), 1)), layout="constrained")
    ax = figure.add_subplot()
    of_task: dict[str, list[Mapping[str, Any]]] = {task: [] for task in tasks}
    for shard in shards:
        of_task[shard["task"]].append(shard)
    bytes_of = {task: sum(shard["size_bytes"] for shard in held) for task, held in of_task.items()}
    greatest = max(bytes_of.values(), default=1) or 1
    total = sum(bytes_of[task] for task in balanced)
    for row, task in enumerate(tasks):
        share = f" · {bytes_of[task] / total:.0%}".replace("%", " %") if total and task in balanced else ""
        left = _draw_task(ax, row, of_task[task], greatest, has_names=inch >= LOWEST_INCH)
        if inch >= LOWEST_INCH:
            ax.text(left + greatest * 0.01, row, f"{format_bytes(left)}{share}", va="center", fontsize=9)
    ax.set(xlim=(0, greatest * 1.16), ylim=(max(len(tasks), 1) - 0.45, -0.55))
    every = math.ceil(LOWEST_INCH / inch)
    ax.set_yticks(range(0, len(tasks), every), tasks[::every], parse_math=False)
    ax.set_xticks(*byte_ticks(greatest * 1.16))
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(balance_text(tasks, shards, balanced), loc="left", fontsize=9)
    if scale is None:
        _draw_legend(ax, {str(shard["kind"]) for shard in shards})
    else:
        _draw_scale(figure, ax, scale)
    return figure


def _row_inch(tasks: int) -> float:
    """The height of a row: few tasks get more room, and very many share what fits a screen."""
    return min(0.55 if tasks <= 20 else 0.34, MOST_ROWS_INCH / max(tasks, 1))


def balance_text(tasks: Sequence[str], shards: Sequence[Mapping[str, Any]], balanced: Sequence[str]) -> str:
    """How even the tasks are: 1.00 times the mean is perfect; nothing where there is nothing to compare.

    Example:
        >>> balance_text(["ps:0", "ps:1"], [{"task": "ps:0", "size_bytes": 8}], ["ps:0", "ps:1"])
        'the fullest task holds 2.00 times the mean'
    """
    bytes_of = dict.fromkeys(tasks, 0)
    for shard in shards:
        bytes_of[shard["task"]] += shard["size_bytes"]
    total = sum(bytes_of[task] for task in balanced)
    if len(balanced) < 2 or not total:
        return ""
    apart = " (the chief apart)" if len(balanced) < len(bytes_of) else ""
    imbalance = max(bytes_of[task] for task in balanced) * len(balanced) / total
    return f"the fullest task holds {imbalance:.2f} times the mean{apart}"


def range_text(shard: Mapping[str, Any]) -> str:
    """The part of the whole variable, as an index of numpy: ``[0:4]``, or ``[:, 0:4]`` along axis 1."""
    return f"[{':, ' * shard.get('axis', 0)}{shard['row_start']}:{shard['row_stop']}]"


def _draw_task(ax: Any, row: int, shards: Sequence[Mapping[str, Any]], greatest: int, has_names: bool) -> int:
    """Draw the shards of one task, with names where they have room; return their bytes."""
    left = 0
    frame = 0.8 if has_names else 0.0  # in a low row frames would be all that one sees
    for shard in shards:
        size = shard["size_bytes"]
        color = shard.get("color") or KIND_COLORS.get(shard["kind"], KIND_COLORS["other"])
        edge = "#9aa3ad" if "color" in shard else "white"  # the lightest colour of a scale is nearly white
        ax.barh(row, size, left=left, height=0.62, color=color, edgecolor=edge, linewidth=frame)
        name = shard["variable"]
        if shard["num_shards"] > 1:
            name = f"{name} {range_text(shard)}"
        room = int(size / (ROOM_PER_CHARACTER * greatest)) - 1
        if has_names and room >= min(len(name), LEAST_CHARACTERS):
            name = name if len(name) <= room else f"…{name[len(name) - room + 1 :]}"
            ink = ink_on(color) if "color" in shard else "#101418" if color == KIND_COLORS["slot"] else "white"
            ax.text(left + size / 2, row, name, ha="center", va="center", fontsize=7.5, color=ink, parse_math=False)
        left += size
    return left


def _draw_scale(figure: Any, ax: Any, scale: Mapping[str, Any]) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize
    from matplotlib.patches import Patch

    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), ListedColormap(scale["ramp"])), ax=ax, **BAR)
    bar.set_ticks([0, 1], labels=scale["ends"])
    bar.set_label(scale["title"])
    if scale["unknown"]:
        ax.legend(handles=[Patch(color=scale["unknown"], label="none")], loc="lower right", bbox_to_anchor=(1.0, 1.0), frameon=False)


def _draw_legend(ax: Any, kinds: set[str]) -> None:
    from matplotlib.patches import Patch

    ordered = [kind for kind in KIND_COLORS if kind in kinds] + sorted(kinds - KIND_COLORS.keys())
    handles = [Patch(color=KIND_COLORS.get(kind, KIND_COLORS["other"]), label=kind) for kind in ordered]
    if handles:
        legend = ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(handles), frameon=False)
        show_names_as_they_are(legend)
