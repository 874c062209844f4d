"""The tool that mutates code: what it changes, what it leaves alone, and that it can tell a killed mutant from one that survives."""

from __future__ import annotations

import ast
import difflib
import subprocess
from pathlib import Path

import pytest

from mutants import Mutant, copied, nearest_tests, package_of, picked, tried
from mutations import Mutation, mutations

MODULE = '''"""A package: 1 or 2."""


def larger(one: int, other: int) -> int:
    """The larger of two, 3 or not."""
    return one if one > other else other


def unused(number: int) -> int:
    return number + 1
'''
TESTS = {
    "test_sizes.py": "from simdist.a.sizes import larger\n\n\ndef test_larger():\n    assert larger(1, 2) == larger(2, 1) == 2\n",
    "test_others.py": "def test_nothing():\n    pass\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree with a package, its tests, and what a copy must not have."""
    root = tmp_path / "tree"
    for name, text in {
        "simdist/__init__.py": "",
        "simdist/a/sizes.py": MODULE,
        ".gitignore": "left_out\n__pycache__\n",
        "left_out": "",
        **{f"tests/a/{name}": text for name, text in TESTS.items()},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file() and ".git/" not in str(path)}


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


def mutation_of(source: str, words: str) -> Mutation:
    return next(mutation for mutation in mutations(source) if mutation.words == words)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a <= b", {"x = (a < b)"}),
        ("x = a is not b", {"x = (a is b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = 3", {"x = (4)", "x = (2)"}),
        ("x = True", {"x = (False)"}),
        ("x = a - b", {"x = (a + b)"}),
        ("f(a, b, c)", {"(f(b, a, c))", "pass"}),
        ("a.b = c", {"pass"}),
        ("a += b", {"pass"}),
        ("def f():\n    return a", {"def f():\n    return None"}),
        ("if a:\n    b", {"if (not (a)):\n    b"}),
        ("x = [a for a in b if a]", {"x = [a for a in b if (not (a))]"}),
        ("x = 'äöü', a or b", {"x = 'äöü', (a and b)"}),
    ],
)
def test_each_kind_of_mutation_changes_its_place_alone(source: str, expected: set[str]) -> None:
    assert {mutation.source for mutation in mutations(source)} == expected


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring with 1 number."""',
        "from a import b",
        "x: Literal[1]",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "class A(Protocol[T]):\n    x: int = 1",
        "@dataclass(frozen=True)\nclass A:\n    x: int = field(repr=False)",
        "class A:\n    def __repr__(self):\n        return f(1, 2)",
        "class A:\n    def a(self):\n        raise NotImplementedError",
        "assert a < 1",
        "x = f'{a + 1}'",
        "class A:\n    def __init__(self):\n        self.a: int = a\n        self.b = b",
        "x = zip(a, *b, strict=True)",
        "x = a",
        "if TYPE_CHECKING:\n    x = 1",
    ],
)
def test_what_does_nothing_or_is_text_is_left_alone(source: str) -> None:
    assert mutations(source) == []


def test_of_an_error_that_is_raised_only_the_raising_is_changed() -> None:
    assert [mutation.source for mutation in mutations("raise Wrong(1, 2)")] == ["pass"]


def test_a_seed_picks_the_same_lines_each_time_and_each_line_once(tree: Path) -> None:
    first = picked(tree, ["simdist/a"], 3, 2)
    assert first == picked(tree, ["simdist/a"], 3, 2)
    assert {str(mutant) for mutant in first} == {"simdist/a/sizes.py:6", "simdist/a/sizes.py:10"}
    assert len({tuple(picked(tree, ["simdist/a"], seed, 2)) for seed in range(9)}) > 1
    for mutant in first:
        assert ast.dump(ast.parse(mutant.mutation.source)) != ast.dump(ast.parse(MODULE))
        assert [line[0] for line in changed_lines(MODULE, mutant.mutation.source)] == ["-", "+"]


def test_a_mutant_of_tested_code_is_killed_one_of_other_code_survives_and_no_tree_is_changed(tree: Path, tmp_path: Path) -> None:
    before = contents(tree)
    copy = copied(tree, tmp_path / "copy")
    assert contents(copy) == {name: content for name, content in before.items() if name != "left_out"}
    killed = tried(copy, Mutant("simdist/a/sizes.py", mutation_of(MODULE, "one > other -> (not (one > other))")), 60.0)
    assert killed.is_killed and killed.by == "tests/a/test_sizes.py::test_larger"
    survivor = tried(copy, Mutant("simdist/a/sizes.py", mutation_of(MODULE, "return number + 1 -> return None")), 60.0)
    assert not survivor.is_killed
    assert contents(tree) == before
    assert (copy / "simdist/a/sizes.py").read_text() == MODULE


def test_a_mutant_that_hangs_is_killed_by_the_limit(tree: Path, tmp_path: Path) -> None:
    (tree / "tests/a/test_sizes.py").write_text("import simdist.a.sizes\n")
    endless = Mutation(1, "it hangs", "while True:\n    pass\n")
    verdict = tried(copied(tree, tmp_path / "copy"), Mutant("simdist/a/sizes.py", endless), 1.0)
    assert verdict.is_killed and "limit" in verdict.by


def test_the_nearest_tests_of_a_module_run_first(tree: Path) -> None:
    (tree / "tests/a/test_0.py").write_text("import simdist.a.sizes\n")
    found = nearest_tests(tree, "simdist/a/sizes.py")
    assert found == ["tests/a/test_sizes.py", "tests/a/test_0.py", "tests/a/test_others.py"]
    assert package_of("simdist/a/b/c.py") == "simdist/a"
