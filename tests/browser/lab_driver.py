"""Drives a real JupyterLab in a headless Chromium, as a reader of the lessons would.

Two context managers: ``lab_server(folder)`` starts a server of its own on a free port of this machine, apart from the
user's settings; ``browser_page(...)`` opens a page. ``Notebook`` opens one notebook in it, runs all cells from the
menu, and says what is to be seen: errors, widgets and whether they are drawn, a picture of the whole length.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import BrowserContext, Page, Route, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60
RUN_TIMEOUT_S = 110
DRAW_TIMEOUT_S = 15
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars"]
AUTOMATIC = "SIMDIST_LESSONS_AUTOMATIC"  # lessons/classroom/automatic.py reads it
LONGEST_PICTURE_PX = 12_000  # Chromium cannot paint a surface of more than 16,384 pixels

# The settings of `make lab`. And: every cell is attached to the page, so that all of them can be looked at; saving never asks.
SETTINGS: dict[str, dict[str, Any]] = json.loads((ROOT / ".ci" / "lab_settings" / "overrides.json").read_text())
SETTINGS.setdefault("@jupyterlab/notebook-extension:tracker", {})["windowingMode"] = "none"
SETTINGS.setdefault("@jupyterlab/docmanager-extension:plugin", {})["autosave"] = False

# What the notebook's own model says. A cell that waits or runs has no execution count; outputs were cleared before.
CELLS_JS = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    const kernel = panel.sessionContext.session?.kernel?.status ?? 'none';
    const cells = panel.content.widgets
        .filter(cell => cell.model.type === 'code' && cell.model.sharedModel.source.trim() !== '')
        .map(cell => {
            const outputs = cell.model.outputs.toJSON();
            return {
                source: cell.model.sharedModel.source,
                count: cell.model.executionCount,
                errors: outputs.filter(o => o.output_type === 'error').map(o => `${o.ename}: ${o.evalue}`),
                printed: outputs.filter(o => o.name === 'stdout').map(o => [].concat(o.text).join('')).join(''),
                stderr: outputs.filter(o => o.name === 'stderr').map(o => [].concat(o.text).join('')),
                shown: outputs.flatMap(o => o.name ? [[o.name, [].concat(o.text).join('')]] : Object.entries(o.data ?? {})
                    .filter(([kind]) => kind.startsWith('text/')).map(([kind, text]) => [kind, [].concat(text).join('')])),
                widgets: outputs.filter(o => o.data && 'application/vnd.jupyter.widget-view+json' in o.data).length,
            };
        });
    return { kernel, cells };
}"""

# Marks the outputs that hold a widget: the page itself gives them no name of their own.
MARK_JS = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .filter(cell => cell.model.type === 'code')
    .forEach(cell => cell.model.outputs.toJSON().forEach((output, index) => {
        if (output.data && 'application/vnd.jupyter.widget-view+json' in output.data)
            cell.outputArea.widgets[index].node.setAttribute('data-holds-widget', '');
    }))"""

# The notebook's length in pixels up to the end of its last cell; JupyterLab lets one scroll a screen beyond it.
LENGTH_JS = """element => {
    const bottom = [...element.querySelectorAll('.jp-Cell')].at(-1).getBoundingClientRect().bottom;
    return Math.ceil(bottom - element.getBoundingClientRect().top + element.scrollTop) + 40;
}"""

# A canvas is drawn when not all of its pixels are the same; a picture in SVG when it holds a visible shape.
DRAWN_JS = """element => {
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2) return false;
    if (element.tagName.toLowerCase() !== 'canvas') {
        return [...element.querySelectorAll('path, rect, circle, line, text, polyline, polygon')]
            .some(shape => { const b = shape.getBoundingClientRect(); return b.width + b.height > 0; });
    }
    if (element.width === 0 || element.height === 0) return false;
    const copy = document.createElement('canvas');
    copy.width = element.width; copy.height = element.height;
    const context = copy.getContext('2d');
    context.drawImage(element, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, copy.width, copy.height).data.buffer);
    return pixels.some(pixel => pixel !== pixels[0]);
}"""


@dataclass(frozen=True)
class Cell:
    """One code cell after the run: its source, and what came out of it."""

    source: str
    count: int | None
    errors: list[str]
    printed: str
    stderr: list[str]
    shown: list[list[str]]
    widgets: int


def chromium() -> str | None:
    """The path of a Chromium on this machine, None if there is none."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def copy_cleared(notebook: Path, folder: Path) -> Path:
    """Copies a notebook without its outputs, so that what is seen later was made by the run, and the modules beside it."""
    content: Any = nbformat.read(notebook, as_version=4)
    if "kernelspec" not in content.metadata:  # JupyterLab would ask for a kernel, in a dialog, for ever
        raise ValueError(f"{notebook.name} names no kernel in its metadata; `make lessons` stores one.")
    for cell in content.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    for module in (*notebook.parent.glob("*.py"), *notebook.parent.glob("classroom/*.py")):
        target = folder / module.relative_to(notebook.parent)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(module, target)
    nbformat.write(content, folder / notebook.name)
    return folder / notebook.name


