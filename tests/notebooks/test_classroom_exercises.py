"""Every exercise of every lesson can be failed, can be solved, and answers whatever it is given with a sentence."""

from __future__ import annotations

import copy
import importlib
import re
from inspect import isfunction
from pathlib import Path
from typing import Any

import pytest
from classroom.exercise import Exercise
from exercise_rows import HOSTILE, rows_of

from sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted(path.stem for path in (ROOT / "lessons" / "classroom").glob("lesson_[0-9]*.py"))


# It runs nine trainings; those that decide are in a table of the lesson, whose stored outputs the notebooks are compared with.
LONGEST = {("lesson_13", "second_exercise")}


def exercises_of(lesson: str) -> dict[str, Exercise]:
    module = importlib.import_module(f"classroom.{lesson}")
    return {name: value for name, value in vars(module).items() if isinstance(value, Exercise)}


def cases(kind: str) -> list[Any]:
    """One case for each answer of all rows; of a slow exercise CI tries the first right one, and of the others every second wrong one."""
    found: list[Any] = []
    for lesson in LESSONS:
        for name, rows in rows_of(lesson).items():
            for number, answer in enumerate(getattr(rows, kind)):
                is_tried = (number == 0 and kind == "right") if rows.slow else (number % 2 == 0 or kind == "right")
                is_tried = is_tried and (lesson, name) not in LONGEST
                marks = [] if is_tried else [pytest.mark.exhaustive]
                found.append(pytest.param(lesson, name, answer, marks=marks, id=f"{lesson}-{name}-{number}"))
    return found


def fresh(lesson: str, name: str) -> Exercise:
    """The exercise before any attempt."""
    exercise = copy.copy(exercises_of(lesson)[name])
    exercise.wrong_attempts = 0
    return exercise


@pytest.mark.parametrize("lesson", LESSONS)
def test_every_exercise_has_rows(lesson: str) -> None:
    exercises, rows = exercises_of(lesson), rows_of(lesson)
    assert len(exercises) >= 2
    assert sorted(exercises) == sorted(rows), f"give each exercise of {lesson} its Rows in tests/notebooks/rows/{lesson}.py"
    assert [name for name, row in rows.items() if not row.right or len(row.wrong) < 3] == []
    assert [name for name, exercise in exercises.items() if len(exercise.hints) != 2 or not exercise.why] == []


@pytest.mark.parametrize(("lesson", "name", "answer"), cases("right"))
def test_right_answer_is_accepted(lesson: str, name: str, answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    exercise = fresh(lesson, name)
    exercise.check(answer)
    printed = capsys.readouterr().out
    assert printed.startswith("Right. ")
    assert re.sub(r"\s+", " ", printed).strip() == f"Right. {exercise.why}"


@pytest.mark.parametrize(("lesson", "name", "row"), cases("wrong"))
def test_wrong_answer_is_explained(lesson: str, name: str, row: tuple[Any, str], capsys: pytest.CaptureFixture[str]) -> None:
    answer, words = row
    fresh(lesson, name).check(answer)
    printed = capsys.readouterr().out
    assert printed.startswith("Not yet: ")
    assert words in re.sub(r"\s+", " ", printed)
    assert "could not be checked" not in printed


@pytest.mark.parametrize("hostile", sampled(HOSTILE, list(HOSTILE)[::3]))
@pytest.mark.parametrize(("lesson", "name"), [(lesson, name) for lesson in LESSONS for name in rows_of(lesson)])
def test_hostile_answer_gets_a_sentence(lesson: str, name: str, hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    fresh(lesson, name).check(HOSTILE[hostile]())
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.startswith("Not yet: ")
    assert "Traceback" not in captured.out
    if not callable(HOSTILE[hostile]()):
        assert "could not be checked" not in captured.out, "a check must look at the kind of an answer before it computes with it"
    assert len(captured.out) < 1200
    assert max(map(len, captured.out.splitlines())) <= 92


@pytest.mark.parametrize(
    ("lesson", "name"), [(lesson, name) for lesson in LESSONS for name, rows in rows_of(lesson).items() if isfunction(rows.right[0])]
)
def test_function_without_a_body_is_no_attempt(lesson: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    exercise = fresh(lesson, name)
    exercise.check(lambda *_, **__: ...)
    assert capsys.readouterr().out.startswith("Not answered yet. ")
    assert exercise.wrong_attempts == 0


@pytest.mark.parametrize(("lesson", "name"), [(lesson, name) for lesson in LESSONS for name in rows_of(lesson)])
def test_hints_wait_for_wrong_attempts(lesson: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    exercise = fresh(lesson, name)

    def printed_for(answer: Any) -> str:
        exercise.check(answer)
        return re.sub(r"\s+", " ", capsys.readouterr().out)

    assert printed_for(...).strip() == f"Not answered yet. {exercise.task}"
    first, second, third = (printed_for(None) for _ in range(3))
    assert first.strip().endswith(f"Hint: {exercise.hints[0]}")
    assert second.strip().endswith(f"Hint: {exercise.hints[1]}") and second == third
    assert exercise.hints[0] not in second
