"""The page that lists the lessons: what each teaches, how long it takes, what is needed before.

It is made from the first cell of each lesson, so that both always say the same:

    # 01. Kill a worker

    **What you will learn.** How a cluster notices that a task has died. **You need** lesson 00. **It takes** 40 minutes.

    python lessons/index_page.py      writes lessons/START_HERE.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from simdist.trace.atomic_file import replacing

__all__ = ["FILE", "Lesson", "index_page", "read_lesson"]

FILE = "START_HERE.md"
LABELS = ("What you will learn.", "You need", "It takes")
TITLE = re.compile(r"\A# (\d\d[a-z]?)\. (.+)$", re.MULTILINE)
HEAD = """# Lessons

Each lesson is a notebook with one question about training on many machines. You predict, run it, see what happened, break it, fix
it, and solve exercises. The cluster is simulated in the notebook; the numbers are computed for real.

Take the lessons in this order.{gaps} All times are for reading, running and solving; together they are {hours} hours.
"""
FOOT = """
**How to work with a lesson.** Click into a cell and press Shift+Enter to run it. Where a cell has `...`, put your prediction or your
answer in its place. A prediction can be wrong; it is there to be compared. An exercise says what is wrong with an answer, and gives
a hint when one has failed. Its solution is folded below it: click on *Solution*.

**For teachers.** *You need* names what a lesson builds on; what it does not name can be left out. To show a lesson from top to bottom
without predictions, start `SIMDIST_LESSONS_AUTOMATIC=1 make lab`. For a projector: Ctrl and + make everything larger; *View*,
*Appearance* has a *Presentation Mode*. A notebook of your own in the folder `my_lessons` finds `classroom` beside it, with `Prediction`
and `Exercise`; what you put there stays. A run gives the same numbers each time, so a test is to run it again and compare with the
outputs that are stored in it: `SIMDIST_LESSONS_AUTOMATIC=1 .venv/bin/pytest --nbval --nbval-current-env my_lessons/yours.ipynb`.

**Your copies.** `make lab` opens copies in the folder `my_lessons`; change them as you like, nothing there is overwritten. When a
lesson gets a newer version and you have changed your copy, the new one lies beside it with `_new` in its name. To begin a lesson
again, delete your copy and start `make lab` again. Your first predictions are kept in `my_lessons/.predictions.json`.
"""


@dataclass(frozen=True)
class Lesson:
    """What the first cell of a lesson says about it."""

    file: str
    number: str
    title: str
    teaches: str
    needs: str
    takes: str


def read_lesson(path: Path) -> Lesson:
    """Read the first cell of a lesson.

    Args:
        path: the notebook.

    Raises:
        ValueError: the cell has no title with a number, or one of the three labels is missing.
    """
    notebook: Any = nbformat.read(path, as_version=4)
    text = notebook.cells[0].source
    title = TITLE.search(text)
    if title is None:
        raise ValueError(f"{path.name} must begin with a title such as '# 07. A title'; it begins with {text[:40]!r}.")
    teaches, needs, takes = (_after(f"**{label}**", text, path) for label in LABELS)
    return Lesson(path.name, title[1], title[2].strip(), teaches, needs, takes)


def _after(label: str, text: str, path: Path) -> str:
    """What follows a label, up to the next one or the end of the paragraph, in one line that ends with a full stop."""
    _, found, rest = text.partition(label)
    if not found:
        raise ValueError(f"The first cell of {path.name} must have {label} followed by a sentence, as the other lessons have.")
    sentence = re.split(r"\*\*|\n\s*\n", rest, maxsplit=1)[0]
    return " ".join(sentence.split())


def index_page(lessons: Iterable[Path]) -> str:
    """The page as Markdown.

    Args:
        lessons: the notebooks, in their order; they lie in the folder of the page.
    """
    found = [read_lesson(path) for path in lessons]
    blocks = [
        f"## [{lesson.number}. {lesson.title}]({lesson.file})\n\n"
        f"**You learn:** {lesson.teaches}\n\n**You need:** {lesson.needs}<br>\n**It takes:** {lesson.takes}\n"
        for lesson in found
    ]
    head = HEAD.format(gaps=_gaps(found), hours=round(sum(_minutes(lesson) for lesson in found) / 60))
    return "\n".join([head, *blocks]) + FOOT


def _minutes(lesson: Lesson) -> int:
    """How long a lesson takes, as its first cell says."""
    minutes = re.search(r"(\d+) minutes?", lesson.takes)
    if minutes is None:
        raise ValueError(f"The first cell of {lesson.file} must say how many minutes the lesson takes, such as '45 minutes'.")
    return int(minutes[1])


def _gaps(lessons: list[Lesson]) -> str:
    """A sentence about the numbers that no lesson has, so that nobody looks for it."""
    numbers = {int(lesson.number[:2]) for lesson in lessons}
    gaps = [f"{number:02}" for number in range(max(numbers, default=0)) if number not in numbers]
    return f" (There is no lesson {' and no lesson '.join(gaps)}.)" if gaps else ""


def main() -> int:
    """Write the page beside the lessons."""
    folder = Path(__file__).resolve().parent
    with replacing(folder / FILE) as file:
        file.write(index_page(sorted(folder.glob("[0-9][0-9]*.ipynb"))).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
