"""`Exercise`: a task, a check of the answer, and hints that wait until an attempt has failed.

`check` never raises: whatever the answer is and whatever a student's function does, it prints a sentence that says what was given
and what is expected. The first hint follows the first wrong attempt, the second one the second and all later ones.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import simdist
from classroom.values import described, wrapped

__all__ = ["Check", "Exercise", "NotAnswered"]

Check = Callable[[Any], str | None]  # takes the answer; None if it is right, else what is wrong with it

NOT_OF_STUDENTS = tuple(str(path) for path in (Path(__file__).parent, Path(simdist.__file__).parent, sys.prefix, sys.base_prefix))
GENERATED = ("<frozen", "<string>")  # code without a file: a dataclass makes its __init__ of a text


class NotAnswered(Exception):
    """A check has found `...` where the answer should be, for example in the body of a function."""


class Exercise:
    """A task with a target.

    Args:
        task: what to do, in a sentence or two; it is printed as long as the answer is `...`.
        check: takes the answer; returns None if it is right, else a sentence that says what is wrong with it.
        hints: one for the first wrong attempt, one for the second.
        why: why the right answer is right, in a sentence or two.

    Raises:
        TypeError: the author has given no check, or no two hints; or, when an answer is checked, the check returned something else.

    Example:
        >>> exercise = Exercise(
        ...     "Give the number of workers.",
        ...     lambda answer: None if answer == 3 else f"{answer} is not the number of workers.",
        ...     hints=("Count the lanes.", "They are named worker:0, worker:1 and worker:2."),
        ...     why="There are three lanes of workers.",
        ... )
        >>> exercise.check(...)
        Not answered yet. Give the number of workers.
        >>> exercise.check(2)
        Not yet: 2 is not the number of workers.
        Hint: Count the lanes.
        >>> exercise.check(3)
        Right. There are three lanes of workers.
    """

    def __init__(self, task: str, check: Check, hints: tuple[str, str], why: str = "") -> None:
        if not callable(cast("object", check)):
            raise TypeError(f"The check of an exercise is a function of the answer; got {described(check)}.")
        if not isinstance(cast("object", hints), tuple | list) or len(hints) < 2:
            raise TypeError(
                f"The hints of an exercise are two, ('after the first wrong attempt', 'after the second'); got {described(hints)}."
            )
        self.task = task
        self.hints = hints
        self.why = why
        self.wrong_attempts = 0
        self._check = check

    def check(self, answer: Any) -> None:
        """Print whether an answer is right and why; if it is not, what is wrong with it and a hint."""
        try:
            problem = self.problem(answer)
        except NotAnswered:
            print(wrapped(f"Not answered yet. {self.task}"))
            return
        if problem is None:
            print(wrapped(f"Right. {self.why}".strip()))
            return
        self.wrong_attempts += 1
        hint = self.hints[min(self.wrong_attempts, len(self.hints)) - 1]
        print(wrapped(f"Not yet: {problem}\nHint: {hint}"))

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer; None if nothing is.

        Raises:
            NotAnswered: there is no answer yet.
        """
        if answer is ...:
            raise NotAnswered
        try:
            with simdist.debug(False):  # it stops runs at an error that they get over; what is asked for is how they end
                found = self._check(answer)
        except NotAnswered:
            raise
        except (Exception, SystemExit) as error:  # of the student's code; an interrupt from the keyboard still stops it
            return error_in_words(error, answer)
        if not isinstance(cast("object", found), str | None):
            raise TypeError(
                f"The check of an exercise returned {found!r}; it returns None if the answer is right, else what is wrong with it."
            )
        return found


def error_in_words(error: BaseException, answer: Any) -> str:
    """An error as a sentence, with the line of the student's code in which it was raised, if it was raised there."""
    try:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
    except Exception:
        text = type(error).__name__
    text = text.splitlines()[0][:300]
    frame = deepest_frame_of_student(error)
    if frame is None and callable(answer):
        return f"calling {described(answer)} led to this error: {text}"
    if frame is None:
        return f"{described(answer)} could not be checked. It led to this error: {text}"
    number, line = frame
    return f"your code raised an error in line {number}{f', `{line}`' if line else ''}: {text}"


def deepest_frame_of_student(error: BaseException) -> tuple[int, str] | None:
    """The number and the text of the last line in a traceback that is neither the lessons' nor a library's."""
    found = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith((*NOT_OF_STUDENTS, *GENERATED))
    ]
    if not found:
        return None
    file, number = found[-1]
    return number, linecache.getline(file, number).strip()
