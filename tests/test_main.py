"""The command line, and the demo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simdist.__main__ import main

ROOT = Path(__file__).resolve().parents[1]


def test_run_without_a_file_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no/such/program.py"]) == 2
    assert "There is no program" in capsys.readouterr().err


def test_run_of_a_folder_says_that_it_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"{tmp_path} is a folder. Give the path of a Python file, such as {tmp_path}/train.py.\n"


def test_run_of_a_file_without_main_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert main(["run", str(tmp_path / "empty.py")]) == 2
    assert "defines no main" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["cluster.toml"], "goes behind --cluster"),
        (["cluster.toml", "--cluster", "train.py"], ""),
        (["lesson.ipynb"], "runs in JupyterLab"),
    ],
)
def test_run_of_another_kind_of_file_says_so(words: list[str], advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / words[0]).write_text("[jobs]\nworker = 2\n")  # Python, too, until it runs
    assert main(["run", str(tmp_path / words[0]), *words[1:]]) == 2
    said = capsys.readouterr().err
    assert f"{words[0]} is no Python file" in said
    assert advice in said


def test_reader_that_leaves_is_no_traceback() -> None:
    command = subprocess.Popen([sys.executable, "-m", "simdist", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == b""
    command.stderr.close()
    assert command.wait() == 141


def test_run_of_a_script_for_tasks_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("def main():\n    raise SystemExit('was called')\n")
    assert main(["run", str(tmp_path / "train.py")]) == 2
    assert "needs --cluster FILE" in capsys.readouterr().err


def test_program_may_close_the_output(tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text("import sys\n\ndef main(seed, crash):\n    sys.stdout.close()\n")
    run = subprocess.run([sys.executable, "-m", "simdist", "run", str(tmp_path / "silent.py")], capture_output=True, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_interrupted_program_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "long.py"
    program.write_text("def main(seed, crash):\n    wait()\n\ndef wait():\n    raise KeyboardInterrupt\n")
    assert main(["run", str(program)]) == 130
    assert capsys.readouterr().err == f"Interrupted in line 5 of {program}.\n"


def test_program_that_fails_says_in_which_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "failing.py"
    program.write_text("import simdist as sd\n\ndef main(seed, crash):\n    raise sd.errors.UnavailableError('gone')\n")
    assert main(["run", str(program)]) == 1
    assert capsys.readouterr().err.startswith(f"UnavailableError in line 4 of {program}: gone")


def test_command_without_an_output_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a shell has closed it: `>&-`."""
    (tmp_path / "quiet.py").write_text("def main(seed, crash):\n    print(seed)\n")
    monkeypatch.setattr("sys.stdout", None)
    assert main(["run", str(tmp_path / "quiet.py")]) == 0


def test_interrupted_campaign_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("simdist.chaos.campaign.Campaign.run", run)
    assert main(["chaos", "--scenarios", "3"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_run_of_what_is_not_python_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("def main(:\n")
    assert main(["run", str(tmp_path / "broken.py")]) == 2
    assert "broken.py is not Python: invalid syntax" in capsys.readouterr().err


def test_program_finds_modules_beside_it_and_words_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "beside_the_program.py").write_text("size = 7\n")
    program = tmp_path / "program.py"
    program.write_text("import sys\nimport beside_the_program as b\ndef main(seed, crash):\n    print(b.size, sys.argv, seed, crash)\n")
    words, folders = list(sys.argv), list(sys.path)
    try:
        assert main(["run", str(program), "--no-crash"]) == 0
    finally:
        sys.modules.pop("beside_the_program", None)
    assert capsys.readouterr().out == f"7 {[str(program)]} 0 False\n"
    assert (sys.argv, sys.path) == (words, folders)


def test_keras_by_its_own_name_computes_with_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND")
    code = "import simdist, keras; print(keras.backend.backend())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "jax"


def test_bench_with_a_base_hands_its_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[list[str]]()
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or 1)
    assert main(["bench", "fit", "--base", "v1", "--rounds", "3"]) == 1
    assert main(["bench", "--base", "v1"]) == 1
    assert [Path(words[1]).name for words in called] == ["_against_base.py"] * 2
    assert [words[2:] for words in called] == [["--rounds=3", "--", "v1", "fit"], ["--", "v1"]]


def test_rounds_without_a_base_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--rounds", "3"]) == 2
    assert "--base" in capsys.readouterr().err


def test_unknown_benchmark_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "async_workers" in capsys.readouterr().err


def test_lessons_pass_their_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda command: called.append(command) or 0)
    assert main(["lessons", "--LabApp.news_url=None", "--port", "9999"]) == 0
    assert called[0][1:] == [str(ROOT / "lessons" / "open_lab.py"), "--LabApp.news_url=None", "--port", "9999"]


def test_option_that_no_command_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--port"])
    assert "unknown: --port" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], pytest.param(["--no-crash"], marks=pytest.mark.exhaustive)])
def test_demo_learns_the_digits_and_writes_its_files(options: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simdist", "run", str(ROOT / "examples" / "digits_ps.py"), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    accuracy = float(done.stdout.split("test accuracy")[1].split()[0])
    assert accuracy >= 0.93
    retried = int(done.stdout.split("closures retried")[1].split()[0])
    assert retried == (0 if options else 1)
    assert json.loads((tmp_path / "demo" / "trace.json").read_text())
    assert "http" not in (tmp_path / "demo" / "report.html").read_text().split("<body", 1)[0]


@pytest.mark.parametrize(
    "words", ["--time-limit -1", "--time-limit 0", "--timing-only 7", "--timing-only nan", "--first -5", "--shrink -1", "--scenarios 0"]
)
def test_chaos_checks_its_numbers(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["chaos", *words.split()])
    assert ended.value.code == 2 and "number from" in capsys.readouterr().err
