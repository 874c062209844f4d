"""What the README says of its programs is true of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

STRATEGIES = ("OneDeviceStrategy()", "MirroredStrategy(devices=4)", "MultiWorkerMirroredStrategy(sd.Cluster({'worker': 2}))")
README = Path(__file__).resolve().parents[2] / "README.md"


def printed_by(program: str, capsys: pytest.CaptureFixture[str]) -> str:
    names: dict[str, Any] = {"np": np, "sd": sd, "keras": keras}
    exec(compile(program, "README.md", "exec"), names)
    return capsys.readouterr().out


def program_with(word: str) -> str:
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL) if word in block]
    return program


def test_twenty_lines_train_through_a_crash_and_are_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    twenty = program_with("import simdist as sd")
    twice = [printed_by(twenty, capsys).splitlines()[-2:] for _ in range(2)]
    events, _ = twice[0]
    assert [word for word in ("crash", "restart") if f"worker:1 {word} at" in events] == ["crash", "restart"]
    assert twice[0] == twice[1]


def test_a_step_has_the_losses_of_one_device(capsys: pytest.CaptureFixture[str]) -> None:
    step = program_with("MirroredStrategy(devices=4)")
    losses = [printed_by(step.replace("sd.MirroredStrategy(devices=4)", f"sd.{one}"), capsys).partition("]")[0] for one in STRATEGIES]
    assert len(losses[0].split(",")) == 4 and losses == losses[:1] * len(STRATEGIES)


def test_clusters_and_faults_can_be_made_as_written() -> None:
    names: dict[str, Any] = {"sd": sd}
    exec(compile(program_with("TwoPoint"), "README.md", "exec"), names)
    exec(compile(program_with("disk_full"), "README.md", "exec"), names)
    assert len(names["cluster"].faults) == 6


def test_a_fork_without_its_crash_is_the_same_until_then() -> None:
    def program(cluster: sd.Cluster) -> None:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        for _ in range(20):
            coordinator.schedule(sd.function(lambda: 1.0, seconds=0.001))
        coordinator.join()

    names: dict[str, Any] = {"sd": sd, "program": program}
    exec(compile(program_with("sd.Session(program").replace("print(", "compared = ("), "README.md", "exec"), names)
    assert "crash of worker:1" in str(names["compared"])
    assert sd.open_share(names["text"], programs={"program": program}).digest() == names["session"].digest()


def test_the_crash_of_the_program_with_backups_happens_and_costs_no_bit(capsys: pytest.CaptureFixture[str]) -> None:
    program = program_with("BackupAndRestore")
    undisturbed, crashes = re.subn(r"\n    cluster\.faults\.crash\(.*\)", "", program)
    assert crashes == 1
    restarts, losses = printed_by(program, capsys).split("} ")
    assert "'worker:1': 1" in restarts
    assert printed_by(undisturbed, capsys).split("} ") == ["{'worker:0': 0, 'worker:1': 0", losses]
