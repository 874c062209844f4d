"""A name of a lesson stands for one thing, so that its cells can be run again in another order than from top to bottom."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

LESSONS = sorted((Path(__file__).resolve().parents[2] / "lessons").glob("[0-9][0-9]*.ipynb"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)

# Names that a later cell binds again, each with the reason why a cell in between may still read them.
BOUND_AGAIN = {
    ("00_one_cell", "cluster"): "the cell that trains makes an equal cluster, so that it trains from the beginning each time",
    ("00_one_cell", "strategy"): "the strategy of that cluster; its variables are placed as before",
}


def code_of(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def tables_in(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """A table of names, and those of all functions and classes in it."""
    yield table
    for child in table.get_children():
        yield from tables_in(child)


def bound_and_read(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell binds, and those that it reads and does not bind."""
    top = symtable.symtable(source, "cell", "exec")
    bound = {name.get_name() for name in top.get_symbols() if name.is_assigned()}
    inner = {name.get_name() for table in tables_in(top) for name in table.get_symbols() if name.is_referenced() and name.is_global()}
    return bound, inner - bound


def bound_again_after_a_read(sources: list[str]) -> set[str]:
    """Names that one cell binds, a later one reads, and a still later one binds again: the second, run again, reads something else."""
    found: set[str] = set()
    bound: set[str] = set()
    read: set[str] = set()
    for source in sources:
        binds, reads = bound_and_read(source)
        found |= binds & read
        bound |= binds
        read |= reads & bound
    return found


def test_name_that_is_bound_again_is_found() -> None:
    sources = [
        "run, x = 1, 2",
        "def show():\n    x = run\n    return x",
        "for run in (3, 4):\n    print(run)",
        "print([x for x in (run,)])",
        "x = 5",
    ]
    assert bound_again_after_a_read(sources) == {"run"}


@every_lesson
def test_no_cell_binds_a_name_again_that_an_earlier_one_reads(path: Path) -> None:
    listed = {name for lesson, name in BOUND_AGAIN if lesson == path.stem}
    assert bound_again_after_a_read(code_of(path)) == listed, "give what the later cell makes a name of its own"


@every_lesson
def test_each_prediction_has_a_name_of_its_own(path: Path) -> None:
    assigned = [node for source in code_of(path) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Assign)]
    names = [ast.unparse(node.targets[0]) for node in assigned if ast.unparse(node.value).startswith("Prediction(")]
    assert len(names) >= 2
    assert len(set(names)) == len(names)
