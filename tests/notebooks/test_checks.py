"""The exercises of the lessons: unanswered they say what to do; with the printed solutions they are right."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
NOTEBOOKS = sorted(LESSONS.glob("*.ipynb"))
ANSWER = re.compile(r"^(\w+) = \.\.\.$", re.MULTILINE)
SOLUTION = re.compile(r"`(\w+) = ([^`]+)`")


def solutions(notebook: Any) -> dict[str, str]:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and "<details>" in cell.source]
    return dict(match.groups() for text in texts for match in SOLUTION.finditer(text))


def run(notebook: Any, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the code cells in one namespace, with some answers filled in; return what they print."""
    monkeypatch.syspath_prepend(str(LESSONS))
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                source = ANSWER.sub(lambda match: f"{match[1]} = {answers.get(match[1], '...')}", cell.source)
                exec(compile(source, "cell", "exec"), names)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_solutions_pass_every_check(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(path, as_version=4)
    printed = run(notebook, solutions(notebook), monkeypatch)
    exercises = sum(len(ANSWER.findall(cell.source)) for cell in notebook.cells if cell.cell_type == "code")
    assert exercises >= 2
    assert printed.count("right.") == exercises
    assert "not yet" not in printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_unanswered_exercises_say_what_to_do(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    stored = [output.text for cell in notebook.cells if ".check(" in cell.source for output in cell.get("outputs", [])]
    assert len(stored) >= 2
    assert all("not answered yet" in text and "Hint:" in text for text in stored)
