"""`Prediction`: a guess that is asked for before its answer can be seen, and kept with the truth.

The student replaces `...` in one cell; a later cell calls `reveal`, which alone prints the truth and the explanation. Without a
guess it stops the notebook with a sentence ("Run All" halts there). The first guess that was revealed stays: a later one, also
after a restart of the kernel, does not replace it. A program that runs the lessons needs no guesses (`automatic.py`).
"""

from __future__ import annotations

import math
import textwrap
from typing import Any

from classroom.automatic import runs_by_itself
from classroom.kept import KeptGuesses
from classroom.own_truths import is_own, literal
from classroom.stopping import NotYetAnswered
from classroom.values import Plain, described, plain, wrapped

__all__ = ["Prediction"]

OTHER_NUMBERS = "(The explanation is for the lesson's own numbers.)"
CLOSE = 0.1  # a measured number that is nearer than this part of the truth is called close; a count is right or wrong


class Prediction:
    """A guess of one quantity, made before the result is visible.

    Args:
        question: what is asked for, in a few words; it names the guess in the file where it is kept, so no two predictions of the
            lessons have the same.
        guess: a number, a text, True or False, or a list of these; `...` as long as there is none.
        more: nothing; what is there when a number is written with a comma, or a list without brackets.
        unit: of the guess and of the truth, such as "ms"; with a unit the guess must be a number, or a list of numbers. Default none.

    Example:
        >>> closures = Prediction("closures", 40)
        closures: your prediction is 40.
        >>> closures.reveal(48, why="Twelve in each of four epochs.")
        closures: you predicted 40, it is 48.
        Twelve in each of four epochs.
        >>> closures = Prediction("closures", 48)
        closures: your first prediction was 40; it stays.
    """

    def __init__(self, question: str, guess: Any = ..., *more: Any, unit: str = "") -> None:
        self.question = question
        self.unit = unit
        self._kept = KeptGuesses()
        self._guess: Plain | None = None
        if not runs_by_itself():
            self._take(guess, 1 + len(more))

    def _take(self, guess: Any, values: int) -> None:
        first = self._kept.get(self.question)
        value = plain(guess)
        if first is not None:
            self._guess = first
            self._say(f"your first prediction was {self._in_words(first)}; it stays.")
        elif values > 1:
            text = f"these are {values} values. Write a number without commas (100000, or 1.5), and a list in brackets ([1, 2]),"
            self._say(f"{text} and run the cell again.")
        elif guess is ...:
            self._say("replace ... by your prediction, and run this cell again.")
        elif value is None or not says_something(value):
            text = f"this is {described(guess)}. Give a number, a text, True or False, or a list of these in place of it,"
            self._say(f"{text} and run the cell again.")
        elif self.unit and not all_numbers(value):
            text = (
                f"this is {described(guess)}. Give a number without a unit and without quotes, or a list of such numbers, in place of it,"
            )
            self._say(f"{text} and run the cell again; the unit is {self.unit}.")
        else:
            self._guess = value
            self._say(f"your prediction is {self._in_words(value)}.")

    def required(self, *, like: Any) -> None:
        """Stop the notebook if there is no guess of the right kind: the first line of a cell that changes something before it reveals.

        Args:
            like: a value of the truth's kind, such as 0 for a number.

        Raises:
            NotYetAnswered: there is no guess, or one of another kind.
        """
        value = plain(like)
        assert value is not None, f"the truth of a prediction must be a plain value, not {described(like)}"
        if not runs_by_itself():
            self._guess_like(value)

    def reveal(self, truth: Any, why: str = "") -> None:
        """Show the guess beside the truth, then the explanation, which is for the lesson's own truth: of another one it says so.

        Args:
            truth: what came out.
            why: the explanation, in Markdown; a constant of the lesson's module, because the source of a cell is visible before it runs.

        Raises:
            NotYetAnswered: there is no guess, or one of another kind than the truth.
        """
        value = plain(truth)
        assert value is not None, f"the truth of a prediction must be a plain value, not {described(truth)}"
        if runs_by_itself():
            verdict = f"it is {self._in_words(value)}."
        else:
            guess = self._guess_like(value)
            self._kept.keep(self.question, guess)
            verdict = self._verdict(guess, value)
            if why and not is_own(self.question, self._in_words(value)):
                why = f"{textwrap.dedent(why).strip()}\n\n{OTHER_NUMBERS}"
        explain(self.question, verdict, why)

    def _guess_like(self, truth: Plain) -> Plain:
        """The guess, if there is one of the truth's kind."""
        if self._guess is None:
            text = f"First predict: {self.question}. Replace ... in the cell with Prediction, run that cell, and then this one again."
            raise NotYetAnswered(text)
        if kind(self._guess) != kind(truth):
            text = f"{self.question}: you predicted {described(self._guess)}, but the answer is {kind(truth)}. Give {kind(truth)} in"
            self._kept.forget(self.question)
            raise NotYetAnswered(f"{text} the cell with Prediction, run that cell, and then this one again.")
        return self._guess

    def _verdict(self, guess: Plain, truth: Plain) -> str:
        if same_words(guess) == same_words(truth) or self._in_words(guess) == self._in_words(truth):
            return f"you predicted {self._in_words(guess)}, and that is right."
        close = ": close" if isinstance(truth, float) and is_close(guess, truth) else ""
        return f"you predicted {self._in_words(guess)}, it is {self._in_words(truth)}{close}."

    def _in_words(self, value: Plain) -> str:
        return f"{in_words(value)} {self.unit}".strip()

    def _say(self, sentence: str) -> None:
        print(wrapped(f"{self.question}: {sentence}"))


