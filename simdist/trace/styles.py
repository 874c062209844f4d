"""The style of each category of the event log, in every picture: static, interactive and exported.

Colours, shapes and levels are said once, here and in glyphs.py; the interactive timeline receives them with its data. A level
decides what is seen when several things fall on one pixel: the greater one.

Taught in lesson 00.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.trace.glyphs import GLYPHS, OTHER_GLYPH, Glyph

__all__ = ["MARK_STYLES", "SPAN_STYLES", "MarkStyle", "SpanStyle", "mark_style", "span_style"]


@dataclass(frozen=True)
class SpanStyle:
    """How a category of spans is drawn: its colour, and its level (0 outer band, 1 work, 3 down time)."""

    color: str
    level: int = 1


@dataclass(frozen=True)
class MarkStyle:
    """How a category of instants is drawn: its colour, its shape, and its level.

    Levels: 0 a note, 1 recovery, 2 retry, cancel, messages that are disturbed, 3 a task that is hit, error.
    """

    color: str
    glyph: Glyph
    level: int


# Hues that people with any of the common colour deficiencies tell apart (after Okabe and Ito); order of the legend.
SPAN_STYLES = {
    "closure": SpanStyle("#7a8ca0", level=0),
    "dropped": SpanStyle("#c98a6b", level=0),
    "setup": SpanStyle("#b3925a"),
    "input": SpanStyle("#e69f00"),
    "read": SpanStyle("#56b4e9"),
    "compute": SpanStyle("#0072b2"),
    "update": SpanStyle("#009e73"),
    "apply": SpanStyle("#5fc9a8"),
    "transfer": SpanStyle("#b59fd8"),
    "copy": SpanStyle("#94a8c9"),
    "checkpoint": SpanStyle("#a89f91"),
    "collective": SpanStyle("#cc79a7"),
    "wait": SpanStyle("#d9d9d9", level=0),
    "down": SpanStyle("#d1423f", level=3),
}
# One luminance for all: at least 3 to 1 against light lanes, dark lanes and the white sign (tests/widgets/test_contrast.py).
RED, ORANGE, PURPLE, GREY, BROWN, GREEN = "#e0424e", "#ca5b1b", "#9e66c1", "#747f8b", "#b26c0b", "#1c8d54"
# Every kind of fault of simdist.faults, and what the cluster does about it; order of the legend.
MARK_STYLES = {
    name: MarkStyle(color, GLYPHS[name], level)
    for name, color, level in (
        ("crash", RED, 3),
        ("lose_host", RED, 3),
        ("fault", RED, 3),
        ("pause", RED, 3),
        ("partition", RED, 3),
        ("slow", RED, 3),
        ("preempt", RED, 3),
        ("disk_full", RED, 3),
        ("disk_slow", RED, 3),
        ("torn_write", RED, 3),
        ("error", RED, 3),
        ("slow_link", ORANGE, 2),
        ("drop", ORANGE, 2),
        ("delay", ORANGE, 2),
        ("duplicate", ORANGE, 2),
        ("retry", PURPLE, 2),
        ("cancel", GREY, 2),
        ("rollback", BROWN, 2),
        ("detect", BROWN, 1),
        ("restart", GREEN, 1),
        ("heal", GREEN, 1),
        ("resize", GREEN, 1),
        ("place", GREY, 0),
        ("observe", GREY, 0),
    )
}
OTHER_SPAN = SpanStyle("#999933")
OTHER_MARK = MarkStyle(GREY, OTHER_GLYPH, level=1)


def span_style(category: str) -> SpanStyle:
    """The style of a category of spans, known or not."""
    return SPAN_STYLES.get(category, OTHER_SPAN)


def mark_style(category: str) -> MarkStyle:
    """The style of a category of instants, known or not."""
    return MARK_STYLES.get(category, OTHER_MARK)
