"""The exercises of a lesson, solved: its code cells with the solution that the text offers in place of each ``...``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat

__all__ = ["SOLUTION", "add_solutions", "with_solutions"]

ANSWER = re.compile(r"^(\s*(?:\w+ =|return)) \.\.\.$", re.MULTILINE)
TAG = "solution"
SOLUTION = re.compile(r"<details>.*?```python\n(.*?)```.*?</details>", re.DOTALL)


def with_solutions(path: Path) -> list[str]:
    """The sources of the code cells of a notebook, solved."""
    return [cell.source for cell in _solved(path).cells if cell.cell_type == "code"]


def add_solutions(path: Path) -> list[bool]:
    """Puts a solved copy behind each exercise of a notebook, in its file.

    Returns:
        For each code cell, whether it is such a copy.
    """
    notebook, solved = nbformat.read(path, as_version=4), _solved(path)
    cells: list[Any] = []
    for cell, answered in zip(notebook.cells, solved.cells, strict=True):
        copies = [] if cell.source == answered.source else [nbformat.v4.new_code_cell(answered.source, metadata={"tags": [TAG]})]
        cells += [cell, *copies]
    notebook.cells = cells
    nbformat.write(notebook, path)
    return [TAG in cell.metadata.get("tags", ()) for cell in cells if cell.cell_type == "code"]


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
