"""Pages of rows, each a block of code of another library beside ours: how they are read, run and compared with what they state.

A page is Markdown. A group begins with ``##``. Each block of code has two words after its fence: ``python`` and then ``tf`` or
``simdist``, and perhaps ``prelude``. A block of ours follows each of theirs. Inside a block, ``# -> value`` after an expression states
its value, and ``# raises Class: words`` after a statement its error. This module needs nothing but numpy, so the blocks of the other
library can be run where that library is:

    python tests/page_rows.py docs/porting.md tf "Variables"
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"python tf", "python simdist", "python tf prelude", "python simdist prelude"}
STATED = re.compile(r"# (->|raises) (.+)$")
RELATIVE, ABSOLUTE = 1e-5, 1e-6


@dataclass
class Block:
    """A piece of code of a page."""

    kind: str
    line: int  # of the page, from 1, where the code begins
    code: str


@dataclass
class Group:
    """The blocks and the tables under one heading."""

    title: str
    blocks: list[Block] = field(default_factory=list[Block])
    rows: list[tuple[int, list[str]]] = field(default_factory=list[tuple[int, list[str]]])  # of tables: line of the page, cells

    def of(self, library: str) -> list[Block]:
        """The blocks of one library, preludes first."""
        return [block for block in self.blocks if block.kind.split()[1] == library]


def groups(text: str) -> list[Group]:
    """The groups of a page that have code or a table.

    Raises:
        ValueError: a block of another kind, or one that does not end.
    """
    found = [Group("")]
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if block is not None:
            if line == "```":
                found[-1].blocks.append(block)
                block = None
            else:
                block.code += line + "\n"
        elif line.lstrip().startswith(("```", "~~~")):
            if line.removeprefix("```") not in KINDS:
                raise ValueError(f"line {number}: {line!r} begins a block that nothing would run; expected one of {sorted(KINDS)}")
            block = Block(line[3:], number + 1, "")
        elif line.startswith("## "):
            found.append(Group(line[3:]))
        elif line.startswith("|-"):
            found[-1].rows.pop()  # what stands above the rule are the titles of the columns
        elif line.startswith("|"):
            found[-1].rows.append((number, [cell.strip() for cell in line.strip("| ").split(" | ")]))
    if block is not None:
        raise ValueError(f"line {block.line}: the block does not end")
    return [group for group in found if group.blocks or group.rows]


def unpaired(group: Group) -> list[int]:
    """The lines of blocks that do not stand in pairs: one of the other library, then one of ours."""
    pairs = list(zip(group.blocks[::2], group.blocks[1::2], strict=False))
    wrong = [a.line for a, b in pairs if a.kind.split()[1] != "tf" or b.kind != a.kind.replace("tf", "simdist")]
    return wrong + ([group.blocks[-1].line] if len(group.blocks) % 2 else [])


def run(block: Block, names: dict[str, Any], path: str = "page") -> int:
    """Run a block statement by statement, and compare what it states; returns how many statements there were.

    Raises:
        AssertionError: something else is true, or a comment states something where it cannot be looked at.
    """
    tree = ast.parse("\n" * (block.line - 1) + block.code, path)
    stated = dict(_comments(block))
    for node in tree.body:
        match = stated.pop(node.end_lineno or node.lineno, None)
        if match is None and isinstance(node, ast.With):
            match = stated.pop(node.lineno, None)  # an error may be stated where the block begins
        if match is None:
            exec(compile(ast.Module([node], []), path, "exec"), names)
        elif match[1] == "->":
            assert isinstance(node, ast.Expr), f"line {node.lineno}: only an expression has a value"
            value = eval(compile(ast.Expression(node.value), path, "eval"), names)
            assert is_stated(value, match[2]), f"line {node.lineno}: {ast.unparse(node)} is {value!r}; the page says {match[2]}"
        else:
            require_error(node, match[2], names, path)
    assert not stated, f"line {min(stated)}: this comment is not at the end of a statement of the block, so nothing compares it"
    return sum(1 for _ in _comments(block))


def _comments(block: Block) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(block.code.splitlines(), block.line):
        match = STATED.search(line)
        if match is not None:
            yield number, match


def require_error(node: ast.stmt, expected: str, names: dict[str, Any], path: str) -> None:
    """Run a statement that must fail with ``Class: words of the message``.

    Raises:
        AssertionError: it does not, or otherwise.
    """
    kind, _, words = expected.partition(": ")
    try:
        exec(compile(ast.Module([node], []), path, "exec"), names)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        assert kind == type(error).__name__ and words in str(error), f"line {node.lineno}: the page says {expected}; got {found}"
    else:
        raise AssertionError(f"line {node.lineno}: the page says {expected}; nothing was raised")


def is_stated(value: Any, text: str) -> bool:
    """Whether a value is what the page says: as it is printed, or in numbers, up to rounding."""
    if repr(value) == text:
        return True
    try:
        expected = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return False
    return _equal(value, expected)


def _equal(value: Any, expected: Any) -> bool:
    if isinstance(expected, str | bool | None):
        return type(value) in (str, bool, np.bool_, type(None)) and value == expected
    if isinstance(expected, Mapping):
        return set(value) == set(expected) and all(_equal(value[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        parts = value if isinstance(value, list | tuple) else np.atleast_1d(np.asarray(value))
        return np.ndim(parts[:0]) > 0 and len(parts) == len(expected) and all(map(_equal, parts, expected))
    number = np.asarray(value)
    return number.ndim == 0 and number.dtype.kind in "iuf" and bool(np.isclose(number, expected, rtol=RELATIVE, atol=ABSOLUTE))


def main(path: str, library: str, *titles: str) -> None:
    """Run the blocks of one library in some groups, and print what is not as the page says."""
    for group in groups(Path(path).read_text(encoding="utf-8")):
        if titles and group.title not in titles:
            continue
        names: dict[str, Any] = {"__name__": "page"}
        for block in group.of(library):
            try:
                run(block, names, path)
            except Exception as error:
                print(f"{path}:{block.line}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
