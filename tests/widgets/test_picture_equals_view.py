"""The static picture says what the interactive view says: units, labels, groups and shapes of marks, cells of a heat map.

picture_cases.json is tried on the view by widgets/src/picture_cases.test.ts, and here on the picture.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

import simdist_widgets as sw
from simdist.trace import Trace
from simdist.trace.glyphs import commands_of
from simdist.trace.lane_labels import lane_label
from simdist.trace.mark_layout import lay_out_marks
from simdist.trace.styles import MARK_STYLES
from simdist.trace.time_axis import time_axis
from simdist_widgets.byte_units import format_bytes

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("picture_cases.json").read_text())


@pytest.mark.parametrize("case", CASES["axis"], ids=lambda case: f"{case['start_s']} s to {case['end_s']} s")
def test_axis_has_the_same_unit_and_ticks(case: dict[str, Any]) -> None:
    axis = time_axis(case["start_s"], case["end_s"], case["width_px"])
    assert (axis.labels, axis.base) == (case["labels"], case["base"])


@pytest.mark.parametrize("case", CASES["lane_labels"], ids=lambda case: case["lane"])
def test_lane_has_the_same_label(case: dict[str, Any]) -> None:
    label = lane_label(case["lane"])
    assert (label.text, label.is_part) == (case["text"], case["is_part"])


@pytest.mark.parametrize("case", CASES["groups"], ids=lambda case: case["about"])
def test_marks_are_grouped_alike(case: dict[str, Any]) -> None:
    marks = lay_out_marks(case["x_px"], case["levels"])
    assert [[mark.shown, mark.indices] for mark in marks] == case["marks"]


@pytest.mark.parametrize("case", CASES["bytes"], ids=lambda case: case["text"])
def test_amounts_have_the_same_unit(case: dict[str, Any]) -> None:
    assert format_bytes(case["bytes"]) == case["text"]


@pytest.mark.parametrize("category", [*MARK_STYLES, "a kind of a reader's own"])
@pytest.mark.sample(2)
def test_mark_has_the_shape_and_colour_that_the_view_is_given(category: str) -> None:
    trace = Trace()
    trace.instant("worker:0", category, category, 0.5)
    widget = sw.Timeline(trace)
    (mark,) = widget.header["marks"]
    ax = widget.picture().axes[0]
    drawn = [collection for collection in ax.collections if isinstance(collection, PathCollection)]
    assert to_hex(drawn[0].get_facecolor()[0]) == mark["color"]
    for collection, path_data in zip(drawn, filter(None, (mark["body"], mark["sign"])), strict=True):
        points = [(x, -y) for letter, points in commands_of(path_data) if letter != "Z" for x, y in points]
        (path,) = collection.get_paths()
        closed = 1 if path_data.endswith("Z") else 0
        vertices = np.asarray(path.vertices)[: len(path.vertices) - closed]
        assert vertices == pytest.approx(np.array(points) * 0.5 / np.abs(points).max())


def test_picture_shows_the_lanes_and_the_view_of_the_widget() -> None:
    trace = Trace()
    for lane in ("chief:0", "worker:0", "worker:0/gpu:1"):
        trace.declare_lane(lane)
    trace.span("worker:0", "compute", "step", 0.0, 2.0)
    widget = sw.Timeline(trace, start_s=0.5, end_s=1.0)
    ax = widget.picture().axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [lane_label(lane).text for lane in widget.header["lanes"]]
    assert list(ax.get_xlim()) == widget.view_s
    assert [tick.get_text() for tick in ax.get_xticklabels()][:2] == ["0.5 s", "0.6 s"]


def test_heat_map_has_the_same_cells() -> None:
    record = {"variable": "w", "shape": (4,), "dtype": "float32", "shard": 0, "num_shards": 1, "row_start": 0, "row_stop": 4}
    widget = sw.ShardMap([SimpleNamespace(**record, task=f"ps:{n}", size_bytes=n * 1000, kind="parameter") for n in range(120)])
    heat = widget.header["heat"]
    ax, scale = widget.picture().axes
    cells = {(patch.get_x() // 1, patch.get_y() // 1): to_hex(patch.get_facecolor()) for patch in ax.patches}
    assert cells == {(x, y): cell["color"] for y, row in enumerate(heat["rows"]) for x, cell in enumerate(row)}
    assert [label.get_text() for label in ax.get_yticklabels()] == [row[0]["task"] for row in heat["rows"]]
    assert [label.get_text() for label in scale.get_xticklabels()] == ["0 B", f"{format_bytes(heat['greatest'])} of a task"]
