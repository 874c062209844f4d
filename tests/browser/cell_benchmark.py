"""How long it takes from a cell to its picture: a timeline, and a Lab, with many spans in a real JupyterLab.

python tests/browser/cell_benchmark.py

The clock starts in the kernel, where the cell begins to make its widget, and ends in the browser, with the first frame in which the plot
is not empty. Several times each (median, and all of them), in a headless Chromium without a graphics card.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import nbformat
from lab_driver import DRAWN_JS, Notebook, browser_page, chromium, lab_server
from playwright.sync_api import Page

SPANS = {100_000: 2.0, 1_000_000: 5.0}  # and the seconds that it may take
LANES = 64
REPEATS = 5

TRACE_CELL = """
import time
import simdist as sd, simdist_widgets as sw
from simdist.trace import Trace
from IPython.display import display

def made_up(spans, trace, lanes={lanes}):
    for i in range(spans // lanes):
        for lane in range(lanes):
            begin = i * 1e-4 + lane * 1e-7
            trace.span(f"worker:{{lane}}", ("read", "compute", "update")[i % 3], "step", begin, begin + 9e-5)
    return trace

def program(cluster):
    made_up({spans}, cluster.trace)
    sd.sleep(1.0, cluster)

trace = made_up({spans}, Trace())
session = sd.Session(program, sd.Cluster({{"worker": {lanes}}}))
session.advance()
"""
EXECUTE_JS = """code => {
    const panel = window.jupyterapp.shell.currentWidget;
    panel.content.widgets[1].model.sharedModel.setSource(code);
    panel.content.activeCellIndex = 1;
    return window.jupyterapp.commands.execute('notebook:run-cell');
}"""
# Looks once a frame; the moment that counts is that at which a frame with a picture in it has been drawn.
WATCH_JS = (
    """count => new Promise((done, fail) => {
    setTimeout(() => fail(new Error(`no picture of ${count} after a minute`)), 60000);
    const isDrawn = """
    + DRAWN_JS
    + """;
    const look = () => {
        const plot = document.querySelector('.sdw-plot');
        if (plot && plot.width > 300 && plot.getAttribute('aria-label').includes(count) && isDrawn(plot)) done(Date.now() / 1000);
        else requestAnimationFrame(look);
    };
    look();
})"""
)
SHOWN = {"Timeline": "sw.Timeline(trace)", "Lab": "sw.Lab(session)"}


def seconds(page: Page, folder: Path, widget: str, spans: int) -> float:
    """From the beginning of the cell to the picture."""
    page.evaluate(EXECUTE_JS, "pass")
    page.wait_for_function("() => !document.querySelector('.sdw-plot')", timeout=60_000)
    began = folder / "began"
    began.unlink(missing_ok=True)
    code = f"began = time.time()\ndisplay({widget})\nopen({str(began)!r}, 'w').write(repr(began))"
    page.evaluate(f"code => {{ ({EXECUTE_JS})(code); }}", code)
    drawn: float = page.evaluate(WATCH_JS, f"{spans // LANES * LANES:,} spans")
    while not began.exists() or not began.read_text():
        page.wait_for_timeout(10)
    return drawn - float(began.read_text())


def main() -> int:
    """The command line; returns the exit status: 1 where a median is over its limit."""
    if chromium() is None:
        print("no Chromium on this machine (Debian: apt install chromium)")
        return 2
    late = False
    for spans, limit_s in SPANS.items():
        with tempfile.TemporaryDirectory() as name, lab_server(Path(name)) as address, browser_page() as page:
            folder = Path(name)
            kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
            cells = [nbformat.v4.new_code_cell(source) for source in (TRACE_CELL.format(spans=spans, lanes=LANES), "pass")]
            nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "cell.ipynb")
            Notebook(page, address, "cell.ipynb").run_all()
            for what, widget in SHOWN.items():
                times = [seconds(page, folder, widget, spans) for _ in range(REPEATS)]
                median = statistics.median(times)
                late = late or median > limit_s
                each = ", ".join(f"{value:.2f}" for value in times)
                print(f"{what} of {spans:,} spans: {median:.2f} s from the cell to its picture ({each}); at most {limit_s:.0f} s")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
