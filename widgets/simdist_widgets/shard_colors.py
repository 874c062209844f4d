"""The colours of a shard map by a figure of its shards: bytes that travelled, versions, or staleness; on one scale for all of them.

The colours, the scale and the words are computed here, once for the live map and for the static picture. One hue, so that dark is more;
what has no value is grey.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simdist.errors import InvalidArgumentError
from simdist_widgets.byte_units import format_bytes
from simdist_widgets.color_ramp import RAMP_LENGTH, ramp_color

UNKNOWN_COLOR = "#7f8790"
TRAFFIC_FIELDS = ("reads", "updates", "bytes_read", "bytes_updated", "version", "staleness")


class ShardFigure(NamedTuple):
    """What colours can show: its name, its value for a shard (None: it has none), its text, and the value of several shards of a task."""

    title: str
    value: Callable[[Mapping[str, Any]], float | None]
    text: Callable[[float], str]
    together: Callable[[Sequence[float]], float]


FIGURES = {
    "traffic": ShardFigure("bytes read and updated", lambda shard: shard["bytes_read"] + shard["bytes_updated"], format_bytes, sum),
    "version": ShardFigure("versions", lambda shard: shard["version"], lambda value: f"{value:,.0f}", max),
    "staleness": ShardFigure("mean staleness of the updates of its server", lambda shard: shard["staleness"], "{:.2f}".format, max),
}


def checked_color_by(color_by: str) -> str:
    """The figure that colours show, if there is such a one.

    Raises:
        InvalidArgumentError: there is none.
    """
    if color_by not in ("kind", *FIGURES):
        raise InvalidArgumentError(f"ShardMap: color_by is {color_by!r}; expected 'kind', {', '.join(map(repr, FIGURES))}.")
    return color_by


def traffic_of(record: Any) -> dict[str, Any]:
    """The traffic of a record, as plain numbers.

    Raises:
        TypeError: the record has none.
    """
    missing = [name for name in TRAFFIC_FIELDS if not hasattr(record, name)]
    if missing:
        raise TypeError(
            f"ShardMap: colours by traffic, version or staleness need records with {', '.join(missing)}, got {type(record).__name__}; "
            "pass a ParameterServerStrategy, or what its traffic() returns."
        )
    staleness = record.staleness
    numbers: dict[str, Any] = {name: int(getattr(record, name)) for name in TRAFFIC_FIELDS[:-1]}
    hot = [(int(row.row), int(row.reads), int(row.updates)) for row in getattr(record, "hot_rows", ())]
    return numbers | {"staleness": None if staleness is None else float(staleness), "hot_rows": hot}


def color_shards(shards: Sequence[dict[str, Any]], color_by: str) -> dict[str, Any]:
    """Give each shard its colour and the facts that a card shows.

    Args:
        shards: dicts with the fields of a placement record and those of its traffic; they get ``value``, ``color`` and ``facts``.
        color_by: a key of `FIGURES`.

    Returns:
        The scale: what it shows, its colours, the texts at its ends, and the colour of what has no value (None: all have one).

    Example:
        >>> shards = [{"reads": 1, "updates": 0, "bytes_read": 4 * n, "bytes_updated": 0, "version": 0, "staleness": None} for n in (0, 1)]
        >>> scale = color_shards(shards, "traffic")
        >>> scale["ends"], [shard["color"] for shard in shards]
        (['0 B', '4 B'], ['#eff3fa', '#08408a'])
    """
    figure = FIGURES[color_by]
    for shard in shards:
        shard["value"] = figure.value(shard)
        shard["facts"] = _facts(shard)
    values = [shard["value"] for shard in shards]
    greatest = max((value for value in values if value is not None), default=0)
    for shard in shards:
        shard["color"] = color_of(shard["value"], greatest)
    return scale_of(color_by, greatest, None in values)


def color_of(value: float | None, greatest: float) -> str:
    """The colour of a value on a scale from 0 to the greatest one."""
    return UNKNOWN_COLOR if value is None else ramp_color(value / greatest if greatest else 0.0)


def scale_of(color_by: str, greatest: float, has_unknown: bool) -> dict[str, Any]:
    """The scale of a figure, as the front end reads it."""
    figure = FIGURES[color_by]
    return {
        "title": figure.title,
        "ramp": [ramp_color(step / (RAMP_LENGTH - 1)) for step in range(RAMP_LENGTH)],
        "ends": [figure.text(0), figure.text(greatest)],
        "unknown": UNKNOWN_COLOR if has_unknown else None,
    }


def ink_on(color: str) -> str:
    """The colour of text on a colour; as `inkOn` of the live views (src/theme.ts).

    Example:
        >>> ink_on("#eff3fa"), ink_on("#08408a")
        ('#101418', '#ffffff')
    """
    red, green, blue = (channel / 255 for channel in bytes.fromhex(color[1:]))
    return "#101418" if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > 0.2 else "#ffffff"


def _facts(shard: Mapping[str, Any]) -> list[list[str]]:
    staleness = [] if shard["staleness"] is None else [["staleness at its server", f"{shard['staleness']:.2f}"]]
    return [
        ["reads", f"{shard['reads']:,} ({format_bytes(shard['bytes_read'])})"],
        ["updates", f"{shard['updates']:,} ({format_bytes(shard['bytes_updated'])})"],
        ["version", f"{shard['version']:,}"],
        *staleness,
        *([["hottest rows", _hottest(shard["hot_rows"])]] if shard.get("hot_rows") else []),
    ]


def _hottest(rows: Sequence[tuple[int, int, int]]) -> str:
    """The rows that were read most, in words.

    Example:
        >>> _hottest([(7, 12, 12), (1400, 3, 0)])
        '7 (12 reads, 12 updates), 1,400 (3 reads, 0 updates)'
    """
    return ", ".join(f"{row:,} ({reads:,} reads, {updates:,} updates)" for row, reads, updates in rows)
