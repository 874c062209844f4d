"""Whether a program runs the lesson (to store or to compare its outputs), and no student.

This is the only file that reads the variable. Programs that run lessons set it: `lessons/store_outputs.py`, the stage `notebooks`
of `make test`, and the driver of the browser tests.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "runs_by_itself"]

VARIABLE = "SIMDIST_LESSONS_AUTOMATIC"


def runs_by_itself() -> bool:
    """Whether predictions are to be revealed without a guess."""
    return os.environ.get(VARIABLE, "") not in ("", "0")
