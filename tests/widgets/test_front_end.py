"""The bundles that are committed are those that the sources give."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import simdist_widgets

PACKAGE = Path(simdist_widgets.__file__).parent
FRONT_END = PACKAGE.parent
LARGEST_BUNDLE_BYTES = 60_000


def why_no_build() -> str | None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "no Node on this machine"
    if not (FRONT_END / "node_modules" / "esbuild").exists():
        return "no widgets/node_modules: run npm ci there"
    return None


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.skipif(why_no_build() is not None, reason=str(why_no_build()))
def test_fresh_build_gives_the_committed_bytes(tmp_path: Path) -> None:
    command = ["npm", "run", "--silent", "build", "--", f"--outdir={tmp_path}"]
    subprocess.run(command, cwd=FRONT_END, check=True, stdin=subprocess.DEVNULL)
    assert contents(tmp_path) == contents(PACKAGE / "static")


WIDGETS = ["timeline", "shard_map", "collective_stepper", "lab", "topology", "fault_console"]


def test_bundles_are_those_of_the_widgets_and_uplot_by_itself() -> None:
    names = {f"{prefix}{name}.js" for prefix in ("", "page_") for name in [*WIDGETS, "uplot"]}
    assert {path.name for path in (PACKAGE / "static").glob("*.js")} == names


@pytest.mark.parametrize("name", sorted(path.name for path in (PACKAGE / "static").glob("*.js")))
def test_bundle_is_small_and_complete_in_itself(name: str) -> None:
    text = (PACKAGE / "static" / name).read_text(encoding="utf-8")
    assert len(text.encode()) < LARGEST_BUNDLE_BYTES
    assert "http" not in text
    assert "</script" not in text
    assert not text.startswith("import")


def test_bundles_with_foreign_code_say_whose_it_is() -> None:
    for path in (PACKAGE / "static").glob("*.js"):
        assert ("(c) 2022 Leon Sorokin" in path.read_text(encoding="utf-8")[:200]) == path.stem.endswith("uplot")
    assert "Permission is hereby granted" in (PACKAGE / "licenses" / "uplot.txt").read_text()


def test_lock_file_names_no_registry() -> None:
    assert "://" not in (FRONT_END / "package-lock.json").read_text()
