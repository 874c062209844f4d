"""No group of modules imports itself: neither at the top of a file, nor in a function, nor where only a type checker looks."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"simdist": ROOT / "simdist", "simdist_widgets": ROOT / "widgets" / "simdist_widgets"}

Graph = Mapping[str, set[str]]


def sources() -> dict[str, str]:
    """The source text of each module, by its name."""
    found: dict[str, str] = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join([package, *(part for part in parts if part != "__init__")])] = path.read_text(encoding="utf-8")
    return found


def imports(module: str, is_package: bool, source: str, modules: set[str]) -> Iterator[str]:
    """The modules that a source text names in its imports, wherever they stand; not the packages around them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = module.split(".") if is_package else module.split(".")[:-1]
            prefix = around[: len(around) - node.level + 1] if node.level else []
            name = ".".join([*prefix, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{name}.{alias.name}"
                yield inner if inner in modules else name


def graph_of(texts: Mapping[str, str]) -> Graph:
    """Which modules each module imports."""
    modules = set(texts)
    packages = {name.rpartition(".")[0] for name in modules}
    return {
        module: {name for name in imports(module, module in packages, text, modules) if name in modules and name != module}
        for module, text in texts.items()
    }


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules each of which imports, directly or by way of others, all others of its group (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == index[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = graph_of(sources())
    assert len(graph) > 200
    assert circles(graph) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pkg.one",
        "from pkg import one",
        "from pkg.one import something",
        "from .one import something",
        "from . import one",
        "def later():\n    from pkg.one import something",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.one import something",
    ],
)
def test_circles_are_found_wherever_the_import_stands(text: str) -> None:
    texts = {"pkg": "", "pkg.one": "import pkg.two\nimport json", "pkg.two": "from pkg.three import x", "pkg.three": text, "pkg.four": text}
    assert circles(graph_of(texts)) == [["pkg.one", "pkg.three", "pkg.two"]]