def in_words(value: Plain) -> str:
    """A plain value as one reads it.

    Example:
        >>> in_words(48000), in_words(0.12345), in_words(999.7), in_words(["ring", "binomial"]), in_words(True)
        ('48,000', '0.123', '1,000', 'ring, binomial', 'yes')
    """
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**15 else f"{value:.3e}" if abs(value) < 10**300 else "a very large number"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3e}"
    # Of one long word `shorten` leaves nothing.
    return (
        textwrap.shorten(value, 60, placeholder=" ...") if len(value.split()) > 1 else f"{value.strip()[:60]}{' ...' * (len(value) > 60)}"
    )


def kind(value: Plain) -> str:
    """What kind of value it is; a guess must be of the truth's.

    Example:
        >>> kind(3) == kind(2.5), kind(True), kind(["ring", "ring"])
        (True, 'True or False', 'a list of 2: a text, a text')
    """
    if isinstance(value, list):
        return f"a list of {len(value)}: {', '.join(map(kind, value))}"
    if isinstance(value, bool):
        return "True or False"
    return "a text" if isinstance(value, str) else "a number"


def is_close(guess: Any, truth: Any) -> bool:
    """Whether a number is within a tenth of the truth."""
    try:
        return abs(guess - truth) <= CLOSE * abs(truth)
    except OverflowError:  # a whole number that no float can hold
        return False


def same_words(value: Plain) -> Plain:
    """A value whose texts equal those that differ in capitals, in spaces around them and in a "the" before them, only.

    Example:
        >>> same_words(" Elastic"), same_words(["The ring", 2])
        ('elastic', ['ring', 2])
    """
    if isinstance(value, list):
        return list(map(same_words, value))
    return value.strip().lower().removeprefix("the ").lstrip() if isinstance(value, str) else value


def says_something(value: Plain) -> bool:
    """Whether a value has no number that is infinite or NaN, no empty text and no empty list."""
    if isinstance(value, list):
        return bool(value) and all(map(says_something, value))
    if isinstance(value, str):
        return bool(value.strip())
    return not isinstance(value, float) or math.isfinite(value)


def all_numbers(value: Plain) -> bool:
    """Whether a value is a number, or a list of numbers."""
    if isinstance(value, list):
        return all(map(all_numbers, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def explain(question: str, verdict: str, why: str) -> None:
    """Show the verdict and the explanation: as Markdown in a notebook, as text elsewhere."""
    from IPython import get_ipython
    from IPython.display import Markdown, display

    why = textwrap.dedent(why).strip()
    if get_ipython() is None:
        print(wrapped(f"{question}: {verdict}") + f"\n{why}".rstrip())
    else:
        display(Markdown(f"**{literal(f'{question}: {verdict}')}**\n\n{why}".strip()))
