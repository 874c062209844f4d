"""What each prediction's truth is in the lesson as it stands, so that a student who has changed a cell is not misled by its explanation.

The outputs that are stored with the lessons show these truths. A student's copies have no outputs, so a small file lies beside them
(`working_copies.py` writes it). The file never stands in the way: where it is missing or damaged, every truth counts as the lesson's.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

__all__ = ["FILE", "is_own", "literal", "stored_truths"]

FILE = Path(".own_truths.json")  # in the folder of the notebook, which is the working folder of its kernel
MARKS = re.compile(r"([\\`*_\[\]<>#|$])")  # what Markdown reads as more than a character
ESCAPED = re.compile(r"\\" + MARKS.pattern)
VERDICT = re.compile(r"\*\*(.+): it is (.+)\.\*\*")  # as `Prediction.reveal` shows it where a program runs the lesson


def literal(text: str) -> str:
    """A text that Markdown shows as it is.

    Example:
        >>> literal("a*b")
        'a\\\\*b'
    """
    return MARKS.sub(r"\\\1", text)


def stored_truths(notebook: Any) -> dict[str, str]:
    """The truths in words, by their questions, that the outputs of a notebook show.

    Example:
        >>> output = {"data": {"text/markdown": "**Bytes of worker\\\\_0: it is 48 MB.**\\n\\nBecause."}}
        >>> stored_truths({"cells": [{"cell_type": "code", "outputs": [output]}]})
        {'Bytes of worker_0': '48 MB'}
    """
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    shown = ["".join(output.get("data", {}).get("text/markdown", "")) for output in outputs]
    found = [match.groups() for match in map(VERDICT.match, shown) if match]
    return {ESCAPED.sub(r"\1", question): ESCAPED.sub(r"\1", words) for question, words in found}


def is_own(question: str, words: str) -> bool:
    """Whether a truth is that of the lesson as it stands, as far as is known."""
    try:
        known = json.loads(FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return True
    own = known.get(question) if isinstance(known, dict) else None
    return not isinstance(own, str) or own == words
