"""The table of layers in ARCHITECTURE.md is the contract of `pyproject.toml`."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def contract() -> list[list[str]]:
    """The packages of each layer, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["containers"] == ["simdist"])["layers"]
    return [re.findall(r"\w+", layer) for layer in layers]


def documented(text: str) -> list[list[str]]:
    """The first column of the table of layers."""
    lines = text.split("| layer, from the top |")[1].splitlines()[2:]
    rows = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    return [re.findall(r"`(\w+)`", row.split(" | ")[0]) for row in rows]


def test_documented_layers_are_those_of_the_contract() -> None:
    assert documented((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")) == contract()


def test_a_package_in_another_row_is_noticed() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert documented(text.replace("| `training` |", "| `trainings` |")) != contract()
    assert documented(text.replace("`faults`, `variables`", "`faults`")) != contract()


def test_files_that_the_architecture_names_are_there() -> None:
    names = set(re.findall(r"`([\w/]+\.py)`", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    there = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/**/*.py") if "node_modules" not in path.parts}
    assert len(names) > 40
    assert sorted(name for name in names if not any(path.endswith(f"/{name}") or path == name for path in there)) == []
