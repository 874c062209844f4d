"""The style of each category of the event log, in every picture: static, interactive and exported.

Colours and levels are said once, here; the interactive timeline receives them with its data. A level decides what is
seen when several things fall on one pixel: the greater one.

Taught in lesson 00.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MARK_STYLES", "SPAN_STYLES", "MarkStyle", "SpanStyle", "mark_style", "span_style"]


@dataclass(frozen=True)
class SpanStyle:
    """How a category of spans is drawn: its colour, and its level (0 outer band, 1 work, 3 down time)."""

    color: str
    level: int = 1


@dataclass(frozen=True)
class MarkStyle:
    """How a category of instants is drawn: colour, matplotlib marker, level (0 note, 1 recovery, 2 retry, 3 fault)."""

    color: str
    marker: str
    level: int


# Hues that people with any of the common colour deficiencies tell apart (after Okabe and Ito); order of the legend.
SPAN_STYLES = {
    "closure": SpanStyle("#7a8ca0", level=0),
    "setup": SpanStyle("#b3925a"),
    "input": SpanStyle("#e69f00"),
    "read": SpanStyle("#56b4e9"),
    "compute": SpanStyle("#0072b2"),
    "update": SpanStyle("#009e73"),
    "apply": SpanStyle("#5fc9a8"),
    "collective": SpanStyle("#cc79a7"),
    "wait": SpanStyle("#d9d9d9", level=0),
    "down": SpanStyle("#d1423f", level=3),
}
MARK_STYLES = {
    "crash": MarkStyle("#c1121f", "X", level=3),
    "fault": MarkStyle("#c1121f", "D", level=3),
    "pause": MarkStyle("#c1121f", "8", level=3),
    "partition": MarkStyle("#c1121f", "h", level=3),
    "slow": MarkStyle("#c1121f", "<", level=3),
    "error": MarkStyle("#c1121f", "^", level=3),
    "retry": MarkStyle("#7b3fa0", "o", level=2),
    "cancel": MarkStyle("#5c6670", "s", level=2),
    "detect": MarkStyle("#b35900", "v", level=1),
    "restart": MarkStyle("#1b7f4b", "P", level=1),
    "heal": MarkStyle("#1b7f4b", ">", level=1),
    "place": MarkStyle("#8a949e", "|", level=0),
    "observe": MarkStyle("#8a949e", "d", level=0),
}
OTHER_SPAN = SpanStyle("#999933")
OTHER_MARK = MarkStyle("#5c6670", "o", level=1)


def span_style(category: str) -> SpanStyle:
    """The style of a category of spans, known or not."""
    return SPAN_STYLES.get(category, OTHER_SPAN)


def mark_style(category: str) -> MarkStyle:
    """The style of a category of instants, known or not."""
    return MARK_STYLES.get(category, OTHER_MARK)
