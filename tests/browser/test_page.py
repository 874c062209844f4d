"""Exported pages in a real browser: marks unfold, the keyboard goes on from what is chosen, and forced colours stay readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lab_driver import browser_page, chromium
from playwright.sync_api import Page

import simdist_widgets as sw
from simdist.trace import Trace
from simdist.trace.plots import EMPTY_TEXT

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]

# the pixels of a part of a canvas, as counts of (red, green, blue): [x, y, width, height] in CSS pixels
PIXELS_JS = """(canvas, [x, y, width, height]) => {
    const { data } = canvas.getContext('2d').getImageData(x, y, width, height);
    const counts = {};
    for (let i = 0; i < data.length; i += 4) {
        const key = `${data[i]},${data[i + 1]},${data[i + 2]}`;
        counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    with browser_page() as page:
        yield page


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    errors: list[str] = []

    def note(error: Any) -> None:
        errors.append(str(error))

    browser.on("pageerror", note)
    yield browser
    browser.remove_listener("pageerror", note)
    browser.emulate_media(forced_colors="none", color_scheme="light")
    assert errors == []


@pytest.fixture
def trace() -> Trace:
    """Ten closures, and a retry, a crash and a restart that stand together after the fifth."""
    trace = Trace()
    for number in range(10):
        trace.span("worker:0", "closure", f"closure #{number}", number, number + 0.9)
    for offset, category in enumerate(["retry", "crash", "restart"]):
        trace.instant("worker:0", category, f"{category} here", 4.95 + offset * 0.001)
    return trace


def show(page: Page, folder: Path, widget: Any) -> None:
    page.goto(widget.export_html(folder / "page.html").as_uri())
    page.locator(".sdw").wait_for()
    page.wait_for_timeout(100)  # the first frame


def card(page: Page) -> str:
    page.wait_for_timeout(50)
    return page.locator(".sdw-tooltip").inner_text() if page.locator(".sdw-tooltip").is_visible() else ""


def test_keyboard_reads_each_of_the_marks_that_stand_together(page: Page, tmp_path: Path, trace: Trace) -> None:
    show(page, tmp_path, sw.Timeline(trace))
    read: list[tuple[str, bool]] = []
    for number in (1, 2, 3):
        page.locator(".sdw-plot").press("n")
        text = card(page)
        read.append((text.splitlines()[0], f"{number} of 3 here" in text))
    assert read == [("retry here", True), ("crash here", True), ("restart here", True)]


def test_pointer_unfolds_marks_that_stand_together_and_reads_each(page: Page, tmp_path: Path, trace: Trace) -> None:
    show(page, tmp_path, sw.Timeline(trace))
    box = page.locator(".sdw-plot").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] * (4.95 + 0.1485) / (9.9 * 1.03), box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    assert card(page).startswith("crash here")
    titles: list[str] = []
    for offset_px in (-19, 0, 19):
        page.mouse.move(x + offset_px, y)
        titles.append(card(page).splitlines()[0])
    assert titles == ["retry here", "crash here", "restart here"]
    page.mouse.move(x + 60, y)
    assert "closure" in card(page)


def test_next_span_goes_on_from_the_event_at_hand(page: Page, tmp_path: Path, trace: Trace) -> None:
    show(page, tmp_path, sw.Timeline(trace))
    titles: list[str] = []
    for key in ("n", ".", ".", ","):
        page.locator(".sdw-plot").press(key)
        titles.append(card(page).splitlines()[0])
    assert titles == ["retry here", "closure #5", "closure #6", "closure #5"]


def test_empty_trace_says_so(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, sw.Timeline(Trace()))
    assert page.get_by_text(EMPTY_TEXT).is_visible()
    assert not page.locator(".sdw-bar").is_visible()


def test_labels_stay_readable_where_colours_are_forced(page: Page, tmp_path: Path, trace: Trace) -> None:
    page.emulate_media(forced_colors="active", color_scheme="dark")
    show(page, tmp_path, sw.Timeline(trace))
    plot = page.locator(".sdw-plot")
    width: int = plot.evaluate("canvas => canvas.width")
    label = [int(width * (4.95 + 0.1485) / (9.9 * 1.03)) + 11, 12, 40, 10]  # "crash +2", beside its mark
    counts: dict[str, int] = plot.evaluate(PIXELS_JS, label)
    ink = sum(count for color, count in counts.items() if min(map(int, color.split(","))) > 200)
    assert max(counts, key=lambda color: counts[color]) == "0,0,0"
    assert 0.05 < ink / sum(counts.values()) < 0.5


def test_heat_map_has_exact_numbers_by_keyboard_and_by_pointer(page: Page, tmp_path: Path) -> None:
    fields = {"variable": "w", "shape": (4,), "dtype": "float32", "shard": 0, "num_shards": 1, "row_start": 0, "row_stop": 4}
    records = [SimpleNamespace(**fields, task=f"ps:{number}", size_bytes=1000 + number, kind="parameter") for number in range(100)]
    show(page, tmp_path, sw.ShardMap(records))
    cells = page.locator(".sdw-cell")
    assert cells.count() == 100
    cells.nth(0).focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert "ps:21\n" in card(page)
    assert "1,021 (1021 B)" in card(page)
    cells.nth(99).hover()
    assert "1,099 (1.1 KiB)" in card(page)
