"""The Lab of lesson 12 with a real kernel, as a student works with it: play, break, go back, fork, compare, ask for the cost, export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_driver import ROOT, Notebook, browser_page, chromium, copy_cleared, lab_server
from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
LESSON = ROOT / "lessons" / "12_break_it.ipynb"
CELLS = 3  # the first ones with code: they import, define the program, and show the Lab
EXECUTE_JS = "code => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute({ code }).done"
REACHED_JS = "time => Number(document.querySelector('.sdw-lab [role=slider]').getAttribute('aria-valuenow')) >= time"
PAUSED_JS = "() => document.querySelector('.sdw-transport').dataset.state !== 'playing'"


class LiveLab:
    """The Lab in an open notebook.

    Args:
        page: on which the notebook is open, with the cell that shows the Lab already run.
        folder: of the notebook.
    """

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self.folder = folder
        self.root = page.locator(".sdw-lab")
        self.slider = self.root.get_by_role("slider", name="Virtual time")

    def press(self, name: str) -> None:
        self.root.get_by_role("button", name=name).first.click()

    def play_until(self, time_s: float) -> None:
        """Play, and pause when the second has come."""
        self.press("Play")
        self.page.wait_for_function(REACHED_JS, arg=time_s, timeout=20_000)
        self.press("Pause")
        self.page.wait_for_function(PAUSED_JS, timeout=5_000)

    def go_to(self, time_s: float) -> None:
        """Click into the bar of virtual time."""
        box = self.slider.bounding_box()
        assert box is not None
        share = time_s / float(self.slider.get_attribute("aria-valuemax") or "nan")
        self.slider.click(position={"x": share * box["width"], "y": box["height"] / 2})
        wanted = "time => Math.abs(Number(document.querySelector('.sdw-lab [role=slider]').getAttribute('aria-valuenow')) - time) < 1e-4"
        self.page.wait_for_function(wanted, arg=time_s, timeout=10_000)

    def marks(self) -> str:
        """What the legend of the timeline counts."""
        return " ".join(self.root.locator(".sdw-timeline").first.inner_text().split())

    def python(self, expression: str) -> Any:
        """The value of an expression in the kernel, through a file."""
        path = self.folder / "answer.json"
        code = f"import json, pathlib\npathlib.Path({str(path)!r}).write_text(json.dumps({expression}))"
        self.page.evaluate(EXECUTE_JS, code)
        return json.loads(path.read_text())


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[LiveLab]:
    path = copy_cleared(LESSON, tmp_path)
    notebook: Any = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:CELLS]
    nbformat.write(notebook, path)
    with lab_server(tmp_path) as address, browser_page(1280, 1100) as page:
        cells = Notebook(page, address, path.name).run_all()
        assert [error for cell in cells for error in cell.errors] == []
        page.locator(".sdw-lab").wait_for(timeout=15_000)
        yield LiveLab(page, tmp_path)


def test_story_of_a_crash(lab: LiveLab) -> None:
    errors: list[str] = []
    lab.page.on("pageerror", lambda error: errors.append(str(error)))
    for _ in range(2):
        lab.press("Faster")
    lab.play_until(0.0085)
    crashed_s = lab.python("lab.session.now")

    lab.root.get_by_role("button", name="worker:1").first.click()
    lab.root.get_by_role("dialog").get_by_role("button", name="Crash", exact=True).click()
    lab.play_until(crashed_s + 0.002)
    assert [word for word in ("crash 1", "detect 1", "retry 1") if word not in lab.marks()] == []
    assert lab.python("lab.state['tasks'][[t['name'] for t in lab.layout_of_cluster['tasks']].index('worker:1')]") == "down"

    lab.go_to(crashed_s - 0.001)
    lab.page.wait_for_function("() => !document.querySelector('.sdw-lab .sdw-timeline').innerText.includes('crash 1')", timeout=5_000)
    faults = lab.root.get_by_role("list", name="Faults of this run")
    assert "pending" in faults.inner_text()
    faults.get_by_role("button", name="What if not?").click()
    lab.root.get_by_role("button", name="fork_1").first.wait_for()
    lab.play_until(crashed_s + 0.002)
    assert "crash" not in lab.marks()

    tabs = lab.root.get_by_role("group", name="Branches")
    tabs.get_by_role("button", name="session").first.click()
    lab.page.wait_for_function("time => !(" + REACHED_JS + ")(time)", arg=crashed_s, timeout=5_000)
    lab.play_until(crashed_s + 0.002)
    lab.root.get_by_label("Compare with").select_option(label="fork_1")
    comparison = lab.root.locator(".sdw-comparison")
    comparison.wait_for()
    assert f"the same until {crashed_s * 1e3:.6g} ms" in comparison.inner_text()
    assert lab.root.locator(".sdw-timeline").count() == 2
    assert "Nothing has happened yet" not in lab.root.inner_text()

    faults.get_by_role("button", name="What did it cost?").click()
    story = faults.locator("table")
    story.wait_for(timeout=20_000)
    cells = [row.split("\t") for row in story.inner_text().splitlines()]
    assert [row[0] for row in cells[:4]] == ["phase", "detection", "decision", "catching up"]
    cost_s = lab.python("sd.recovery(lab.session, lab.session.commands[0]).cost_s")
    (shown,) = [row[-1] for row in cells if row[0] == "the run ends later by"]
    assert shown.endswith(" ms") and abs(float(shown.removesuffix(" ms")) - cost_s * 1e3) < 0.01
    assert lab.python("[line.split('(')[0] for line in lab.state['log']][-1]") == "session.advance"
    assert errors == []
    assert_exported_lab_works_alone(lab)
    lab.python("lab.session.rewind(0.001)")  # as a cell does, of which no view was notified
    lab.page.wait_for_function("() => document.querySelector('.sdw-figure').textContent === '1.000'", timeout=10_000)


def assert_exported_lab_works_alone(lab: LiveLab) -> None:
    """The page shows both branches' rows without kernel and network, and its timeline can be zoomed."""
    exported = lab.folder / "exported.html"
    lab.python(f"str(lab.export_html({str(exported)!r}))")
    browser = lab.page.context.browser
    assert browser is not None
    page = browser.new_page(offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(exported.as_uri())
    timeline = page.locator(".sdw-timeline").first
    timeline.wait_for(timeout=15_000)
    assert "crash 1" in " ".join(timeline.inner_text().split())
    assert page.get_by_role("button", name="Play").is_disabled()
    assert zoomed(timeline)
    assert errors == []


def zoomed(timeline: Locator) -> bool:
    """Whether a key changes the view of a timeline."""
    before = timeline.get_attribute("data-view")
    timeline.locator(".sdw-plot").press("+")
    timeline.page.wait_for_function("before => document.querySelector('.sdw-timeline').dataset.view !== before", arg=before, timeout=10_000)
    return timeline.get_attribute("data-view") != before
