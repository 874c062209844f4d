"""The exercises of a lesson, solved: its code cells with the solution that the text offers in place of each ``...``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["SOLUTION", "solve", "with_solutions"]

ANSWER = re.compile(r"^(\s*(?:\w+ =|return)) \.\.\.$", re.MULTILINE)
SOLUTION = re.compile(r"<details>.*?```python\n(.*?)```.*?</details>", re.DOTALL)


def with_solutions(path: Path) -> list[str]:
    """The sources of the code cells of a notebook, solved."""
    return [cell.source for cell in _solved(path).cells if cell.cell_type == "code"]


def solve(path: Path) -> None:
    """Solves a notebook in its file."""
    nbformat.write(_solved(path), path)


def _solved(path: Path) -> Any:
    notebook: Any = nbformat.read(path, as_version=4)
    text = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    found = iter(SOLUTION.findall(text))
    for cell in notebook.cells:
        if cell.cell_type == "code" and ".check(" in cell.source:
            question, _, check = cell.source.rpartition("\n")
            assert ANSWER.search(question), question
            cell.source = f"{next(found)}\n{check}"
    return notebook
