"""``run script.py --cluster cluster.toml`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simdist import compilation_cache
from simdist.__main__ import main


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.setattr(compilation_cache, "switch_on", lambda: None)  # it would set variables of this process
    script, cluster = tmp_path / "script.py", tmp_path / "cluster.toml"
    script.write_text("import sys\nprint(sys.argv[1:])\n")
    cluster.write_text("seed = 4\n[jobs]\nworker = 1\n[[faults]]\nkind = 'crash'\ntask = 'worker:0'\nat = 0.0\n")
    return str(script), str(cluster)


def test_words_after_the_dashes_are_the_script_s(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    script, cluster = paths
    assert main(["run", script, "--cluster", cluster, "--no-crash", "--", "--seed", "9", "--"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[worker:0] ['--seed', '9', '--']"
    assert [line.split() for line in lines if line.startswith(("seed", "result"))] == [["result", "ended"], ["seed", "4"]]
    assert lines[-1] == "no faults"


def test_seed_of_the_command_wins_and_a_failure_is_the_status(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    script, cluster = paths
    assert main(["run", script, "--cluster", cluster, "--seed", "11"]) == 1
    out, err = capsys.readouterr()
    assert "UnavailableError: worker:0 crashed" in err
    assert "seed               11" in out and "result             failed" in out


def test_file_that_cannot_be_used_is_refused_before_anything_runs(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    script, cluster = paths
    Path(cluster).write_text("[jobs]\nwrker = 1\n")
    assert main(["run", script, "--cluster", cluster]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{cluster}: the key 'wrker' in [jobs] is not known. Did you mean 'worker'?")
    assert main(["run", script, "--cluster", cluster + "x"]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert main(["run", script, "--cluster", str(Path(cluster).parent)]) == 2
    assert "is a folder. Give the path of a TOML file" in capsys.readouterr().err
    assert main(["run", script + "x", "--cluster", cluster]) == 2
    assert "There is no program" in capsys.readouterr().err


def test_arguments_of_a_script_need_a_cluster(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", paths[0], "--", "x"]) == 2
    assert "--cluster" in capsys.readouterr().err
    assert main(["run", paths[0]]) == 2
    assert "needs --cluster" in capsys.readouterr().err


def test_cluster_file_below_a_file_is_refused_with_the_reason(paths: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    script, cluster = paths
    assert main(["run", script, "--cluster", f"{cluster}/cluster.toml"]) == 2
    assert "cluster.toml cannot be read: Not a directory. Give the path of a TOML file" in capsys.readouterr().err
