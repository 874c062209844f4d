"""axe finds nothing serious on the exported pages of any widget, in light and in dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from lab_driver import ROOT, browser_page, chromium
from playwright.sync_api import Page

import session_programs as programs
import simdist as sd
import simdist_widgets as sw
from simdist.collectives import algorithm

AXE = ROOT / "widgets" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
    pytest.mark.skipif(not AXE.exists(), reason="no widgets/node_modules: run npm ci there"),
]

FINDINGS_JS = """async () => {
    const found = await axe.run(document, { resultTypes: ['violations'] });
    return found.violations
        .filter(({ impact }) => impact === 'serious' || impact === 'critical')
        .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).slice(0, 3).join(' | ')}`);
}"""


def lab() -> sw.Lab:
    shown = sw.Lab(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3))
    session = shown.session
    session.advance(until=0.0005)
    session.inject(programs.CRASH)
    session.advance()
    return shown


WIDGETS: dict[str, Callable[[], Any]] = {
    "timeline": lambda: sw.Timeline(lab().session.trace),
    "lab": lab,
    "topology": lambda: sw.Topology(lab().session),
    "fault console": lambda: sw.FaultConsole(lab().session),
    "stepper": lambda: sw.CollectiveStepper(algorithm("all_reduce", "ring").schedule(4)),
    "recovery": lambda: sw.Recovery(lab().session),
    "shard map": lambda: sw.ShardMap(placements()),
}


def placements() -> Any:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 3}), variable_partitioner=sd.FixedShardsPartitioner(3))
    with strategy.scope():
        sd.Variable(sd.keras.ops.zeros((12, 4)), name="table")
    return strategy


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser_page() as opened:
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", WIDGETS)
def test_axe_finds_nothing_serious(name: str, scheme: Literal["light", "dark"], page: Page, tmp_path: Path) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto(WIDGETS[name]().export_html(tmp_path / "page.html").as_uri())
    page.locator("[data-simdist-widget] *:visible, figure *:visible").first.wait_for()
    page.add_script_tag(path=AXE)
    assert page.evaluate(FINDINGS_JS) == []


def test_axe_finds_what_is_wrong(page: Page) -> None:
    page.set_content('<html lang="en"><title>x</title><main><button></button></main></html>')
    page.add_script_tag(path=AXE)
    assert any("button-name" in finding for finding in page.evaluate(FINDINGS_JS))
