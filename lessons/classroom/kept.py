"""The guesses that were revealed, in a small file beside the notebooks, so that they survive a restart of the kernel.

The file never stands in the way: one that is missing, damaged or from elsewhere counts as empty, and one that cannot be written is
not written. To begin anew, delete it.
"""

from __future__ import annotations

import json
from pathlib import Path

from classroom.values import Plain, plain
from simdist.errors import SimdistError
from simdist.trace.atomic_file import replacing

__all__ = ["FILE", "KeptGuesses"]

FILE = Path(".predictions.json")  # in the folder of the notebook, which is the working folder of its kernel


class KeptGuesses:
    """The guesses by their questions.

    Args:
        path: the file; default `FILE` in the working folder.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "guesses.json")
        >>> KeptGuesses(path).keep("closures", 40)
        >>> KeptGuesses(path).get("closures")
        40
    """

    def __init__(self, path: Path = FILE) -> None:
        self.path = path.absolute()

    def get(self, question: str) -> Plain | None:
        """The guess that was revealed first; None if there is none."""
        return self._all().get(question)

    def keep(self, question: str, guess: Plain) -> None:
        """Keep a guess, unless there is one."""
        guesses = self._all()
        if question not in guesses:
            self._write({**guesses, question: guess})

    def forget(self, question: str) -> None:
        """Take a guess out."""
        guesses = self._all()
        if guesses.pop(question, None) is not None:
            self._write(guesses)

    def _all(self) -> dict[str, Plain]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(content, dict):
            return {}
        values = {question: plain(guess) for question, guess in content.items()}
        return {question: guess for question, guess in values.items() if guess is not None}

    def _write(self, guesses: dict[str, Plain]) -> None:
        try:
            with replacing(self.path) as file:
                file.write(json.dumps(guesses, indent=1).encode())
        except (OSError, ValueError, SimdistError):  # a folder that is read-only: the guess is kept until the kernel ends
            return
