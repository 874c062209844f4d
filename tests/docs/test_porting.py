"""`docs/porting.md`: each of our blocks runs and states what is true, and each line that is said to be refused is refused."""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import re
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

import page_rows as rows
import simdist as sd
from page_rows import Block, Group
from simdist import keras

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "porting.md"
TEXT = PAGE.read_text(encoding="utf-8")
GROUPS = rows.groups(TEXT)
PROSE_NAME = re.compile(r"`(sd(?:\.\w+)+)")


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What a group sets in the environment, and the files that it writes, are gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(os.environ):
        os.environ.pop("TF_CONFIG", None)
        yield


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_each_block_of_ours_states_what_is_true(group: Group) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in group.of("simdist"):
        statements = rows.run(block, names, str(PAGE))
        assert statements or "prelude" in block.kind, f"line {block.line}: the block states nothing that could be compared"
    for line, cells in group.rows:
        refused(line, cells, names)


def refused(line: int, cells: list[str], names: dict[str, Any]) -> None:
    """A row of a table: TensorFlow's line, ours, the error, what to write."""
    assert len(cells) == 4, f"line {line}: a row has four cells"
    theirs, ours = (re.fullmatch("`([^`]+)`", cell) for cell in cells[:2])
    error = re.fullmatch(r"`(\w+)`: (.+)", cells[2])
    assert theirs and ours and error, f"line {line}: expected two cells of code, and an error with words of its message"
    ast.parse(theirs[1])
    (node,) = ast.parse("\n" * (line - 1) + ours[1]).body
    rows.require_error(node, f"{error[1]}: {error[2]}", names, str(PAGE))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_each_block_of_theirs_is_python_and_stands_above_ours(group: Group) -> None:
    assert rows.unpaired(group) == []
    assert ["prelude" in block.kind for block in group.blocks[:2]] == [True, True]
    assert not any("prelude" in block.kind for block in group.blocks[2:])
    for block in group.of("tf"):
        ast.parse(block.code)


def test_the_page_has_all_groups_and_rows() -> None:
    assert len(GROUPS) == 12
    assert sum(len(group.blocks) for group in GROUPS) > 160
    assert sum(len(group.rows) for group in GROUPS) > 40


def test_the_contents_name_every_group() -> None:
    links = re.findall(r"^- \[(.+)\]\(#([\w-]+)\)$", TEXT, re.MULTILINE)
    assert [title for title, _ in links] == [group.title for group in GROUPS]
    assert [anchor for _, anchor in links] == [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title, _ in links]


def sentences() -> list[str]:
    """The lines of the page that are neither code nor rows of refusals."""
    refusals = {line for group in GROUPS for line, _ in group.rows}
    code = {line for group in GROUPS for b in group.blocks for line in range(b.line, b.line + b.code.count("\n"))}
    return [text for line, text in enumerate(TEXT.splitlines(), 1) if line not in refusals | code]


def test_names_in_sentences_exist() -> None:
    instead = [cells[3] for group in GROUPS for _, cells in group.rows]
    found = {match[1] for text in sentences() + instead for match in PROSE_NAME.finditer(text)}
    assert len(found) > 5
    for name in found:
        resolved: Any = sd
        for part in name.split(".")[1:]:
            resolved = getattr(resolved, part)


def test_each_argument_that_the_prose_names_is_one() -> None:
    public = [getattr(sd, name) for name in sd.__all__] + [sd.estimator.RunConfig, keras.Model, keras.layers.BatchNormalization]
    functions = [getattr(thing, name, None) for thing in public for name in (dir(thing) if isinstance(thing, type) else ())]
    known = {"reduction", "steps_per_execution", "TF_USE_LEGACY_KERAS"}  # of Keras, and of the environment
    for function in (*public, *functions):
        with contextlib.suppress(TypeError, ValueError):  # it has no signature
            known.update(inspect.signature(function).parameters)
    named = {name for text in sentences() for code in re.findall(r"`([^`]+)`", text) for name in re.findall(r"\b(\w+)=(?!=)", code)}
    assert len(named) > 20
    assert named - known == set()


