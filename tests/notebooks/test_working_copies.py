"""The copies in which a student works are made and refreshed, and nothing of the student's is lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import Prediction
from classroom.automatic import VARIABLE
from classroom.own_truths import FILE as TRUTHS
from classroom.own_truths import stored_truths
from index_page import FILE as INDEX
from open_lab import main
from working_copies import STATE, bring_up_to_date

ROOT = Path(__file__).resolve().parents[2]
NAME = "00_small.ipynb"
NEW = "00_small_new.ipynb"
HEAD = "# 00. Small\n\n**What you will learn.** Little. **You need** nothing. **It takes** 1 minute."


@pytest.fixture
def lessons(tmp_path: Path) -> Path:
    """A folder like lessons/: one notebook with an output, and a module."""
    folder = tmp_path / "lessons"
    (folder / "classroom").mkdir(parents=True)
    (folder / "classroom" / "lesson_00.py").write_text("ANSWER = 1\n")
    (folder / "working_copies.py").write_text("not for students\n")
    publish(folder, "print(1)")
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path / "my_lessons"


def publish(lessons: Path, source: str, name: str = NAME) -> None:
    """Write a lesson of the project, with one code cell and its output."""
    output = nbformat.v4.new_output("stream", text="the answer\n")
    cells = [nbformat.v4.new_markdown_cell(HEAD, id="a"), nbformat.v4.new_code_cell(source, id="b", outputs=[output], execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), lessons / name)


def code(path: Path) -> Any:
    return nbformat.read(path, as_version=4).cells[1]


def change(path: Path, source: str, outputs: tuple[Any, ...] = ()) -> None:
    """Do what a student does in JupyterLab: edit the cell, run it, save."""
    notebook: Any = nbformat.read(path, as_version=4)
    notebook.cells[1].source, notebook.cells[1].outputs = source, list(outputs)
    notebook.metadata["language_info"] = {"name": "python", "version": "3.14"}
    nbformat.write(notebook, path)


def test_fresh_copies_have_no_outputs_and_only_what_a_student_needs(lessons: Path, copies: Path) -> None:
    assert bring_up_to_date(lessons, copies) == []
    assert sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*") if path.is_file()) == [
        STATE,
        TRUTHS.name,
        NAME,
        INDEX,
        "classroom/lesson_00.py",
    ]
    cell = code(copies / NAME)
    assert (cell.source, cell.outputs, cell.execution_count) == ("print(1)", [], None)
    assert code(lessons / NAME).outputs != []


@pytest.mark.parametrize(("truth", "is_own"), [(21.04, True), (20.96, True), (25, False)])
def test_copies_know_the_truths_of_the_lessons(
    lessons: Path, copies: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], truth: float, is_own: bool
) -> None:
    shown = "**Time\\_s of a\\*b: it is 21 ms.**\n\nBecause it is 21."
    output = nbformat.v4.new_output("display_data", data={"text/markdown": shown})
    cells = [nbformat.v4.new_markdown_cell(HEAD, id="a"), nbformat.v4.new_code_cell("1", id="b", outputs=[output], execution_count=1)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), lessons / NAME)
    bring_up_to_date(lessons, copies)
    monkeypatch.chdir(copies)
    monkeypatch.delenv(VARIABLE, raising=False)
    Prediction("Time_s of a*b", 12, unit="ms").reveal(truth, why="Because it is 21.")
    assert capsys.readouterr().out.endswith("Because it is 21.\n" if is_own else "\n\n(The explanation is for the lesson's own numbers.)\n")


def test_all_truths_of_the_lessons_are_known() -> None:
    """What `reveal` shows in a notebook is what is looked for."""
    for path in sorted((ROOT / "lessons").glob("[0-9]*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        sources = ["".join(cell["source"]) for cell in notebook["cells"]]
        questions = {question for source in sources for question in re.findall(r'= Prediction\(\s*"(.*?)"', source)}
        assert set(stored_truths(notebook)) == questions


def test_second_start_writes_nothing(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    before = {path: path.stat().st_mtime_ns for path in copies.rglob("*")}
    assert bring_up_to_date(lessons, copies) == []
    assert {path: path.stat().st_mtime_ns for path in copies.rglob("*")} == before


@pytest.mark.parametrize("ran", [False, True])
def test_unchanged_copy_is_refreshed(ran: bool, lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    if ran:
        change(copies / NAME, "print(1)", (nbformat.v4.new_output("stream", text="1\n"),))
    publish(lessons, "print(2)")
    assert bring_up_to_date(lessons, copies) == []
    assert code(copies / NAME).source == "print(2)"
    assert not (copies / NEW).exists()


def test_outputs_of_a_copy_stay_while_the_lesson_stays(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    change(copies / NAME, "print(1)", (nbformat.v4.new_output("stream", text="1\n"),))
    bring_up_to_date(lessons, copies)
    assert len(code(copies / NAME).outputs) == 1


def test_changed_copy_stays(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    change(copies / NAME, "print('mine')")
    before = (copies / NAME).read_bytes()
    assert bring_up_to_date(lessons, copies) == []
    assert (copies / NAME).read_bytes() == before
    assert not (copies / NEW).exists()


def test_new_version_lies_beside_a_changed_copy_and_one_line_says_so_once(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    change(copies / NAME, "print('mine')")
    publish(lessons, "print(2)")
    (line,) = bring_up_to_date(lessons, copies)
    assert NAME in line and NEW in line
    assert code(copies / NAME).source == "print('mine')"
    assert (code(copies / NEW).source, code(copies / NEW).outputs) == ("print(2)", [])
    assert bring_up_to_date(lessons, copies) == []
    (copies / NEW).unlink()  # not wanted
    assert bring_up_to_date(lessons, copies) == []
    assert not (copies / NEW).exists()


def test_unchanged_new_version_is_refreshed_and_a_changed_one_stays(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    change(copies / NAME, "print('mine')")
    for version in (2, 3):
        publish(lessons, f"print({version})")
        assert len(bring_up_to_date(lessons, copies)) == 1
        assert code(copies / NEW).source == f"print({version})"
    change(copies / NEW, "print('mine, too')")
    publish(lessons, "print(4)")
    bring_up_to_date(lessons, copies)
    assert code(copies / NEW).source == "print('mine, too')"
    assert code(copies / "00_small_new2.ipynb").source == "print(4)"


def test_deleted_copy_begins_again(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    change(copies / NAME, "print('mine')")
    (copies / NAME).unlink()
    assert bring_up_to_date(lessons, copies) == []
    assert code(copies / NAME).source == "print(1)"


@pytest.mark.parametrize("state", [None, b"", b"{", b"[]", b'{"00_small.ipynb": 3}', b"\xff"])
def test_without_its_state_a_differing_copy_counts_as_changed(state: bytes | None, lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    (copies / STATE).unlink()
    if state is not None:
        (copies / STATE).write_bytes(state)
    publish(lessons, "print(2)")
    bring_up_to_date(lessons, copies)
    assert code(copies / NAME).source == "print(1)"
    assert code(copies / NEW).source == "print(2)"


def test_damaged_copy_stays(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    (copies / NAME).write_bytes(b"{ half a note")
    publish(lessons, "print(2)")
    assert len(bring_up_to_date(lessons, copies)) == 1
    assert (copies / NAME).read_bytes() == b"{ half a note"


def test_changed_module_gets_another_name(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    module = copies / "classroom" / "lesson_00.py"
    module.write_text("ANSWER = 'mine'\n")
    (line,) = bring_up_to_date(lessons, copies)
    assert "classroom/lesson_00_mine.py" in line
    assert module.read_text() == "ANSWER = 1\n"
    assert module.with_name("lesson_00_mine.py").read_text() == "ANSWER = 'mine'\n"
    assert bring_up_to_date(lessons, copies) == []


@pytest.mark.parametrize("changed", [False, True])
def test_copy_of_a_lesson_that_is_gone_stays_only_if_it_was_changed(changed: bool, lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    if changed:
        change(copies / NAME, "print('mine')")
    (lessons / NAME).unlink()
    publish(lessons, "print(1)", "00_renamed.ipynb")
    lines = bring_up_to_date(lessons, copies)
    assert (copies / "00_renamed.ipynb").is_file()
    assert (copies / NAME).exists() == changed == (lines == [])


def test_students_files_stay(lessons: Path, copies: Path) -> None:
    bring_up_to_date(lessons, copies)
    (copies / "notes.ipynb").write_text("{}")
    (copies / ".predictions.json").write_text('{"closures": 40}')
    assert bring_up_to_date(lessons, copies) == []
    assert (copies / "notes.ipynb").read_text() == "{}"
    assert json.loads((copies / ".predictions.json").read_text()) == {"closures": 40}


def test_index_page_lists_the_lessons(lessons: Path, copies: Path) -> None:
    publish(lessons, "print(2)", "01_other.ipynb")
    bring_up_to_date(lessons, copies)
    page = (copies / INDEX).read_text()
    assert "[00. Small](00_small.ipynb)" in page and "(01_other.ipynb)" in page
    assert "Little." in page and "1 minute." in page


# -- the command --------------------------------------------------------------------------------------------------------


def test_folder_that_cannot_be_written_is_said_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["--folder", str(tmp_path / "file" / "my_lessons")]) == 1
    printed = capsys.readouterr()
    assert "cannot be written into" in printed.err and "--folder" in printed.err
    assert "Traceback" not in printed.err


@pytest.mark.parametrize(("word", "reason"), [("", "the name is empty"), ("~no_such_user/x", "a user that is not known here")])
def test_folder_that_is_none_is_refused_before_anything_is_copied(
    word: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subprocess.call", lambda words: 0)
    with pytest.raises(SystemExit) as ended:
        main([f"--folder={word}"])
    assert ended.value.code == 2 and reason in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_command_opens_jupyterlab_on_the_index_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr("subprocess.call", lambda command: called.append(command) or 0)
    assert main(["--folder", str(tmp_path), "--port", "9999", "--LabApp.news_url=https://example.org"]) == 0
    assert called[0][1:4] == ["-m", "jupyter", "lab"]
    assert f"--ServerApp.root_dir={tmp_path}" in called[0] and f"--LabApp.default_url=/lab/tree/{INDEX}" in called[0]
    assert [word for word in called[0] if "news_url" in word] == ["--LabApp.news_url=https://example.org"]
    assert called[0][-3:-1] == ["--port", "9999"]
    assert (tmp_path / INDEX).is_file() and (tmp_path / "classroom" / "exercise.py").is_file()
