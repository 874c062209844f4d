"""Lessons run from top to bottom in a real JupyterLab, with the solutions of their exercises, and their widgets show something.

CI runs those that have each kind of widget, and compares what they print with what is stored; the cells of all others run under nbval, and
the answers to all exercises in tests/notebooks.

A student's first minutes are run, too: the page that lists the lessons, a prediction that is missing, answers that are wrong. The
last tests try the harness itself on tiny notebooks: it must see a drawn widget, a blank one, and an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from each_widget import EACH_WIDGET
from lab_driver import ROOT, Cell, Notebook, browser_context, chromium, copy_cleared, lab_server
from playwright.sync_api import BrowserContext, Page
from solutions import add_solutions
from working_copies import bring_up_to_date

from sampling import sampled

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium on this machine (Debian: apt install chromium)"),
]
LESSONS = sorted((ROOT / "lessons").glob("[0-9][0-9]*.ipynb"))
WITH_EACH_WIDGET = [path for path in LESSONS if path.name.startswith(EACH_WIDGET)]
PICTURES = ROOT / "test-results"

WIDGET_CELL = """
import anywidget
class Square(anywidget.AnyWidget):
    _esm = '''
    export default {{ render({{ model, el }}) {{
        const canvas = document.createElement("canvas");
        canvas.width = 120; canvas.height = 60;
        el.append(canvas);
        const context = canvas.getContext("2d");
        {draw}
    }} }};
    '''
Square()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with lab_server(folder) as address:
        yield address


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    """One browser for all tests: it loads JupyterLab once."""
    with browser_context() as context:
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("lesson", sampled(LESSONS, WITH_EACH_WIDGET), ids=lambda path: path.stem)
def test_lesson_runs_with_its_solutions_and_draws_its_widgets(lesson: Path, folder: Path, address: str, page: Page) -> None:
    is_solution = add_solutions(copy_cleared(lesson, folder))
    notebook = Notebook(page, address, lesson.name)
    cells = notebook.run_all()
    drawn = notebook.widgets_drawn()
    notebook.screenshot(PICTURES / f"{lesson.stem}.png")
    notebook.shut_down()  # ten kernels would fill the memory of a small machine
    assert [error for cell in cells for error in cell.errors] == []
    assert [text for cell in cells for text in cell.stderr] == []
    assert [cell.count for cell in cells] == list(range(1, len(cells) + 1))
    assert drawn == [True] * sum(cell.widgets for cell in cells)
    answers = [cell.printed for cell, solved in zip(cells, is_solution, strict=True) if solved]
    assert len(answers) >= 2 and [answer for answer in answers if not re.search("^Right[.] ", answer, re.MULTILINE)] == []
    assert [cell.printed for cell in cells if "Not yet:" in cell.printed] == []
    shown = [texts(cell) for cell, solved in zip(cells, is_solution, strict=True) if not solved]
    assert shown == stored_texts(lesson)


def texts(cell: Cell) -> dict[str, list[str]]:
    """What a cell shows, by its kind: what it prints, which may come in pieces, and the texts of its other outputs."""
    shown: dict[str, list[str]] = {}
    for kind, text in cell.shown:
        shown.setdefault(kind, []).append(text)
    return {kind: found if "/" in kind else ["".join(found)] for kind, found in shown.items()}


def stored_texts(lesson: Path) -> list[dict[str, list[str]]]:
    """The same of each code cell of a lesson, as it is stored."""
    stored: list[dict[str, list[str]]] = []
    for cell in nbformat.read(lesson, as_version=4).cells:
        if cell.cell_type == "code":
            kinds = [{output.name: output.text} if output.output_type == "stream" else output.data for output in cell.outputs]
            shown = [[kind, text] for found in kinds for kind, text in found.items() if not kind.startswith("image/")]
            stored.append(texts(Cell(cell.source, None, [], "", [], shown, 0)))
    return stored


# -- as a student ---------------------------------------------------------------------------------------------------------

