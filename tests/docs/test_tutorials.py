"""`docs/tutorials/`: every block runs and states what is true, and every cell of TensorFlow's tutorials is answered or left out by name.

A heading says which cells its blocks answer: "(cell 4)", "(cells 21, 22)". The table at the end of a page has the others.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import page_rows as rows
import simdist as sd

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "tutorials"
CODE_CELLS = {"parameter_servers": 26, "several_workers": 34, "guide": 21}
"""How many cells of code each tutorial has, in its edition of 2022 (the guide: of TensorFlow 2.1)."""

HEADING = re.compile(r"^#{2,3} (?P<title>.+?)(?: \(cells? (?P<cells>[\d, ]+)\))?$")
LEFT_OUT = "Left out, and why"


def text_of(page: str) -> str:
    return (FOLDER / f"{page}.md").read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def answered(text: str) -> list[int]:
    """The cells that headings name and blocks answer.

    Raises:
        ValueError: a heading names cells, and no block follows it.
    """
    found: list[int] = []
    waiting: str | None = None
    is_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code, waiting = not is_code, None
        heading = None if is_code else HEADING.match(line)
        if heading is not None:
            if waiting is not None:
                raise ValueError(f"no block answers {waiting!r}")
            waiting = heading["title"] if heading["cells"] else None
            found += numbers(heading["cells"] or "") if heading["cells"] else []
    if waiting is not None:
        raise ValueError(f"no block answers {waiting!r}")
    return found


def left_out(text: str) -> list[int]:
    """The cells of the table at the end."""
    tables = [group for group in rows.groups(text) if group.rows]
    assert [group.title for group in tables] in ([], [LEFT_OUT])
    for group in tables:
        for line, cells in group.rows:
            assert len(cells) == 3 and all(cells), f"line {line}: a row has a cell, what it does, and why it is left out"
    return [number for group in tables for _, cells in group.rows for number in numbers(cells[0])]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What a page sets in the environment, and the files that it writes, are gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(os.environ):
        os.environ.pop("TF_CONFIG", None)
        yield
    assert not sd.has_strategy()


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
@pytest.mark.parametrize("page", CODE_CELLS)
def test_the_blocks_run_in_order_and_state_what_is_true(page: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for group in rows.groups(text_of(page)):
        for block in group.blocks:
            assert block.kind == "python simdist", f"line {block.line}: nothing but our own code"
            rows.run(block, names, str(FOLDER / f"{page}.md"))


@pytest.mark.parametrize("page", CODE_CELLS)
def test_each_cell_is_answered_or_left_out_by_name(page: str) -> None:
    text = text_of(page)
    counted = Counter(answered(text) + left_out(text))
    assert sorted(counted) == list(range(1, CODE_CELLS[page] + 1))
    assert set(counted.values()) == {1}


@pytest.mark.parametrize("page", CODE_CELLS)
def test_cells_are_answered_in_the_order_of_the_tutorial(page: str) -> None:
    first_of_each = [numbers(match["cells"])[0] for line in text_of(page).splitlines() if (match := HEADING.match(line)) and match["cells"]]
    assert first_of_each == sorted(first_of_each)


def test_every_page_is_here_and_linked() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == set(CODE_CELLS)
    for page in ("README.md", "docs/porting.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert all(f"tutorials/{name}.md" in text for name in CODE_CELLS), page


def test_names_in_sentences_exist() -> None:
    for page in CODE_CELLS:
        text = text_of(page)
        code = {line for g in rows.groups(text) for b in g.blocks for line in range(b.line, b.line + b.code.count("\n"))}
        prose = "\n".join(line for number, line in enumerate(text.splitlines(), 1) if number not in code)
        for name in re.findall(r"`sd\.(\w+)", prose):
            assert hasattr(sd, name), f"{page}: sd.{name}"


def test_links_lead_somewhere() -> None:
    for name in CODE_CELLS:
        for target in re.findall(r"\]\(([^)#]+)", text_of(name)):
            assert (FOLDER / target).is_file(), f"{name}: {target}"


@pytest.mark.parametrize(
    ("page", "cells"),
    [
        ("## A (cell 1)\n```python simdist\nx\n```\n### B (cells 2, 3)\ntext\n```python simdist\n# C (cell 4)\n```", [1, 2, 3]),
        ("## A\n## B (cell 7)\n```python simdist\n```", [7]),
    ],
)
def test_cells_stand_in_headings(page: str, cells: list[int]) -> None:
    assert answered(page) == cells


@pytest.mark.parametrize("page", ["## A (cell 1)\n## B (cell 2)\n```python simdist\n```", "## A (cell 1)\ntext"])
def test_a_heading_without_a_block_answers_nothing(page: str) -> None:
    with pytest.raises(ValueError, match="no block answers 'A'"):
        answered(page)


def test_the_table_has_what_is_left_out() -> None:
    table = "| cell | what it does | why |\n|---|---|---|\n"
    assert left_out(f"## {LEFT_OUT}\n{table}| 2, 3 | a | b |\n") == [2, 3]
    with pytest.raises(AssertionError):
        left_out(f"## {LEFT_OUT}\n{table}| 2 | a |\n")
    with pytest.raises(AssertionError):
        left_out(f"## Another\n{table}| 2 | a | b |\n")
