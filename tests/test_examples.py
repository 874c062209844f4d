"""The examples that run on a cluster file: they end, they learn, and their faults fire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simdist.launcher import Outcome, Script, read_cluster_file, run_script

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    """Runs an example in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def of(name: str, *arguments: str, with_faults: bool = True) -> Outcome:
        folder = EXAMPLES / name
        return run_script(Script(folder / "train.py", arguments), read_cluster_file(folder / "cluster.toml"), with_faults=with_faults)

    return of


def test_parameter_servers_learn_though_a_worker_is_killed(run: Callable[..., Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run("parameter_servers", "--epochs", "3", "--directory", "weights")
    assert outcome.status == 0, outcome.errors()
    assert [outcome.cluster.faults.state(fault) for fault in outcome.cluster.faults] == ["fired"]
    assert "restarts of mains  worker:1 1" in outcome.lines
    printed = capsys.readouterr().out.splitlines()
    assert [line.rpartition(" ")[0] for line in printed if line.startswith("[evaluator:0]")] == [
        f"[evaluator:0] epoch {epoch}: accuracy on new rows" for epoch in range(3)
    ]
    assert float(printed[-1].split()[-1]) > 0.9
    assert Path("demo/parameter_servers/trace.json").exists() and Path("demo/parameter_servers/summary.txt").exists()


def test_parameter_servers_without_faults(run: Callable[..., Outcome]) -> None:
    outcome = run("parameter_servers", "--epochs", "1", "--directory", "weights", with_faults=False)
    assert outcome.status == 0 and "restarts of tasks  none" in outcome.lines


def test_an_estimator_finds_its_role_on_every_task(run: Callable[..., Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run("estimator", "--directory", "weights")
    assert outcome.status == 0, outcome.errors()
    assert [outcome.cluster.faults.state(fault) for fault in outcome.cluster.faults] == ["fired"]
    assert "restarts of mains  worker:1 1" in outcome.lines
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("[evaluator:0]")]
    steps = [int(line.split()[2].rstrip(":")) for line in lines]
    assert steps == sorted({*steps}) and steps[-1] == 240
    assert float(lines[-1].split()[-1]) > 0.95


def test_workers_go_on_from_the_last_whole_epoch_after_a_crash(run: Callable[..., Outcome], capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run("multi_worker", "--epochs", "2", "--directory", "weights")
    assert outcome.status == 0, outcome.errors()
    assert [outcome.cluster.faults.state(fault) for fault in outcome.cluster.faults] == ["healed", "fired"]
    assert "restarts of mains  worker:0 1, worker:1 1" in outcome.lines
    printed = capsys.readouterr().out.splitlines()
    assert sorted(line for line in printed if "goes on" in line) == [f"[worker:{n}] goes on with epoch 2" for n in (0, 1)]
    losses = [line.split()[-1] for line in printed if "loss of the last epoch" in line]
    assert losses[0] == losses[1] and float(losses[0]) < 2.2
    assert [path.name for path in Path("weights").iterdir()] == ["model.keras"]