def test_every_public_name_that_tensorflow_has_is_on_the_page() -> None:
    """What is ours alone, and what the README explains, need not be."""
    ours = {
        "FaultPlan",
        "RemoteValue",
        "Session",
        "ShardedVariable",
        "caches",
        "compare",
        "hardware",
        "open_share",
        "recovery",
        "share",
        "sleep",
        "spare_the_collector",
        "PerReplica",
    }
    missing = {name for name in sd.__all__ if not re.search(rf"\bsd\.{name}\b", TEXT)} - ours
    assert missing == set(), "give each of these names a row in docs/porting.md, or say in `ours` that TensorFlow has nothing like it"
    assert all(name in sd.__all__ or isinstance(getattr(sd, name), ModuleType) for name in ours)


# -- the runner itself --------------------------------------------------------------------------------------------------


def block(code: str) -> Block:
    return Block("python simdist", 1, code + "\n")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("```python\nx\n```", "nothing would run"),
        ("```\nx\n```", "nothing would run"),
        ("~~~python tf\nx\n~~~", "nothing would run"),
        ("  ```python tf\nx", "nothing would run"),
    ],
)
def test_a_block_that_nothing_would_run_is_refused(page: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rows.groups(page)


def test_a_block_without_an_end_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2: the block does not end"):
        rows.groups("```python tf\nx = 1\n")


def test_blocks_that_are_no_pairs_are_found() -> None:
    kinds = ["python tf prelude", "python simdist", "python tf", "python simdist", "python simdist"]
    assert rows.unpaired(Group("", [Block(kind, line, "") for line, kind in enumerate(kinds)])) == [0, 4]


@pytest.mark.parametrize(
    "code",
    [
        "1 + 1  # -> 3",
        "x = 2  # -> 2",
        "if True:\n    1 + 1  # -> 2",
        "int('x')  # raises TypeError: invalid",
        "int('x')  # raises ValueError: another",
        "int('1')  # raises ValueError: invalid",
        "1 + (  # -> 1\n2)",
    ],
)
def test_what_is_not_so_fails(code: str) -> None:
    with pytest.raises(AssertionError):
        rows.run(block(code), {})


@pytest.mark.parametrize(
    "code",
    [
        "1 + 1  # -> 2",
        "int('x')  # raises ValueError: invalid literal",
        "str((1,\n2))  # -> '(1, 2)'",
        "with open('x'):  # raises FileNotFoundError: x\n    pass",
    ],
)
def test_what_is_so_passes(code: str) -> None:
    assert rows.run(block(code), {}) == 1


@pytest.mark.parametrize(
    ("value", "text", "equal"),
    [
        (np.float32(0.1), "0.1", True),
        (np.float32(0.1), "0.11", False),
        (np.array([1, 2]), "[1, 2]", True),
        (np.array([1, 2]), "[1]", False),
        ({"a": (1, "x")}, "{'a': (1, 'x')}", True),
        ({"a": (1, "x")}, "{'a': (1, 'y')}", False),
        (True, "1", False),
        (1, "True", False),
        (np.array([1.0]), "1.0", False),
        ((), "()", True),
        ([[1], [2, 3]], "[[1], [2, 3]]", True),
        (object(), "nothing that has a value", False),
    ],
)
def test_a_value_is_what_the_page_says_or_not(value: object, text: str, equal: bool) -> None:
    assert rows.is_stated(value, text) is equal


def test_the_blocks_of_one_group_run_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("## A\n\n```python tf\nx = 2\nx  # -> 2\n```\n\n## B\n\n```python tf\nx = 2\nx  # -> 3\n```\n")
    rows.main(str(page), "tf", "A")
    assert capsys.readouterr().out == ""
    rows.main(str(page), "tf")
    assert capsys.readouterr().out == f"{page}:11: AssertionError: line 12: x is 2; the page says 3\n"
