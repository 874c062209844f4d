"""Setting up: nothing is fetched or changed in an environment that another project has made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

CI = Path(__file__).resolve().parents[1] / ".ci"
Run = list[str | Path]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The script, in a checkout of its own; it starts no process, but notes what it would start."""
    monkeypatch.syspath_prepend(str(CI))
    import environment  # pyright: ignore[reportMissingImports]

    venv = tmp_path / "checkout" / ".venv"
    venv.parent.mkdir()
    for name, path in {"VENV": venv, "PYTHON": venv / "bin" / "python", "STAMP": venv / environment.STAMP.name}.items():
        monkeypatch.setattr(environment, name, path)
    started: list[Run] = []

    def run(command: Run, **_: Any) -> subprocess.CompletedProcess[str]:
        started.append(command)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environment.subprocess, "run", run)
    monkeypatch.setattr(environment, "install_front_end", lambda: 0)
    monkeypatch.setattr(environment, "started", started, raising=False)
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_ENABLE_COMPILATION_CACHE"):
        monkeypatch.delenv(name, raising=False)
    return environment


def other_environment(folder: Path, stamp: dict[str, str] | None) -> Path:
    """What looks like an environment in which somebody works."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text("")
    if stamp is not None:
        (folder / "simdist-environment.json").write_text(json.dumps(stamp))
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("stamp", [None, {"path": "another/.venv", "requirements": "old", "extra": "dev"}])
def test_link_to_the_environment_of_another_project_is_refused(
    environment: Any, tmp_path: Path, stamp: dict[str, str] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    other = other_environment(tmp_path / "other", stamp)
    environment.VENV.symlink_to(other)
    before = contents(other)
    assert environment.main("dev") == 1
    assert (environment.started, contents(other)) == ([], before)
    said = capsys.readouterr().out
    assert f"symbolic link to {other}" in said and f"rm {environment.VENV}" in said


def test_link_that_leads_nowhere_is_refused(environment: Any, tmp_path: Path) -> None:
    environment.VENV.symlink_to(tmp_path / "gone")
    assert environment.main("lab") == 1
    assert environment.started == []


def test_link_to_an_empty_folder_is_set_up_and_known_again(environment: Any, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    environment.VENV.symlink_to(tmp_path / "disk")
    assert environment.main("lab") == 0
    assert [command[1:3] for command in environment.started[:2]] == [["-m", "venv"], ["-m", "pip"]]
    other_environment(tmp_path / "disk", None)
    environment.started.clear()
    assert environment.main("lab") == 0
    assert all("venv" not in command and "pip" not in command for command in environment.started)


@pytest.mark.parametrize(("extra", "forbidden", "later"), [("lab", False, True), ("lab", True, False), ("dev", True, True)])
def test_bytecode_is_made_at_once_where_kernels_may_write_none(
    environment: Any, monkeypatch: pytest.MonkeyPatch, extra: str, forbidden: bool, later: bool
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", forbidden)
    environment.VENV.mkdir()
    assert environment.install(extra) == 0
    (command,) = [command for command in environment.started if "install" in command]
    assert ("--no-compile" in command) == later


def test_empty_compilation_cache_is_filled_by_the_demo_and_a_filled_one_is_left(environment: Any) -> None:
    environment.VENV.mkdir()
    environment.fill_compilation_cache()
    assert environment.started.pop()[1:] == ["-m", "simdist", "run", environment.DEMO]
    folder = environment.VENV / environment.compilation_cache()["FOLDER"] / "versions"
    folder.mkdir(parents=True)
    (folder / "key-cache").write_text("")
    environment.fill_compilation_cache()
    assert environment.started == []


def test_compilation_cache_of_the_user_is_not_filled(environment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    environment.VENV.mkdir()
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", os.devnull)
    environment.fill_compilation_cache()
    assert environment.started == []
