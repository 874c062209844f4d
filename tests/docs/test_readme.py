"""What the README says of its programs is true of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

README = Path(__file__).resolve().parents[2] / "README.md"


def printed_by(program: str, capsys: pytest.CaptureFixture[str]) -> str:
    names: dict[str, Any] = {"np": np, "sd": sd, "keras": keras}
    exec(compile(program, "README.md", "exec"), names)
    return capsys.readouterr().out


def test_the_crash_of_the_program_with_backups_happens_and_costs_no_bit(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (program,) = [block for block in blocks if "BackupAndRestore" in block]
    undisturbed, crashes = re.subn(r"\n    cluster\.faults\.crash\(.*\)", "", program)
    assert crashes == 1
    restarts, losses = printed_by(program, capsys).split("} ")
    assert "'worker:1': 1" in restarts
    assert printed_by(undisturbed, capsys).split("} ") == ["{'worker:0': 0, 'worker:1': 0", losses]
