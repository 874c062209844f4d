"""Answers to the exercises of lesson 09."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from exercise_rows import Rows

import simdist as sd

NEEDED = ("model", "optimizer", "rows", "contrast", "average")


def objects(*names: str) -> Any:
    """An answer that saves these attributes of a training."""

    def to_save(training: Any) -> dict[str, Any]:
        return {name: getattr(training, name) for name in names}

    return to_save


def suppressing(*errors: type[Exception]) -> Any:
    """An answer that saves, and goes on after some errors."""

    def save(manager: Any) -> None:
        with contextlib.suppress(*errors):
            manager.save()

    return save


def trying_for_ever(manager: Any) -> Any:
    while True:
        try:
            return manager.save()
        except:  # noqa: E722
            pass


def trying_too_often(manager: Any) -> Any:
    while True:
        try:
            return manager.save()
        except sd.errors.SimdistError:
            sd.sleep(0.001)


def saving_for_ever(manager: Any) -> Any:
    while True:
        try:
            manager.save()
        except sd.errors.SimdistError:
            sd.sleep(1.0)


def sleeping(manager: Any) -> None:
    sd.sleep(100.0)


ROWS = {
    "first_exercise": Rows(
        right=[82, 82.2, 75, 90],
        wrong=[
            (1859, "right for one machine"),
            (30, "1.126 times as long"),
            (200, "1.122 times as long"),
            (1000, "with 1,000 minutes it takes 1.633 times as long as the work"),
            (6000, "hardly comes to its end"),
            (1e6, "hardly comes to its end"),
            (0, "is not in the range"),
            ("82", "without quotes"),
        ],
    ),
    "second_exercise": Rows(
        right=[objects(*NEEDED), objects(*NEEDED[::-1])],
        wrong=[
            (objects("model", "optimizer"), "step 1 after the restore"),
            (objects("model", "optimizer", "rows"), "Something of model, optimizer, rows, contrast, average is missing"),
            (objects("model", "optimizer", "rows", "contrast"), "bit for bit, but the average"),
            (objects(*NEEDED, "losses"), "losses"),
            (objects(), "step 1 after the restore"),
            (lambda training: [training.model], "expected is a dict of objects by name"),
            (lambda training: {"model": training.mode}, "AttributeError"),
            ({"model": 1}, "cannot be called"),
        ],
        slow=True,
    ),
    "third_exercise": Rows(
        right=[suppressing(sd.errors.ResourceExhaustedError, sd.errors.AbortedError), suppressing(Exception)],
        wrong=[
            (lambda manager: manager.save(), "has ended with ResourceExhaustedError"),
            (suppressing(sd.errors.ResourceExhaustedError), "7 steps were done again, at most 5 are allowed; the main was started again"),
            (trying_for_ever, "the same save failed 20 times in one virtual moment: sleep between attempts"),
            (trying_too_often, "200 saves have failed: sleep longer"),
            (lambda manager: sys.exit(), "line"),
            (saving_for_ever, "it has saved 60 times: once is enough"),
            (lambda manager: None, "51 steps were done again"),
            (sleeping, "no checkpoint was written"),
            (lambda manager: manager.checkpoints[-1], "IndexError"),
            ("save", "cannot be called"),
        ],
        slow=True,
    ),
}
