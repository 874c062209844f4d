"""A notebook that was saved shows its widgets again without a kernel: with the settings and the extension of `make lab`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_driver import Notebook, browser_page, chromium, lab_server
from playwright.sync_api import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
STATE = "application/vnd.jupyter.widget-state+json"
MOST_BYTES_A_WIDGET = 60_000  # of a small one: what all of them bring along is their script and style sheet
MOST_BYTES_A_LAB = 400_000  # with the scripts of all its parts, and a small run

CELLS = [
    """
import simdist_widgets as sw
from simdist.trace import Trace

trace = Trace()
_ = trace.span("worker:0", "compute", "step", 0.0, 0.5)
_ = trace.instant("worker:0", "crash", "crash of worker:0", 0.4)
sw.Timeline(trace)
""",
    """
from types import SimpleNamespace

fields = {"variable": "w", "shape": (4,), "dtype": "float32", "shard": 0, "num_shards": 1, "row_start": 0, "row_stop": 4}
sw.ShardMap([SimpleNamespace(**fields, task="ps:0", size_bytes=16, kind="parameter")])
""",
    """
from simdist.collectives import ring

sw.CollectiveStepper(ring.schedule(4))
""",
    """
import simdist as sd

def program(cluster):
    for number in range(20):
        cluster.trace.span("worker:0", "compute", "step", number, number + 0.5)
        sd.sleep(1.0, cluster)

session = sd.Session(program, sd.Cluster({"worker": 2}))
session.advance(until=5.0)
sw.Lab(session)
""",
]


@pytest.fixture
def page() -> Iterator[Page]:
    with browser_page() as page:
        yield page


def test_saved_notebook_shows_its_widgets_without_a_kernel(tmp_path: Path, page: Page) -> None:
    path = write(tmp_path / "yesterday.ipynb")
    errors: list[str] = []
    with lab_server(tmp_path) as address:
        today = Notebook(page, address, path.name)
        today.run_all()
        assert today.widgets_drawn() == [True] * 4
        page.wait_for_timeout(1500)  # the Lab's rows are stored a little later
        today.save_and_shut_down()
        tomorrow = Notebook(page, address, path.name, with_kernel=False)
        page.on("pageerror", lambda error: errors.append(str(error)))
        assert tomorrow.widgets_drawn() == [True] * 4
        assert not tomorrow.has_kernel()
        assert zoomed(page)
        assert "6 spans" in (page.locator(".sdw-lab .sdw-plot").get_attribute("aria-label") or "")
    assert errors == []
    sizes = state_bytes(path)
    assert len(sizes) == 4
    assert sorted(sizes)[-2] < MOST_BYTES_A_WIDGET
    assert max(sizes) < MOST_BYTES_A_LAB


def write(path: Path) -> Path:
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    cells = [nbformat.v4.new_code_cell(source.strip()) for source in CELLS]
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def zoomed(page: Page) -> bool:
    """Whether a key still changes the view of the timeline."""
    root = page.locator(".sdw-timeline").first
    before = root.get_attribute("data-view")
    page.locator(".sdw-plot").first.press("+")
    page.wait_for_function("before => document.querySelector('.sdw-timeline')?.dataset.view !== before", arg=before, timeout=10_000)
    return root.get_attribute("data-view") != before


def state_bytes(path: Path) -> list[int]:
    """What each widget adds to a saved notebook, in bytes, its layout left out."""
    saved: dict[str, Any] = json.loads(path.read_text())["metadata"]["widgets"][STATE]["state"]
    return [len(json.dumps(model)) for model in saved.values() if model["model_name"] == "AnyModel"]
