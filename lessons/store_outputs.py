"""Runs lessons from top to bottom and stores what they print; the only way in which outputs get into a notebook.

The same lesson gives the same file, byte for byte, on every run: times of execution, versions of the machine and the
random names of widgets are left out, execution counts are 1, 2, 3, ... A widget is stored as its static picture. A cell
that fails, or that writes to standard error, stops everything and nothing is stored.

    python lessons/store_outputs.py lessons/*.ipynb             store
    python lessons/store_outputs.py --check lessons/*.ipynb     only say which files would change
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from classroom.automatic import VARIABLE
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from simdist.compilation_cache import switch_on
from simdist.trace.atomic_file import replacing

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_TIMEOUT_S = 300
# the numbers that are stored come from the CPU, whatever the machine has; widgets are stored as their static pictures
ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": "jax",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "SIMDIST_STATIC_PICTURES": "1",
    VARIABLE: "1",
}


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Runs a notebook in a fresh kernel of this Python.

    Args:
        notebook: the notebook; it is changed in place.
        folder: the working directory of its kernel.

    Returns:
        The notebook with its new outputs, clean.

    Raises:
        CellExecutionError: a cell raised.
        RuntimeError: a cell wrote to standard error.
    """
    cleared(notebook)
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        store_widget_state=False,
        coalesce_streams=True,
    )
    with tempfile.TemporaryDirectory() as profile:  # a user's own IPython settings must not show in a lesson
        client.execute(env={**os.environ, **ENVIRONMENT, "IPYTHONDIR": profile})
    return clean(notebook)


def cleared(notebook: NotebookNode) -> NotebookNode:
    """Removes every output and execution count, in place."""
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    return notebook


def clean(notebook: NotebookNode) -> NotebookNode:
    """Removes what differs between two runs, in place."""
    notebook.metadata = NotebookNode({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(code_cells(notebook), start=1):
        cell.execution_count = number
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            if output.get("name") == "stderr":
                raise RuntimeError(f"code cell {number} wrote to standard error:\n{output.text}")
            if "execution_count" in output:
                output.execution_count = number
            output.get("data", {}).pop(WIDGET, None)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that a kernel runs: code that is not empty."""
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def store(path: Path, check: bool = False) -> bool:
    """Runs one lesson and writes it if it has changed.

    Args:
        path: the notebook.
        check: write nothing.

    Returns:
        Whether the file has changed, or would.
    """
    before = path.read_text(encoding="utf-8")
    notebook = execute(nbformat.reads(before, as_version=4), path.resolve().parent)
    after = nbformat.writes(notebook) + "\n"
    if after != before and not check:
        with replacing(path) as file:
            file.write(after.encode())
    return after != before


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Run lessons and store their outputs.")
    parser.add_argument("notebooks", nargs="*", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    options = parser.parse_args(arguments)
    switch_on()
    changed = failed = False
    for path in options.notebooks or sorted(Path(__file__).parent.glob("*.ipynb")):
        print(f"{path.name}: running", flush=True)
        started = time.monotonic()
        try:
            differs = store(path, options.check)
        except (CellExecutionError, RuntimeError) as error:
            print(f"{path.name}: not stored\n{error}", flush=True)
            failed = True
            continue
        changed |= differs
        word = {(False, False): "unchanged", (True, False): "stored", (True, True): "would change"}
        print(f"{path.name}: {word.get((differs, options.check), 'unchanged')}, {time.monotonic() - started:.0f} s")
    return int(failed or (options.check and changed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