ENTER_JS = """([name, text]) => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.sharedModel);
    cells.filter(cell => cell.source.includes(name)).forEach(cell => cell.setSource(cell.source.replace('...', text)));
}"""
CUT_OFF_JS = "names => names.filter(name => name.scrollWidth > name.clientWidth).map(name => name.textContent)"


@pytest.fixture(scope="module")
def students_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    copies = tmp_path_factory.mktemp("student") / "my_lessons"
    bring_up_to_date(ROOT / "lessons", copies)
    with lab_server(copies, student=True) as address:
        yield address


def test_index_page_opens_a_lesson_and_file_names_are_whole(students_address: str, page: Page) -> None:
    page.goto(f"{students_address}lab/tree/START_HERE.md?reset")
    link = page.locator(".jp-MarkdownViewer a", has_text="00.").first
    link.wait_for(timeout=60_000)
    names = page.locator(".jp-DirListing-itemText")
    names.nth(len(LESSONS)).wait_for()
    assert names.evaluate_all(CUT_OFF_JS) == []
    page.screenshot(path=PICTURES / "index.png")
    link.click()
    page.locator(".jp-NotebookPanel:visible").wait_for()


def test_missing_prediction_stops_a_lesson_before_its_answer(students_address: str, page: Page) -> None:
    notebook = Notebook(page, students_address, LESSONS[0].name)
    cells = notebook.run_all()
    asked = next(index for index, cell in enumerate(cells) if "Prediction(" in cell.source)
    (error,) = cells[asked + 1].errors
    assert error.startswith("NotYetAnswered: First predict")
    assert [cell.count for cell in cells[asked + 2 :]] == [None] * len(cells[asked + 2 :])
    shown = page.locator("[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type='application/vnd.jupyter.error']")
    assert "Traceback" not in "".join(shown.all_inner_texts()) and "First predict" in "".join(shown.all_inner_texts())


def test_wrong_predictions_and_answers_get_sentences(students_address: str, page: Page) -> None:
    notebook = Notebook(page, students_address, LESSONS[0].name)
    for name in ("Prediction(", "= ..."):
        page.evaluate(ENTER_JS, [name, "1"])
    cells = notebook.run_all()
    assert [error for cell in cells for error in cell.errors] == []
    shown = page.locator(".jp-OutputArea-output").all_inner_texts()
    assert any("you predicted 1, it is 48." in text for text in shown)
    assert sum(text.startswith("Not yet:") and "Hint:" in text for text in shown) == 3


# -- the harness itself ---------------------------------------------------------------------------------------------------


def run_tiny(sources: list[str], name: str, folder: Path, address: str, page: Page) -> Notebook:
    """Writes a notebook of these code cells, opens it and runs it."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / name)
    notebook = Notebook(page, address, name)
    notebook.run_all()
    return notebook


def test_harness_sees_a_drawn_widget_and_saves_the_whole_length(folder: Path, address: str, page: Page, tmp_path: Path) -> None:
    sources = [WIDGET_CELL.format(draw="context.fillRect(10, 10, 50, 30);"), "print('\\n' * 60)", "1 + 1"]
    notebook = run_tiny(sources, "drawn.ipynb", folder, address, page)
    assert notebook.widgets_drawn() == [True]
    assert [(cell.count, cell.widgets) for cell in notebook.cells()] == [(1, 1), (2, 0), (3, 0)]
    (picture,) = notebook.screenshot(tmp_path / "drawn.png")
    assert picture_height_px(picture) > 1000


def test_harness_sees_a_blank_canvas_and_an_error(folder: Path, address: str, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab_driver.DRAW_TIMEOUT_S", 1)
    notebook = run_tiny([WIDGET_CELL.format(draw=""), "1 / 0", "2"], "blank.ipynb", folder, address, page)
    assert notebook.widgets_drawn() == [False]
    assert [cell.errors for cell in notebook.cells()] == [[], ["ZeroDivisionError: division by zero"], []]


def picture_height_px(path: Path) -> int:
    """The height that a PNG file's header states."""
    return int.from_bytes(path.read_bytes()[20:24], "big")