@contextmanager
def lab_server(folder: Path, student: bool = False) -> Iterator[str]:
    """A JupyterLab with ``folder`` as its root, and settings and runtime files of its own; yields its address.

    Args:
        folder: the root.
        student: predictions wait for a guess; otherwise lessons run through by themselves.
    """
    with tempfile.TemporaryDirectory() as scratch:
        private = Path(scratch)
        (private / "settings").mkdir()
        (private / "settings" / "overrides.json").write_text(json.dumps(SETTINGS))
        log = private / "server.log"
        with log.open("wb") as sink:
            env = {**_server_environment(private), AUTOMATIC: "" if student else "1"}
            server = subprocess.Popen(_server_command(folder, private), env=env, stdout=sink, stderr=sink)
            try:
                yield _address(server, private / "runtime", log)
            finally:
                server.terminate()
                try:
                    server.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    server.kill()
                    server.wait()


def _server_command(folder: Path, private: Path) -> list[str]:
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": "0",
        "ServerApp.root_dir": str(folder),
        "ServerApp.allow_root": "True",
        "ServerApp.open_browser": "False",
        "IdentityProvider.token": "",
        "LabApp.app_settings_dir": str(private / "settings"),
        "LabApp.extra_labextensions_path": str(ROOT / ".ci" / "lab_extensions"),
        "LabApp.news_url": "None",
        "LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "LabApp.extension_manager": "readonly",
        "LabApp.expose_app_in_browser": "True",
    }
    return [sys.executable, "-m", "jupyter", "lab", *(f"--{name}={value}" for name, value in options.items())]


