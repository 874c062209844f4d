"""The copies of the lessons in which a student works.

The lessons of the project have outputs, and git watches them. A student gets copies without outputs, in a folder that git ignores, with
the package `classroom` beside them. `bring_up_to_date` makes and refreshes them, and loses nothing of the student's:

| copy of the student | lesson of the project | what happens |
|---|---|---|
| missing, or deleted | any | a new copy; a deleted copy is how one begins again |
| unchanged | newer | the copy is refreshed |
| changed | as before | nothing |
| changed | newer | the copy stays; the new lesson lies beside it, `_new` in its name |
| unchanged | gone (renamed) | the copy is removed |

A notebook is changed if the text of a cell is; outputs and execution counts do not matter. A module of `classroom` must fit the lessons:
where the student has changed one, the student's is kept as `..._mine.py` and the new one takes its place. A small file keeps what each
copy was made from; without it, every copy that differs counts as changed. Another one keeps what the predictions come to in the lessons
as they stand.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import nbformat
from classroom.own_truths import FILE as TRUTHS
from classroom.own_truths import stored_truths
from index_page import FILE as INDEX
from index_page import index_page

from simdist.trace.atomic_file import replacing

__all__ = ["FOLDER", "STATE", "bring_up_to_date"]

FOLDER = "my_lessons"
STATE = ".copied_from.json"
MOST_VERSIONS = 100  # of one lesson, side by side


def bring_up_to_date(lessons: Path, copies: Path) -> list[str]:
    """Make the copies that are missing, and refresh those that the student has not changed.

    Args:
        lessons: the folder of the lessons.
        copies: the folder of the copies; it is made if it is missing.

    Returns:
        What the student should know, one line each: new versions beside changed copies, and what was moved or removed.

    Raises:
        OSError: a file cannot be written.
    """
    desk = _Desk(copies)
    notebooks = sorted(lessons.glob("[0-9][0-9]*.ipynb"))
    sources = {path.name: _cleared(path) for path in notebooks}
    modules = {f"classroom/{path.name}": path.read_bytes() for path in sorted((lessons / "classroom").glob("*.py"))}
    for name, content in sources.items():
        desk.renew_notebook(name, content)
    for name, content in modules.items():
        desk.renew_module(name, content)
    desk.remove_others({*sources, *modules})
    desk.write(INDEX, index_page(notebooks).encode())
    desk.write(TRUTHS.name, _truths(notebooks))
    desk.save()
    return desk.lines


class _Desk:
    """The folder of the copies, with what each was made from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.made_from = self._read_state()  # fingerprints, by the names of copies

    def renew_notebook(self, name: str, content: bytes) -> None:
        """Bring one notebook up to date, or lay the new one beside a copy that the student has changed."""
        if self._is_students(name, content):
            if self.made_from.get(name) != fingerprint(name, content):
                self._lay_beside(name, content)
        else:
            self._copy(name, content)

    def renew_module(self, name: str, content: bytes) -> None:
        """Bring one module up to date; a changed one gets another name."""
        if self._is_students(name, content):
            mine = self._free_name(name, "mine")
            self.write(mine, (self.folder / name).read_bytes())
            self.lines.append(f"You have changed {name}: yours is now {mine}, and the lessons use the new one.")
        self._copy(name, content)

    def remove_others(self, names: set[str]) -> None:
        """Remove unchanged copies of what the project no longer has; those beside a changed copy stay."""
        for name in sorted(set(self.made_from) - names):
            path = self.folder / name
            if path.is_file() and not _is_beside(name) and self._is_unchanged(name):
                path.unlink()
                self.lines.append(f"{name} is no longer a lesson; your copy had no changes and was removed.")
            if not path.is_file() and not _is_beside(name):
                del self.made_from[name]

    def write(self, name: str, content: bytes) -> None:
        """Write a file, if it would change."""
        path = self.folder / name
        if not path.is_file() or path.read_bytes() != content:
            with replacing(path) as file:
                file.write(content)

    def save(self) -> None:
        """Keep what each copy was made from."""
        self.write(STATE, json.dumps(self.made_from, indent=1, sort_keys=True).encode())

    def _is_students(self, name: str, content: bytes) -> bool:
        """Whether a copy has something that is the student's alone."""
        path = self.folder / name
        return path.exists() and fingerprint(name, path.read_bytes()) != fingerprint(name, content) and not self._is_unchanged(name)

    def _is_unchanged(self, name: str) -> bool:
        return self.made_from.get(name) == fingerprint(name, (self.folder / name).read_bytes())

    def _copy(self, name: str, content: bytes) -> None:
        """Take over a version; a copy that has the same text keeps its outputs."""
        path, now = self.folder / name, fingerprint(name, content)
        if not path.is_file() or fingerprint(name, path.read_bytes()) != now:
            self.write(name, content)
        self.made_from[name] = now

    def _lay_beside(self, name: str, content: bytes) -> None:
        now = fingerprint(name, content)
        others = [_beside(name, number) for number in range(1, MOST_VERSIONS)]
        if any(self.made_from.get(other) == now for other in others):  # it lies there, or the student has deleted it
            return
        free = next(other for other in others if not (self.folder / other).exists() or self._is_unchanged(other))
        self._copy(free, content)
        self.lines.append(f"{name} has a newer version. You have changed your copy, so it stays; the new one is {free}.")

    def _free_name(self, name: str, ending: str) -> str:
        path = Path(name)
        names = [f"{path.stem}_{ending}{'' if number == 1 else number}{path.suffix}" for number in range(1, MOST_VERSIONS)]
        return next(free for free in (path.with_name(other).as_posix() for other in names) if not (self.folder / free).exists())

    def _read_state(self) -> dict[str, str]:
        try:
            content = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return {name: made_from for name, made_from in content.items() if isinstance(made_from, str)} if isinstance(content, dict) else {}


def fingerprint(name: str, content: bytes) -> str:
    """A short text that is the same for files in which a student reads the same.

    Args:
        name: of the file; of a notebook only the text of the cells counts.
        content: of the file. A notebook that cannot be read counts with all its bytes.
    """
    if name.endswith(".ipynb"):
        try:
            cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(content)["cells"]]
            content = json.dumps(cells).encode()
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
    return hashlib.sha256(content).hexdigest()


def _cleared(path: Path) -> bytes:
    """A notebook without outputs."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return (nbformat.writes(notebook) + "\n").encode()


def _truths(notebooks: list[Path]) -> bytes:
    """What the predictions of all lessons come to, which copies without outputs do not show."""
    found: dict[str, str] = {}
    for path in notebooks:
        found.update(stored_truths(json.loads(path.read_text(encoding="utf-8"))))
    return json.dumps(found, indent=1, sort_keys=True).encode()


def _beside(name: str, number: int) -> str:
    path = Path(name)
    return path.with_name(f"{path.stem}_new{'' if number == 1 else number}{path.suffix}").as_posix()


def _is_beside(name: str) -> bool:
    return re.search(r"_new\d*\.ipynb$", name) is not None
