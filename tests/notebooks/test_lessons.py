"""What every lesson must have: short lines, links, sources, an honest time, predictions and exercises that hide their answers."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from index_page import FILE as INDEX
from index_page import index_page, read_lesson
from solutions import SOLUTION

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "lessons"
LESSONS = sorted(FOLDER.glob("[0-9][0-9]*.ipynb"))
every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)

LONGEST_LINE = 92  # columns of a cell that JupyterLab shows in a window of the usual width
LONGEST_NAME = 22  # characters of a name that its file browser shows whole
LINK = re.compile(r"\]\(([^)\s]+)\)")
COLOURS = r"gr[ea]y|blue|red|green|orange|yellow|purple|violet|pink|black|white|brown|cyan|magenta|colou?red"

# How fast a student is, for the time that a lesson states.
WORDS_A_MINUTE = 130
CODE_LINES_A_MINUTE = 12
MINUTES_A_PREDICTION = 1.5
MINUTES_AN_EXERCISE = 4.0
MINUTES_A_WIDGET = 2.0
TOLERANCE = 0.2


def cells(path: Path, kind: str | None = None) -> list[Any]:
    notebook: Any = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if kind in (None, cell.cell_type)]


def text(path: Path) -> str:
    """All Markdown of a lesson."""
    return "\n\n".join(cell.source for cell in cells(path, "markdown"))


def calls(path: Path, name: str) -> list[ast.Call]:
    """The calls of a function or a method of that name."""
    nodes = [node for cell in cells(path, "code") for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
    return [node for node in nodes if ast.unparse(node.func).split(".")[-1] == name]


@every_lesson
def test_name_is_short(path: Path) -> None:
    assert len(path.name) <= LONGEST_NAME
    assert re.fullmatch(r"\d\d[a-z]?_[a-z]+(_[a-z]+)*\.ipynb", path.name)


@every_lesson
def test_letters_of_one_part_are_not_those_of_another(path: Path) -> None:
    """An earlier cell that is run again would go on with the letters of a later part, and show others than the text speaks of."""
    code = "\n".join(cell.source for cell in cells(path, "code"))
    names = re.findall(r"^(\w+) = Letters\(\)", code, re.MULTILINE)
    assert len(names) == len(set(names)) and code.count("Letters()") == len(names)


@every_lesson
def test_lines_fit_into_a_cell(path: Path) -> None:
    lines = [line for cell in cells(path) for line in cell.source.splitlines()]
    # a link that is longer than a line cannot be broken
    assert [line for line in lines if len(line) > LONGEST_LINE and not re.fullmatch(r"\s*\S+", line)] == []


@every_lesson
def test_code_is_formatted_for_a_cell(path: Path) -> None:
    command = [sys.executable, "-m", "ruff", "format", "--check", f"--line-length={LONGEST_LINE}", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run: ruff format --line-length {LONGEST_LINE} lessons/*.ipynb\n{done.stdout}"


@every_lesson
def test_links_lead_to_the_index_and_both_neighbours(path: Path) -> None:
    number = LESSONS.index(path)
    neighbours = {other.name for other in LESSONS[max(number - 1, 0) : number + 2] if other != path}
    for cell in (cells(path)[0], cells(path)[-1]):
        links = set(LINK.findall(cell.source))
        assert {INDEX, *neighbours} <= links
    local = {link for link in LINK.findall(text(path)) if "://" not in link}
    assert [link for link in local if not (FOLDER / link.split("#")[0]).is_file()] == []


@every_lesson
def test_each_source_has_a_link(path: Path) -> None:
    assert "## Sources" in cells(path)[-1].source
    sources = re.split(r"^- ", cells(path)[-1].source.partition("## Sources")[2], flags=re.MULTILINE)[1:]
    assert len(sources) >= 2
    assert [source for source in sources if "](https://" not in source] == []


@every_lesson
def test_stated_time_is_honest(path: Path) -> None:
    stated = int(re.match(r"(?:About )?(\d+) minutes", read_lesson(path).takes)[1])  # type: ignore[index]
    read = SOLUTION.sub("", text(path)) + " ".join(output.text for output in reveals(path))
    lines = sum(len(cell.source.splitlines()) for cell in cells(path, "code"))
    minutes = (
        len(read.split()) / WORDS_A_MINUTE
        + lines / CODE_LINES_A_MINUTE
        + MINUTES_A_PREDICTION * len(calls(path, "Prediction"))
        + MINUTES_AN_EXERCISE * len(calls(path, "check"))
        + MINUTES_A_WIDGET * text_of_code(path).count("sw.")
    )
    assert abs(stated - minutes) <= TOLERANCE * minutes, f"about {minutes:.0f} minutes"


def text_of_code(path: Path) -> str:
    return "\n".join(cell.source for cell in cells(path, "code"))


def reveals(path: Path) -> list[Any]:
    """The explanations that are shown with the truth, as outputs with a `text`."""
    outputs = [output for cell in cells(path, "code") for output in cell.outputs if "text/markdown" in output.get("data", {})]
    return [nbformat.NotebookNode(text=output.data["text/markdown"]) for output in outputs]


@every_lesson
def test_no_colour_is_named(path: Path) -> None:
    """A theme changes the colours."""
    assert re.findall(rf"\b(?:{COLOURS})\b", text(path) + text_of_code(path), re.IGNORECASE) == []


@every_lesson
def test_predictions_are_asked_before_their_answer_can_be_seen(path: Path) -> None:
    asked, revealed = calls(path, "Prediction"), calls(path, "reveal")
    assert len(asked) == len(revealed) >= 2
    assert [ast.unparse(call) for call in asked if ast.unparse(call.args[1]) != "..."] == []
    literal = [call for call in revealed if any(isinstance(node, ast.Constant | ast.JoinedStr) for node in call.args[1:])]
    assert [ast.unparse(call) for call in literal] == [], "keep the explanation in the lesson's module, out of sight"
    assert not any(keyword.arg == "why" and isinstance(keyword.value, ast.Constant) for call in revealed for keyword in call.keywords)
    for cell in cells(path, "code"):
        if "Prediction(" in cell.source:
            assert "reveal(" not in cell.source
        if ".reveal(" in cell.source:
            assert "print(" not in cell.source.partition(".reveal(")[0], "what is printed before reveal gives the answer away"


@every_lesson
def test_nothing_is_printed_before_a_prediction(path: Path) -> None:
    """What a cell has printed before it revealed, a student would see without a prediction, unless the cell begins by asking for it."""
    for cell in cells(path, "code"):
        if ".reveal(" in cell.source and not re.match(r"\w+\.required\(like=\w+\)", cell.source):
            assert "text/markdown" in cell.outputs[0].get("data", {}), (
                f"begin with `.required(like=0)`, or what is of its kind:\n{cell.source}"
            )


@every_lesson
def test_keras_is_not_imported_by_its_own_name_before_simdist_has_chosen_jax(path: Path) -> None:
    # In a kernel that `make lab` has not started, nothing else has: Keras takes TensorFlow, and the first cell ends with an error.
    assert not re.search(r"^import keras\b", text_of_code(path), re.MULTILINE)


def test_no_two_predictions_have_the_same_question() -> None:
    questions = [ast.literal_eval(call.args[0]) for path in LESSONS for call in calls(path, "Prediction")]
    assert len(set(questions)) == len(questions)


@every_lesson
def test_exercises_hide_their_checks_and_offer_a_solution(path: Path) -> None:
    checks = calls(path, "check")
    assert len(checks) >= 2
    assert len(SOLUTION.findall(text(path))) == len(checks)
    assert "Exercise(" not in text_of_code(path)
    stored = [output.text for cell in cells(path, "code") if ".check(" in cell.source for output in cell.outputs]
    assert len(stored) == len(checks)
    assert [printed for printed in stored if not printed.startswith("Not answered yet.") or "Hint" in printed] == []


def test_index_page_is_up_to_date() -> None:
    stored = (FOLDER / INDEX).read_text(encoding="utf-8")
    assert stored == index_page(LESSONS), "run: python lessons/index_page.py"
    assert all(f"({path.name})" in stored for path in LESSONS)


def test_index_page_adds_up_times_and_names_gaps(tmp_path: Path) -> None:
    for number, minutes in (("00", 50), ("02", 75)):
        head = f"# {number}. A title\n\n**What you will learn.** Much. **You need** nothing. **It takes** {minutes} minutes."
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(head)]), tmp_path / f"{number}_title.ipynb")
    page = index_page(sorted(tmp_path.glob("*.ipynb")))
    assert "(There is no lesson 01.)" in page and "together they are 2 hours" in page


def function_in(source: str, name: str) -> str:
    """A function's code without its docstring and comments."""
    found = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef) and node.name == name)
    if ast.get_docstring(found):
        found.body = found.body[1:]
    return ast.unparse(found)