def _server_environment(private: Path) -> dict[str, str]:
    folders = {
        name: str(private / name.split("_")[1].lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    quiet = {"JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return {**os.environ, **quiet, **folders, "IPYTHONDIR": str(private / "ipython")}


def _address(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    """Waits until the server has written down where it listens."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for path in runtime.glob("jpserver-*.json"):
            try:
                return json.loads(path.read_text())["url"]
            except ValueError:  # it is still being written
                continue
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start within {START_TIMEOUT_S} s:\n{log.read_text()[-4000:]}")


@contextmanager
def browser_context(width_px: int = 1280, height_px: int = 900) -> Iterator[BrowserContext]:
    """A headless Chromium, whose pages share what they have loaded."""
    path = chromium()
    if path is None:
        raise RuntimeError(f"No Chromium found. Looked for: {', '.join(CHROMIUM_NAMES)}.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield browser.new_context(viewport={"width": width_px, "height": height_px})
        finally:
            browser.close()


@contextmanager
def browser_page(width_px: int = 1280, height_px: int = 900) -> Iterator[Page]:
    """A page in a headless Chromium of its own."""
    with browser_context(width_px, height_px) as context:
        yield context.new_page()


def _refuse_to_start(route: Route) -> None:
    if route.request.method == "POST":
        route.fulfill(status=503, body='{"message": "no kernel today"}')
    else:
        route.continue_()


class Notebook:
    """One notebook, open in JupyterLab.

    Args:
        page: a page of the browser; it goes to the notebook.
        address: the server's address.
        name: the notebook's name in the server's root.
        with_kernel: False: no kernel can be started from now on; the notebook shows what it holds (default True).
    """

    def __init__(self, page: Page, address: str, name: str, with_kernel: bool = True) -> None:
        self.page = page
        if not with_kernel:
            page.route("**/api/sessions**", _refuse_to_start)
        page.goto(f"{address}lab/tree/{name}?reset", timeout=START_TIMEOUT_S * 1000)
        page.locator(".jp-NotebookPanel:visible").wait_for(timeout=START_TIMEOUT_S * 1000)
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        if with_kernel:
            self._wait(lambda: self._state()["kernel"] == "idle", START_TIMEOUT_S, "the kernel did not start")
        else:
            for answer in ("Ok", "No Kernel"):  # to the message that none has started, and to the question which one is wanted
                page.locator(".jp-Dialog").get_by_role("button", name=answer).click(timeout=START_TIMEOUT_S * 1000)

    def run_all(self) -> list[Cell]:
        """Runs all cells from the menu and waits until the kernel is idle and every cell has run, or one has failed."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        self._wait(self._finished, RUN_TIMEOUT_S, "the cells did not finish")
        return self.cells()

    def cells(self) -> list[Cell]:
        """The code cells that are not empty, as they are now."""
        return [Cell(**cell) for cell in self._state()["cells"]]

    def save_and_shut_down(self) -> None:
        """Saves the notebook, as the menu does, and ends its kernel."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        self.shut_down()

    def shut_down(self) -> None:
        """Ends the kernel."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self._wait(lambda: self._state()["kernel"] == "none", START_TIMEOUT_S, "the kernel did not end")

    def has_kernel(self) -> bool:
        """Whether a kernel runs for this notebook."""
        return self._state()["kernel"] != "none"

    def widgets_drawn(self) -> list[bool]:
        """For every widget on the page, top to bottom, whether it shows a picture; waits for those that are late."""
        self.page.evaluate(MARK_JS)
        views = self.page.locator("[data-holds-widget] .jp-OutputArea-output")
        return [self._becomes_drawn(views.nth(index)) for index in range(views.count())]

    def screenshot(self, path: Path) -> list[Path]:
        """Saves the notebook in its whole length; a very long one in several files, ``name-2.png`` and so on.

        Returns:
            The files written.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        viewport = self.page.viewport_size or {"width": 1280, "height": 900}
        scroller = self.page.locator(".jp-NotebookPanel:visible .jp-WindowedPanel-outer").first
        length = int(scroller.evaluate(LENGTH_JS))
        chrome = viewport["height"] - int(scroller.evaluate("element => element.clientHeight"))
        page_px = min(length, LONGEST_PICTURE_PX)
        self.page.set_viewport_size({"width": viewport["width"], "height": page_px + chrome})
        written: list[Path] = []
        for number, top in enumerate(range(0, length, page_px), start=1):
            scroller.evaluate("(element, top) => element.scrollTo(0, top)", top)
            self.page.wait_for_timeout(300)  # widgets draw in the next frames
            written.append(path if number == 1 else path.with_stem(f"{path.stem}-{number}"))
            scroller.screenshot(path=written[-1])
        self.page.set_viewport_size(viewport)
        return written

    def _becomes_drawn(self, view: Any) -> bool:
        """Whether one of the view's pictures is drawn, now or soon; looks into shadow roots too."""
        view.scroll_into_view_if_needed()
        pictures = view.locator("canvas, svg")
        deadline = time.monotonic() + DRAW_TIMEOUT_S
        while time.monotonic() < deadline:
            if any(pictures.nth(index).evaluate(DRAWN_JS) for index in range(pictures.count())):
                return True
            self.page.wait_for_timeout(100)
        return False

    def _state(self) -> dict[str, Any]:
        return self.page.evaluate(CELLS_JS)

    def _finished(self) -> bool:
        state = self._state()
        failed = any(cell["errors"] for cell in state["cells"])
        return state["kernel"] == "idle" and (failed or all(cell["count"] is not None for cell in state["cells"]))

    def _wait(self, condition: Any, seconds: float, complaint: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{complaint} within {seconds:.0f} s: {self._state()}")
            self.page.wait_for_timeout(100)
