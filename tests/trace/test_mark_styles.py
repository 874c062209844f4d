from __future__ import annotations

import pytest

from simdist.faults.base import KINDS
from simdist.trace.glyphs import GLYPHS, OTHER_GLYPH, RADIUS, commands_of
from simdist.trace.styles import MARK_STYLES, OTHER_MARK, OTHER_SPAN, mark_style, span_style


def test_every_kind_of_fault_has_a_style_of_its_own() -> None:
    kinds = {kind for kind, fault in KINDS.items() if fault.__module__.startswith("simdist.")}
    assert {"crash", "lose_host", "slow", "pause", "partition", "drop", "delay", "duplicate", "slow_link"} <= kinds
    assert kinds <= MARK_STYLES.keys()


def test_a_closure_that_was_dropped_lies_behind_its_parts_as_others_do_and_has_another_color() -> None:
    closure, dropped = span_style("closure"), span_style("dropped")
    assert dropped.level == closure.level < OTHER_SPAN.level and dropped.color != closure.color


def test_unknown_category_is_a_mark_that_can_be_read_and_walked_to() -> None:
    style = mark_style("a kind of a reader's own")
    assert style == OTHER_MARK
    assert style.glyph == OTHER_GLYPH
    assert style.level > 0


@pytest.mark.parametrize("name", GLYPHS)
def test_shape_begins_with_a_move_and_stays_in_its_box(name: str) -> None:
    glyph = GLYPHS[name]
    for path_data in (glyph.body, glyph.sign):
        commands = commands_of(path_data)
        assert [letter for letter, _ in commands][:1] in (["M"], [])
        assert {len(points) for letter, points in commands if letter == "C"} <= {3}
        assert {len(points) for letter, points in commands if letter in "ML"} <= {1}
        assert all(abs(number) <= RADIUS + 1 for _, points in commands for point in points for number in point)
    assert glyph.body.endswith("Z")