@pytest.mark.parametrize("name", ["dataset_fn", "make_model"])
def test_later_lessons_use_the_functions_of_lesson_00(name: str) -> None:
    module = (FOLDER / "classroom" / "digits.py").read_text(encoding="utf-8")
    assert function_in(module, name) == function_in(text_of_code(LESSONS[0]), name)


@pytest.mark.parametrize("name", ["make_cluster", "count_steps", "train", "by_the_rule"])
def test_exercises_of_lesson_05_run_its_functions(name: str) -> None:
    module = (FOLDER / "classroom" / "rounds.py").read_text(encoding="utf-8")
    lesson = next(path for path in LESSONS if path.name.startswith("05_"))
    assert function_in(module, name) == function_in(text_of_code(lesson), name)


@pytest.mark.parametrize("name", ["make_cluster", "dense_rounds"])
def test_exercises_of_lesson_06_run_its_functions(name: str) -> None:
    module = (FOLDER / "classroom" / "hot_spots.py").read_text(encoding="utf-8")
    lesson = next(path for path in LESSONS if path.name.startswith("06_"))
    assert function_in(module, name) == function_in(text_of_code(lesson), name)


def test_exercises_of_lesson_07_run_its_tally() -> None:
    module = (FOLDER / "classroom" / "tally.py").read_text(encoding="utf-8")
    lesson = next(path for path in LESSONS if path.name.startswith("07_"))
    assert function_in(module, "tally") == function_in(text_of_code(lesson), "tally")


def test_measurements_of_lesson_09_run_its_job() -> None:
    module = (FOLDER / "classroom" / "young_daly.py").read_text(encoding="utf-8")
    lesson = next(path for path in LESSONS if path.name.startswith("09_"))
    assert function_in(module, "job") == function_in(text_of_code(lesson), "job")
