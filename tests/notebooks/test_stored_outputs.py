"""Lessons hold outputs that the tool stored, whole and clean; and the tool gives the same bytes every time.

Whether the outputs are still true is nbval's business (`.ci/stages.py test notebooks`), or that of the browser in which a lesson runs.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

LESSONS_FOLDER = Path(__file__).resolve().parents[2] / "lessons"
LESSONS = sorted(LESSONS_FOLDER.glob("*.ipynb"))
ADDRESS_IN_MEMORY = re.compile(r"\bat 0x[0-9a-f]{6,}")

TINY = ["import sys\nprint('one', flush=True)\nprint('two')", "", "6 * 7", "import ipywidgets\nipywidgets.IntSlider()"]


def load_tool() -> Any:
    """The tool, which is a script and in no package."""
    spec = importlib.util.spec_from_file_location("store_outputs", LESSONS_FOLDER / "store_outputs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def tool() -> Any:
    return load_tool()


def write_tiny(path: Path, sources: list[str]) -> Path:
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)) + "\n")
    return path


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lesson_is_stored_as_the_tool_stores_it(lesson: Path, tool: Any) -> None:
    text = lesson.read_text(encoding="utf-8")
    notebook: Any = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata.kernelspec.name == "python3"
    code = tool.code_cells(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert nbformat.writes(tool.clean(notebook)) + "\n" == text


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lesson_shows_no_error_and_no_address_in_memory(lesson: Path, tool: Any) -> None:
    notebook: Any = nbformat.read(lesson, as_version=4)
    outputs = [output for cell in tool.code_cells(notebook) for output in cell.outputs]
    texts = [str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", "")) for output in outputs]
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [text for text in texts if ADDRESS_IN_MEMORY.search(text)] == []


@pytest.mark.slow
def test_storing_twice_changes_nothing_the_second_time(tool: Any, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.ipynb", TINY)
    assert tool.store(path, check=True)
    assert tool.store(path)
    stored = path.read_bytes()
    assert not tool.store(path)
    assert path.read_bytes() == stored
    first, _, answer, slider = nbformat.reads(stored.decode(), as_version=4).cells
    assert [output.text for output in first.outputs] == ["one\ntwo\n"]
    assert answer.outputs[0]["data"] == {"text/plain": "42"}
    assert list(slider.outputs[0]["data"]) == ["text/plain"]
    assert [cell.execution_count for cell in (first, answer, slider)] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["import warnings; warnings.warn('stray')", "1 / 0"])
def test_storing_a_lesson_that_warns_or_fails_leaves_it_as_it_was(tool: Any, tmp_path: Path, source: str) -> None:
    path = write_tiny(tmp_path / "bad.ipynb", [source])
    before = path.read_bytes()
    assert tool.main([str(path)]) == 1
    assert path.read_bytes() == before


@pytest.mark.slow
def test_widget_is_stored_as_its_picture(tool: Any, tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "widget.ipynb", ["import simdist_widgets as sw\nsw.ShardMap([])"])
    assert tool.store(path)
    (cell,) = nbformat.read(path, as_version=4).cells
    assert sorted(cell.outputs[0]["data"]) == ["image/png", "text/plain"]
