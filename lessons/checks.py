"""Predictions and exercise checks for the lessons.

A prediction is typed in before the result is shown, and kept with the truth. A check says what is missing, and where to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Exercise", "Prediction"]


class Prediction:
    """A guess, and what came out.

    Example:
        >>> guess = Prediction("retried closures", 2)
        >>> guess.compare(1)
        retried closures: you said 2, it is 1.
    """

    def __init__(self, what: str, guess: Any) -> None:
        self.what = what
        self.guess = guess

    def compare(self, truth: Any) -> None:
        """Print the guess beside the truth."""
        verdict = "as you said" if self.guess == truth else f"you said {self.guess}"
        print(f"{self.what}: {verdict}, it is {truth}.")


class Exercise:
    """A task with a target.

    Args:
        task: what to do, in one sentence.
        check: takes the answer; returns None if it is right, else what is wrong with it.
        hint: where to look.
    """

    def __init__(self, task: str, check: Callable[[Any], str | None], hint: str) -> None:
        self.task = task
        self.check_answer = check
        self.hint = hint

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer; None if nothing is."""
        if answer is ...:
            return f"not answered yet. {self.task}"
        return self.check_answer(answer)

    def check(self, answer: Any) -> None:
        """Print whether an answer is right; if not, why, and a hint."""
        problem = self.problem(answer)
        print("right." if problem is None else f"not yet: {problem} Hint: {self.hint}")
