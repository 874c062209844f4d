"""A student who has not predicted yet: the cell that reveals stops with a sentence, and nothing was printed that gives the answer away."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom.automatic import VARIABLE
from classroom.stopping import NotYetAnswered

LESSONS = sorted((Path(__file__).resolve().parents[2] / "lessons").glob("[0-9][0-9]*.ipynb"))


def run(source: str, names: dict[str, Any]) -> str:
    """Run a cell; returns what it printed, with the name of the error that stopped it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(source, "cell", "exec"), names)
        except NotYetAnswered as error:
            print(f"stopped: {error}")
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_nothing_is_shown_before_a_prediction(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    notebook: Any = nbformat.read(path, as_version=4)
    names: dict[str, Any] = {}
    reveals = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        monkeypatch.delenv(VARIABLE, raising=False)
        printed = run(cell.source, names)
        if ".reveal(" in cell.source:
            reveals += 1
            assert printed.startswith("stopped: First predict: "), printed
            assert len(printed.splitlines()) == 1
            monkeypatch.setenv(VARIABLE, "1")
            assert "stopped" not in run(cell.source, names)
    assert reveals >= 2
