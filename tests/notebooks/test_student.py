"""A student goes through each lesson, does not predict, and solves the exercises: nothing is shown early, and all solutions are right.

A lesson takes many seconds: it runs once for both questions, and CI runs some of them here.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from classroom.automatic import VARIABLE
from classroom.stopping import NotYetAnswered
from ipywidgets import Widget
from solutions import with_solutions

LESSONS = sorted((Path(__file__).resolve().parents[2] / "lessons").glob("[0-9][0-9]*.ipynb"))
# Here CI runs a quick one: `tests/browser/test_lab.py` runs all of them, solved, and `test_lessons.py` reads what they have printed.
QUICK = ("00_one_cell",)


@dataclass(frozen=True)
class Ran:
    """A code cell that was run, and what it printed: before a prediction, and where it reveals one, after it."""

    source: str
    printed: str
    revealed: str | None


def run(source: str, names: dict[str, Any]) -> str:
    """Run a cell; returns what it printed, with the name of the error that stopped it."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(source, "cell", "exec"), names)
        except NotYetAnswered as error:
            print(f"stopped: {error}")
    return printed.getvalue()


@pytest.fixture(
    scope="module",
    params=[pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.exhaustive) for path in LESSONS],
)
def lesson(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Ran]]:
    """A lesson that ran from top to bottom."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("lesson"))
        ran: list[Ran] = []
        for source in with_solutions(request.param):
            patch.delenv(VARIABLE, raising=False)
            printed = run(source, names)
            patch.setenv(VARIABLE, "1")
            ran.append(Ran(source, printed, run(source, names) if ".reveal(" in source else None))
    yield ran
    names.clear()
    Widget.close_all()  # the process would keep them, and all that they show


@pytest.mark.slow
def test_nothing_is_shown_before_a_prediction(lesson: list[Ran]) -> None:
    reveals = [cell for cell in lesson if cell.revealed is not None]
    assert len(reveals) >= 2
    for cell in reveals:
        assert cell.printed.startswith("stopped: First predict: "), cell.printed
        assert len(cell.printed.splitlines()) == 1
        assert cell.revealed is not None and "stopped" not in cell.revealed


@pytest.mark.slow
def test_solutions_are_right(lesson: list[Ran]) -> None:
    checks = [cell for cell in lesson if ".check(" in cell.source]
    assert len(checks) >= 2
    for cell in checks:
        assert re.search(r"^Right\. ", cell.printed, re.MULTILINE), cell.printed
    assert [cell.source for cell in lesson if "Not yet:" in cell.printed or ("stopped" in cell.printed and cell.revealed is None)] == []
