"""Rules of the project that no other tool checks: what may be in the tree, and what an import may cost."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = {".py", ".ts", ".md", ".toml", ".ipynb", ".json", ".cff", ".ini", ".sh", ""}
LEFT_OUT = {"node_modules", "static", "demo", "my_lessons", "dist", "build", "test-results", "__pycache__"}
LONGEST_FILE_LINES = 400
# The folders are joined here, so that this file does not find itself.
MACHINE_PATH = re.compile(r"(?<![\w.:/~-])/(?:" + "|".join(["home", "Users", "root", "tmp", "work"]) + r")/[\w.-]+")
FREE_OF_STATE = {"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64", "Philox"}
HEAVY = ["IPython", "ipywidgets", "keras", "matplotlib", "pandas", "ray", "sklearn", "tensorboard", "tensorflow"]
MOST_OF_JAX = 1.25  # of its seconds of processor time: 0.6 to 0.95 were measured, also beside other work


def files() -> Iterator[Path]:
    """Every file of the project, without what its commands write."""
    for folder, folders, names in os.walk(ROOT):
        hidden = {name for name in folders if name.startswith(".") and name != ".ci"}
        folders[:] = sorted(set(folders) - LEFT_OUT - hidden)
        yield from (Path(folder, name) for name in names)


def engine() -> list[Path]:
    return sorted((ROOT / "simdist").rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_tree_holds_no_path_of_one_machine() -> None:
    found = [
        f"{relative(path)}: {match[0]}"
        for path in files()
        if path.suffix in TEXT
        for match in MACHINE_PATH.finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


@pytest.mark.parametrize("folder", ["home", "tmp"])
def test_path_of_one_machine_is_recognised(folder: str) -> None:
    assert MACHINE_PATH.search(f"open('/{folder}/someone')")
    assert not MACHINE_PATH.search(f"https://example.org/{folder}/page and runs/{folder}/x and ~/{folder}/y")


def test_source_files_are_short() -> None:
    lengths = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files() if path.suffix in {".py", ".ts"}}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE_LINES} == {}


def global_randomness(source: str) -> list[str]:
    """The uses of Python's or numpy's global random generator in a source text, as they are written there."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "random"]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found += [str(node.module)] if node.module == "random" else []
            if node.module == "numpy.random":
                found += [alias.name for alias in node.names if alias.name not in FREE_OF_STATE]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in {"np.random", "numpy.random"}:
            found += [] if node.attr in FREE_OF_STATE else [ast.unparse(node)]
    return found


def test_engine_uses_no_global_random_generator() -> None:
    used = {relative(path): global_randomness(path.read_text(encoding="utf-8")) for path in engine()}
    used.pop("simdist/global_generators.py")  # which gives code of users one of its own, and draws nothing
    assert used and {name: uses for name, uses in used.items() if uses} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import random", ["random"]),
        ("from random import shuffle", ["random"]),
        ("from numpy.random import rand, default_rng", ["rand"]),
        ("np.random.seed(0)", ["np.random.seed"]),
        ("np.random.default_rng(0).random(3); jax.random.key(0)", []),
    ],
)
def test_global_random_generator_is_recognised(source: str, expected: list[str]) -> None:
    assert global_randomness(source) == expected


def in_fresh_python(code: str) -> str:
    """What a new interpreter prints that runs this code."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def test_importing_the_engine_imports_nothing_heavy() -> None:
    assert in_fresh_python(f"import simdist, sys; print(sorted(set({HEAVY!r}) & set(sys.modules)))") == "[]"


def test_importing_the_engine_costs_no_more_than_importing_jax_does() -> None:
    code = "from time import process_time as t; a = t(); import jax; b = t(); import simdist; print((t() - b) / (b - a))"
    assert any(float(in_fresh_python(code)) < MOST_OF_JAX for _ in range(3))


def test_citation_names_the_version_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text().splitlines()
