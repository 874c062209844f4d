"""Pages with the views of the Lab on made-up runs, for browser tests, the contact sheet and the benchmark: no kernel, no network.

The front end is bundled once for a folder (`bundle`); a `FixturePage` opens it with a size, a theme and whatever else a reader may have.
In the page, `lab(options)` mounts the whole Lab on a new source and gives that source back.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab_driver import CHROMIUM_FLAGS, ROOT, chromium
from playwright.sync_api import Browser, Page, sync_playwright

FRONT_END = ROOT / "widgets"

HELPERS_JS = """
const place = document.getElementById('place');
window.wait = (ms) => new Promise((done) => setTimeout(done, ms));
window.clear = () => {
    if (window.source) clearInterval(source.timer);
    window.end?.();
    window.end = null;
};
window.lab = (options = {}, over = {}) => {
    clear();
    const source = new simdist.FixtureSource(options);
    Object.assign(source.over, over);
    window.end = simdist.mountLab(place, source);
    return (window.source = source);
};
window.broken = async (options = {}) => {
    const source = lab(options);
    await source.send('inject', { fault: { kind: 'crash', task: 'worker:1', at: 0.02, restart_after: 0.01 } });
    await source.send('inject', { fault: { kind: 'slow', task: 'worker:3', factor: 3, at: 0.018 } });
    source.advance(0.0243);
    return source;
};
"""


def why_not() -> str | None:
    """Why there can be no such pages on this machine; None if there can."""
    if chromium() is None:
        return "no Chromium on this machine (Debian: apt install chromium)"
    if shutil.which("node") is None or not (FRONT_END / "node_modules" / "esbuild").exists():
        return "no Node, or no widgets/node_modules: run npm ci there"
    return None


def bundle(folder: Path) -> Path:
    """Bundles the front end and its made-up runs into a page; returns the page's path."""
    subprocess.run(["node", "build.mjs", f"--fixtures={folder}"], cwd=FRONT_END, check=True, stdin=subprocess.DEVNULL)
    script, style = (folder / "fixture_page.js").read_text(), (folder / "lab.css").read_text()
    page = folder / "page.html"
    page.write_text(
        '<!DOCTYPE html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>'
        ":root { color-scheme: light dark } body { margin: 12px } @media (prefers-color-scheme: dark) { body { background: #14181d } }"
        f'{style}</style></head><body><div id="place"></div><script>{script}{HELPERS_JS}</script></body></html>'
    )
    return page


@contextmanager
def chromium_browser() -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def collected_errors(page: Page) -> list[str]:
    """The list in which errors of a page's scripts are collected from now on."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    return errors


@contextmanager
def fixture_page(browser: Browser, path: Path, width_px: int = 1280, height_px: int = 900, **reader: Any) -> Iterator[Page]:
    """The page, open; an error of its scripts is raised at the end.

    Args:
        browser: in which.
        path: of the page.
        width_px, height_px: of the window.
        reader: more settings of the browser, such as ``color_scheme="dark"``, ``forced_colors="active"``, ``has_touch=True``.
    """
    context = browser.new_context(viewport={"width": width_px, "height": height_px}, **reader)
    page = context.new_page()
    errors = collected_errors(page)
    try:
        page.goto(path.as_uri())
        yield page
    finally:
        context.close()
    assert errors == []
