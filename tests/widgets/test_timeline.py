from __future__ import annotations

import base64
import html.parser
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import simdist_widgets as sw
from simdist.collectives import ring
from simdist.errors import InvalidArgumentError
from simdist.trace import Trace

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def trace() -> Trace:
    trace = Trace(seed=0)
    trace.span("worker:0", "compute", "step </script><b>", 0.0, 0.5, batch=32)
    trace.instant("worker:0", "crash", "crash of worker:0", 0.5)
    trace.instant("worker:0", "retry", "again", 0.6)
    trace.instant("worker:0", "retry", "again", 0.7)
    return trace


def test_repr_is_one_line_that_depends_on_the_trace_alone(trace: Trace) -> None:
    text = "Timeline(1 lane, 1 span, 1 crash, 2 retries, 0.700000 virtual seconds)"
    assert repr(sw.Timeline(trace)) == repr(sw.Timeline(trace)) == text


def test_display_has_text_and_view_and_draws_no_picture(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIMDIST_STATIC_PICTURES", raising=False)
    widget = sw.Timeline(trace)
    monkeypatch.setattr(widget, "picture", lambda: pytest.fail("a display draws a picture"))
    data, _ = widget._repr_mimebundle_()
    assert set(data) == {"text/plain", WIDGET_VIEW}
    assert data["text/plain"] == repr(widget)


@pytest.mark.parametrize("make", [sw.Timeline, lambda _: sw.ShardMap([]), lambda _: sw.CollectiveStepper(ring.schedule(2))])
def test_display_has_a_picture_where_outputs_are_stored(trace: Trace, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setenv("SIMDIST_STATIC_PICTURES", "1")
    data, _ = make(trace)._repr_mimebundle_()
    assert base64.b64decode(data["image/png"]).startswith(PNG)


def test_bulk_data_travels_as_bytes_beside_a_small_header(trace: Trace) -> None:
    for step in range(2000):
        trace.span("worker:0", "compute", "step", step, step + 1)
    widget = sw.Timeline(trace)
    assert len(widget.data) > 2000 * 17
    assert len(json.dumps(widget.header)) < 4000


def test_view_is_the_whole_run_unless_asked_otherwise(trace: Trace) -> None:
    assert sw.Timeline(trace).view_s == []
    assert sw.Timeline(trace, start_s=0.2).view_s == [0.2, 0.7]
    assert sw.Timeline(trace, start_s=0.2, end_s=0.4).picture().axes[0].get_xlim() == (0.2, 0.4)


@pytest.mark.parametrize("view_s", [[float("nan"), 1.0], [0.1], [0.4, 0.2]])
def test_view_that_is_no_stretch_of_time_is_refused(trace: Trace, view_s: list[float]) -> None:
    widget = sw.Timeline(trace)
    with pytest.raises(InvalidArgumentError, match="Timeline: view_s must be"):
        widget.view_s = view_s
    assert widget.view_s == []


def test_view_that_ends_before_it_begins_is_refused(trace: Trace) -> None:
    with pytest.raises(ValueError, match=r"end_s must be after start_s; given start_s=0\.4, end_s=0\.4"):
        sw.Timeline(trace, start_s=0.4, end_s=0.4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"expected a Trace, got NoneType; pass cluster\.trace"),
        (SimpleNamespace(trace=Trace()), r"got SimpleNamespace; pass simplenamespace\.trace"),
    ],
)
def test_wrong_argument_is_told_what_to_pass(given: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sw.Timeline(given)


class Scripts(html.parser.HTMLParser):
    """Collects the script elements of a page by id, and every address that it would load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.loads: list[str] = []
        self.inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "script":
            self.inside = values.get("id") or "page"
            self.scripts[self.inside] = ""
        addresses = (values.get("src"), values.get("href"))
        self.loads += [a for a in addresses if a and not a.startswith("data:")]

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[self.inside] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self.inside = None


def test_exported_page_holds_the_data_and_loads_nothing(trace: Trace, tmp_path: Path) -> None:
    widget = sw.Timeline(trace)
    text = widget.export_html(tmp_path / "timeline.html").read_text()
    page = Scripts(text)
    state = json.loads(page.scripts["simdist-state-0"])
    assert base64.b64decode(state["bytes"]["data"]) == widget.data
    assert state["values"]["header"] == widget.header
    assert page.loads == []
    assert not re.search(r"https?://|@import|\bimport\(", text)


def test_exported_page_shows_the_picture_where_scripts_are_off(trace: Trace, tmp_path: Path) -> None:
    text = sw.Timeline(trace).export_html(tmp_path / "timeline.html", title="A & B").read_text()
    assert "<noscript><img" in text
    assert "<h1>A &amp; B</h1>" in text
