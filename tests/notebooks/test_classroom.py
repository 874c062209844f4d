"""Predictions and exercises: what they ask, what they keep, and that no answer ends in a traceback."""

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classroom import Exercise, Prediction
from classroom.automatic import VARIABLE
from classroom.calls import called_in_main
from classroom.exercise import NotAnswered
from classroom.kept import FILE
from classroom.own_truths import FILE as TRUTHS
from classroom.stopping import NotYetAnswered
from exercise_rows import HOSTILE

import simdist as sd

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(path.stem for path in (ROOT / "lessons" / "classroom").glob("*.py") if path.stem != "__init__")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of working copies, in which a student runs the lesson."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(importlib.import_module(f"classroom.{name}"), optionflags=flags).failed == 0


# -- predictions --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "truth", "words"),
    [
        (40, 48, "you predicted 40, it is 48."),
        (48, 48, "you predicted 48, and that is right."),
        (47, 48, "you predicted 47, it is 48."),
        (47, 48.5, "you predicted 47, it is 48.5: close."),
        (1.5, np.float32(1.5), "you predicted 1.5, and that is right."),
        (10**400, 1.5, "you predicted a very large number, it is 1.5."),
        ("ring", "binomial", "you predicted ring, it is binomial."),
        ("Elastic", "elastic", "you predicted Elastic, and that is right."),
        ("The optimizer", "optimizer", "you predicted The optimizer, and that is right."),
        ("theory", "ory", "you predicted theory, it is ory."),
        (["Ring ", " tree"], ["ring", "tree"], "you predicted Ring, tree, and that is right."),
        (True, np.bool_(False), "you predicted yes, it is no."),
        (("ring", "ring"), ["ring", "tree"], "you predicted ring, ring, it is ring, tree."),
        (0, 0, "you predicted 0, and that is right."),
    ],
)
def test_reveal_prints_the_guess_the_truth_and_then_why(guess: Any, truth: Any, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("closures", guess)
    assert "why" not in capsys.readouterr().out
    prediction.reveal(truth, why="because **why**")
    assert capsys.readouterr().out == f"closures: {words}\nbecause **why**\n"


def test_unit_stands_after_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    Prediction("time", 2, unit="ms").reveal(23.868)
    assert capsys.readouterr().out == "time: your prediction is 2 ms.\ntime: you predicted 2 ms, it is 23.9 ms.\n"


@pytest.mark.parametrize("guess, words", [(999.7, "1,000"), ("x" * 70, f"{'x' * 60} ...")])
def test_a_guess_is_repeated_in_words_that_say_it(guess: Any, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Prediction("words", guess)
    assert " ".join(capsys.readouterr().out.split()) == f"words: your prediction is {words}."


def test_reveal_without_a_guess_stops_and_keeps_the_answer_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("closures", ...)
    assert "replace ..." in capsys.readouterr().out
    with pytest.raises(NotYetAnswered, match="First predict: closures") as caught:
        prediction.reveal(48, why="because")
    assert capsys.readouterr().out == ""
    assert "48" not in str(caught.value) and "because" not in str(caught.value)
    lines = caught.value._render_traceback_()
    assert " ".join(lines) == str(caught.value) and max(map(len, lines)) <= 92


def test_required_stops_before_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotYetAnswered, match="First predict: closures"):
        Prediction("closures", ...).required(like=0)
    Prediction("closures", 3).required(like=0)
    monkeypatch.setenv(VARIABLE, "1")
    Prediction("closures", ...).required(like=0)


@pytest.mark.parametrize(
    ("guess", "like", "words"),
    [("48", 0, "the text '48', but the answer is a number"), (48, True, "but the answer is True or False")],
)
def test_guess_of_another_kind_than_the_truth_is_refused_before_anything_changes(guess: Any, like: Any, words: str) -> None:
    with pytest.raises(NotYetAnswered, match=words):
        Prediction("closures", guess).required(like=like)


@pytest.mark.parametrize("guess", ["79 %", "79", True, [5, "8 ms"]])
def test_guess_with_a_unit_of_its_own_is_refused_at_once(guess: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("share", guess, unit="%")
    printed = " ".join(capsys.readouterr().out.split())
    assert "your prediction is" not in printed
    assert "Give a number without a unit and without quotes" in printed and printed.endswith("the unit is %.")
    with pytest.raises(NotYetAnswered, match="First predict: share"):
        prediction.reveal(79.0)


@pytest.mark.parametrize("guess", [(100, 0), (4, 1), (..., 1)])
def test_number_with_a_comma_and_list_without_brackets_get_a_sentence(guess: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("bytes", *guess)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith("bytes: these are 2 values. Write a number without commas") and printed.endswith("run the cell again.")
    with pytest.raises(NotYetAnswered, match="First predict: bytes"):
        prediction.reveal(100_000)
    Prediction("bytes", 12).reveal(13)
    capsys.readouterr()
    Prediction("bytes", *guess)
    assert capsys.readouterr().out == "bytes: your first prediction was 12; it stays.\n"


@pytest.mark.parametrize("guess", ["", "  ", [], ["ring", ""]])
def test_empty_guess_is_no_guess(guess: Any, capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("policy", guess)
    assert capsys.readouterr().out.startswith("policy: this is ")
    with pytest.raises(NotYetAnswered, match="First predict: policy"):
        prediction.reveal("elastic")


def test_verdict_in_a_notebook_is_markdown_that_shows_the_guess_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.get_ipython", lambda: "a kernel")
    monkeypatch.setattr("IPython.display.display", shown.append)
    Prediction("name", "a*b_c").reveal("ring", why="because **why**")
    assert shown[0].data == "**name: you predicted a\\*b\\_c, it is ring.**\n\nbecause **why**"


@pytest.mark.parametrize("guess", ["forty", True, [48], None, float("nan")])
def test_guess_of_another_kind_stops_with_what_is_expected(guess: Any) -> None:
    with pytest.raises(NotYetAnswered) as caught:
        Prediction("closures", guess).reveal(48)
    assert "48" not in str(caught.value).replace("[48]", "")
    Prediction("closures", 12).reveal(48)  # a nonsense guess was not kept


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_guess_gets_a_sentence(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction("closures", HOSTILE[hostile]())
    captured = capsys.readouterr()
    assert captured.out.startswith("closures: ") and captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 92
    try:
        prediction.reveal(48)
    except NotYetAnswered as error:
        assert "48" not in str(error)


def test_first_revealed_guess_survives_a_second_one_and_a_restart(capsys: pytest.CaptureFixture[str]) -> None:
    Prediction("closures", 1)
    Prediction("closures", 40).reveal(48)
    for later in (48, ..., None):
        capsys.readouterr()
        again = Prediction("closures", later)
        assert capsys.readouterr().out == "closures: your first prediction was 40; it stays.\n"
        again.reveal(48)
        assert "you predicted 40" in capsys.readouterr().out


def test_guess_may_change_until_it_is_revealed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    Prediction("closures", 1)
    assert not (folder / FILE).exists()
    Prediction("closures", 2).reveal(48)
    assert "you predicted 2," in capsys.readouterr().out


DAMAGED = [b"", b"{", b"\xff\xfe\x00", b"[1, 2]", b'{"closures": null}', b'{"closures": {"a": 1}}', b"[" * 100_000, b"null"]


@pytest.mark.parametrize("content", DAMAGED, ids=[str(text[:30]) for text in DAMAGED])
def test_damaged_file_of_guesses_counts_as_empty(content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / FILE).write_bytes(content)
    Prediction("closures", 40).reveal(48)
    assert "you predicted 40, it is 48." in capsys.readouterr().out
    assert Prediction("closures", ...)._guess == 40


def test_kept_guess_of_the_wrong_kind_gives_way(folder: Path) -> None:
    (folder / FILE).write_text('{"closures": "forty"}')
    with pytest.raises(NotYetAnswered):
        Prediction("closures", 40).reveal(48)
    Prediction("closures", 40).reveal(48)


def test_file_of_guesses_that_cannot_be_written_does_no_harm(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / FILE).mkdir()
    Prediction("closures", 40).reveal(48)
    assert "you predicted 40, it is 48." in capsys.readouterr().out


def test_lesson_that_runs_by_itself_needs_no_guess(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    Prediction("closures", ...).reveal(48, why="because")
    assert capsys.readouterr().out == "closures: it is 48.\nbecause\n"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("program", [".ci/stages.py", "tests/browser/lab_driver.py", "lessons/store_outputs.py"])
def test_programs_that_run_lessons_set_the_variable(program: str) -> None:
    text = (ROOT / program).read_text(encoding="utf-8")
    assert f'"{VARIABLE}"' in text or "import VARIABLE" in text


NOTHING_ELSE_KNOWN = [*DAMAGED, b'{"closures": "48"}', b'{"others": "3"}']


@pytest.mark.parametrize("content", NOTHING_ELSE_KNOWN, ids=[str(text[:30]) for text in NOTHING_ELSE_KNOWN])
def test_explanation_of_the_lessons_own_truth_needs_no_word(content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / TRUTHS).write_bytes(content)
    Prediction("closures", 40).reveal(48, why="because")
    assert capsys.readouterr().out.endswith("it is 48.\nbecause\n")


def test_explanation_of_another_truth_says_whose_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / TRUTHS).write_text('{"closures": "48"}')
    Prediction("closures", 40).reveal(36, why="because")
    assert capsys.readouterr().out.endswith("it is 36.\nbecause\n\n(The explanation is for the lesson's own numbers.)\n")
    Prediction("closures", 40).reveal(36)
    assert "explanation" not in capsys.readouterr().out
    monkeypatch.setenv(VARIABLE, "1")  # its outputs are compared with those that are stored
    Prediction("closures", ...).reveal(36, why="because")
    assert capsys.readouterr().out == "closures: it is 36.\nbecause\n"


# -- exercises ----------------------------------------------------------------------------------------------------------


def asking(check: Any) -> Exercise:
    return Exercise("Do it.", check, hints=("first", "second"), why="so.")


def test_error_of_a_student_is_shown_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    def average(losses: list[float]) -> float:
        return sum(losses) / 0  # the line of the student

    asking(lambda answer: answer([1.0])).check(average)
    printed = capsys.readouterr().out
    assert "your code raised an error in line " in printed
    assert "`return sum(losses) / 0" in printed and "ZeroDivisionError" in printed


def test_error_in_what_a_dataclass_has_made_is_shown_with_the_line_of_the_student(capsys: pytest.CaptureFixture[str]) -> None:
    def options() -> Any:
        return sd.CommunicationOptions(num_packs=0)

    asking(lambda answer: answer()).check(options)
    assert "`return sd.CommunicationOptions(num_packs=0)`: InvalidArgumentError" in " ".join(capsys.readouterr().out.split())


def test_error_inside_a_library_names_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    asking(np.zeros).check(-1)
    assert "the number -1 could not be checked. It led to this error: ValueError" in capsys.readouterr().out


def test_interrupt_of_a_check_is_not_swallowed() -> None:
    def interrupted(_: Any) -> str | None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asking(interrupted).check(3)


def test_function_without_a_body_is_no_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    def check(function: Any) -> str | None:
        if function() is ...:
            raise NotAnswered
        return None

    exercise = asking(check)
    exercise.check(lambda: ...)
    assert capsys.readouterr().out == "Not answered yet. Do it.\n"
    assert exercise.wrong_attempts == 0


def test_check_sees_how_runs_end_whatever_debugging_does(capsys: pytest.CaptureFixture[str]) -> None:
    with sd.debug():
        asking(lambda _: "debugging is on" if sd.Cluster({"worker": 1}).numerics == "eager" else None).check(3)
        assert sd.Cluster({"worker": 1}).numerics == "eager"  # it is the student's switch
    assert capsys.readouterr().out.startswith("Right.")


def test_function_that_ends_a_main_is_shown_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    def main(function: Any) -> str | None:
        run = sd.Cluster({"worker": 1}).launch(called_in_main, args=(function, 3))
        run.join()
        return None if run.results["worker:0"] == 3 else "another one"

    def ends(_: int) -> int:
        sys.exit()  # the line of the student

    asking(main).check(ends)
    assert "the line of the student`: RuntimeError: sys.exit() ends the main" in " ".join(capsys.readouterr().out.split())
    asking(main).check(lambda number: number)
    assert capsys.readouterr().out.startswith("Right.")


@pytest.mark.parametrize("hints", ["look", (), ("one",), None])
def test_author_who_gives_no_two_hints_is_told(hints: Any) -> None:
    with pytest.raises(TypeError, match="The hints of an exercise are two"):
        Exercise("Count.", lambda answer: None, hints=hints)


def test_author_whose_check_is_no_function_is_told() -> None:
    check: Any = 3
    with pytest.raises(TypeError, match="The check of an exercise is a function of the answer; got the number 3"):
        Exercise("Count.", check, hints=("a", "b"))


@pytest.mark.parametrize("answer", [3, 4])
def test_author_whose_check_returns_true_or_false_is_told(answer: int) -> None:
    check: Any = lambda answer: answer == 3  # noqa: E731
    with pytest.raises(TypeError, match=r"returned (True|False); it returns None if the answer is right"):
        Exercise("Count.", check, hints=("a", "b")).check(answer)
