"""The glossary of CONTRIBUTING.md is kept: names and docstrings have none of the words that it replaces."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "CONTRIBUTING.md"
FOLDERS = (ROOT / "simdist", ROOT / "widgets" / "simdist_widgets")
KINDS = {"names", "parts", "classes", "text"}


@dataclass(frozen=True)
class Rule:
    """One row of the table of words."""

    words: frozenset[str]
    instead: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Permit:
    """One row of the table of exceptions: a name (or "docstring: word") in the files of a pattern."""

    name: str
    files: str


@dataclass(frozen=True)
class Word:
    """An old word that stands somewhere."""

    file: str
    line: int
    kind: str
    name: str
    word: str
    instead: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind} {self.name!r} has {self.word!r}; write: {self.instead}"


def table(text: str, first: str) -> Iterator[list[str]]:
    """The rows of the Markdown table whose first column has this title."""
    rows = iter(text.splitlines())
    for line in rows:
        if line.startswith(f"| {first} |"):
            next(rows)
            break
    for line in rows:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rules(text: str) -> list[Rule]:
    found = [
        Rule(frozenset(word.lower() for word in quoted(words)), instead, frozenset(kinds.split(", ")))
        for words, instead, kinds in table(text, "do not write")
    ]
    assert all(rule.words and rule.kinds <= KINDS for rule in found)
    return found


def permits(text: str) -> list[Permit]:
    return [
        Permit(name, files) for names, where, why in table(text, "exception") if why for name in quoted(names) for files in quoted(where)
    ]


def parts(name: str) -> list[str]:
    """The words of an identifier: ``_next_look`` and ``NextLook`` have two."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name)]


def names(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """(line, kind, name) of classes, functions, arguments, attributes, and what a module or a class assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, "class", node.name
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "function", node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, "argument", node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, "attribute", node.attr
        if isinstance(node, ast.Module | ast.ClassDef):
            for line in node.body:
                targets = line.targets if isinstance(line, ast.Assign) else [line.target] if isinstance(line, ast.AnnAssign) else []
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield target.lineno, "attribute" if isinstance(node, ast.ClassDef) else "global name", target.id


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node, clean=False)
            if text is not None:
                yield from enumerate(text.splitlines(), node.body[0].lineno)


def old_words(file: str, source: str, given: list[Rule]) -> Iterator[Word]:
    """The old words in the text of one file."""
    tree = ast.parse(source)
    module = file.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
    for line, kind, name in [(1, "module", module), *names(tree)]:
        whole, pieces = name.strip("_").lower(), set(parts(name))
        for rule in given:
            hits = rule.words & pieces if "parts" in rule.kinds else rule.words & {whole} if "names" in rule.kinds else set()
            if "classes" in rule.kinds and kind == "class":
                hits = rule.words & {whole}
            yield from (Word(file, line, kind, name, word, rule.instead) for word in sorted(hits))
    forbidden = {word: rule for rule in given if "text" in rule.kinds for word in rule.words}
    pattern = re.compile(rf"\b({'|'.join(sorted(forbidden))})\b", re.IGNORECASE)
    for line, text in docstrings(tree):
        for match in pattern.finditer(text):
            word = match[0].lower()
            yield Word(file, line, "docstring", f"docstring: {word}", word, forbidden[word].instead)


def sources() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted(folder.rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def permit_of(word: Word, given: list[Permit]) -> Permit | None:
    return next((permit for permit in given if permit.name == word.name and fnmatch.fnmatch(word.file, permit.files)), None)


def test_names_and_docstrings_have_no_old_words() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    known, allowed = rules(text), permits(text)
    assert len(known) > 20
    words = [word for file, source in sources() for word in old_words(file, source, known)]
    used = {permit_of(word, allowed) for word in words}
    wrong = [str(word) for word in words if permit_of(word, allowed) is None]
    assert not wrong, "\n".join(wrong)
    assert not [permit for permit in allowed if permit not in used], "nothing needs these exceptions any more"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("class Rendezvous: ...", "class 'Rendezvous'"),
        ("class NextLook: ...", "class 'NextLook'"),
        ("def _rehearse(): ...", "function '_rehearse'"),
        ("def f(*, next_wave): ...", "argument 'next_wave'"),
        ("def f(self):\n    self._twin = 0", "attribute '_twin'"),
        ("class A:\n    place: int", "attribute 'place'"),
        ("WAVES = 8", "global name 'WAVES'"),
        ("class Run: ...", "class 'Run'"),
        ('"""Where replicas\n\nMeet."""', "docstring 'docstring: meet'"),
        ("def f():\n    '''Somebody waits.'''", "docstring 'docstring: somebody'"),
    ],
)
def test_old_word_is_found(source: str, expected: str) -> None:
    known = rules(GLOSSARY.read_text(encoding="utf-8"))
    assert [f"{word.kind} {word.name!r}" for word in old_words("simdist/a.py", source, known)] == [expected]


def test_old_word_in_the_name_of_a_module_is_found() -> None:
    known = rules(GLOSSARY.read_text(encoding="utf-8"))
    assert [word.kind for word in old_words("simdist/runtime/rendezvous.py", "", known)] == ["module"]
    assert [word.kind for word in old_words("simdist/waves/__init__.py", "", known)] == ["module"]


@pytest.mark.parametrize(
    "source", ["def run(): ...", "def placement(): ...", "looking = 1", "def f():\n    own = 1", "x = 'meet'", "# meet"]
)
def test_other_words_are_not_found(source: str) -> None:
    assert not list(old_words("simdist/a.py", source, rules(GLOSSARY.read_text(encoding="utf-8"))))


def test_exception_holds_for_its_name_and_its_files_alone() -> None:
    allowed = permits("| exception | in | why |\n|---|---|---|\n| `place` | `simdist/strategies/*.py` | a verb |\n")
    word = Word("simdist/strategies/base.py", 1, "function", "place", "place")
    assert permit_of(word, allowed) is not None
    assert permit_of(Word("simdist/data/base.py", 1, "function", "place", "place"), allowed) is None
    assert permit_of(Word("simdist/strategies/base.py", 1, "function", "places", "places"), allowed) is None


def test_glossary_explains_each_term_in_one_sentence() -> None:
    rows = list(table(GLOSSARY.read_text(encoding="utf-8"), "term"))
    assert len(rows) > 40
    assert len({term for term, _, _ in rows}) == len(rows)
    for term, meaning, where in rows:
        assert meaning.endswith("."), term
        for path in quoted(where):
            assert (ROOT / path).exists() or (ROOT / "simdist" / path).exists(), f"{term}: {path} is gone"
