"""The doctor: what it says of this machine, and of one where something is missing or wrong."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from simdist import doctor
from simdist.__main__ import main


def test_doctor_names_parts_devices_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "greenlet" in printed
    assert "numbers are computed by JAX on: cpu (cpu:0)" in printed
    assert "xla_allow_excess_precision=False" in printed
    assert "a tiny cluster ran: v=9" in printed and "twice the same" in printed


def test_doctor_names_what_the_extras_install() -> None:
    """Each line is of an extra, and each extra has a line."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = {name: packages for name, packages in project["optional-dependencies"].items() if name not in ("dev", "bench-tf")}
    installed = {name: {re.split(r"[>\[]", package)[0] for package in packages} for name, packages in extras.items()}
    named = {doctor.DISTRIBUTIONS.get(name, name) for name in doctor.OPTIONAL}
    assert named <= set().union(*installed.values())
    assert all(packages & named for packages in installed.values())


def test_doctor_says_the_same_twice() -> None:
    first, second = ([line for line in doctor.examine() if "free on disk" not in line and "compiled code" not in line] for _ in range(2))
    assert first == second


def test_missing_part_that_is_needed_is_named_and_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(doctor.NEEDED, "no_such_package", "nothing")
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"no_such_package +MISSING", printed)
    assert "a tiny cluster" not in printed


def test_another_backend_of_keras_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    assert any("KERAS_BACKEND=tensorflow, but simdist.keras needs jax" in line for line in doctor.examine())


def test_cluster_that_cannot_run_is_a_diagnosis_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise RuntimeError("no clock")

    monkeypatch.setattr(doctor, "_tiny_run", broken)
    assert list(doctor.examine())[-1] == "a tiny cluster failed: RuntimeError: no clock"
