"""The stage runner behind `make test`: every stage runs, one failure fails the whole, a skip gives its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from each_widget import EACH_WIDGET

CI = Path(__file__).resolve().parents[1] / ".ci"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(CI))
    import stages  # pyright: ignore[reportMissingImports]

    return stages


def python(stages: Any, name: str, code: str) -> Any:
    return stages.Stage(name, lambda: [stages.Command([sys.executable, "-c", code])])


def run_all(stages: Any, monkeypatch: pytest.MonkeyPatch, listed: list[Any]) -> int:
    monkeypatch.setattr(stages, "STATIC", listed)
    monkeypatch.setattr(stages, "RULES", [])
    monkeypatch.chdir(CI.parent)
    return stages.main(["check"])


def test_all_stages_run_although_the_first_fails(stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    listed = [python(stages, "first", "raise SystemExit(3)"), python(stages, "second", "print('here')")]
    assert run_all(stages, monkeypatch, listed) == 1
    shown = capfd.readouterr().out
    assert "here" in shown
    summary = shown.split("==> summary")[1].splitlines()
    assert [line.split()[:2] for line in summary[1:]] == [["first", "failed"], ["second", "passed"], ["all", "failed"]]
    assert "exit status 3" in summary[1]


def test_stages_of_a_wave_run_side_by_side_and_print_apart(
    stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # A pipe opens when it has a reader and a writer: one stage after the other would never end.
    os.mkfifo(tmp_path / "pipe")
    code = "import sys; print('begins', flush=True); open('pipe', sys.argv[1]).close(); print('ends')"
    names = {"left": "w", "right": "r"}
    listed = [
        stages.Stage(name, lambda mode=mode: [stages.Command([sys.executable, "-c", code, mode], tmp_path)]) for name, mode in names.items()
    ]
    assert run_all(stages, monkeypatch, listed) == 0
    shown = capfd.readouterr().out
    for name in names:
        assert f"==> {name}\nbegins\nends\n==> {name}: passed" in shown


def test_front_end_is_built_before_what_loads_it_and_the_tests_have_both_cores(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waves: list[list[str]] = []
    monkeypatch.setattr(stages, "run_wave", lambda wave: waves.append([stage.name for stage in wave]) or [])
    monkeypatch.chdir(CI.parent)
    stages.main(["test"])
    assert [next(number for number, wave in enumerate(waves) if name in wave) for name in ("front end", "browser")] == [0, 1]
    assert {stage.name for stage in stages.STATIC} < {*waves[0], *waves[1]}
    assert waves[2:] == [["tests of training"], ["tests of bits"], ["tests"]]


@pytest.mark.parametrize(
    ("names", "chromium", "apart"),
    [
        ([], "/usr/bin/chromium", True),
        (["notebooks", "lessons in a browser"], "/usr/bin/chromium", True),
        (["notebooks"], "/usr/bin/chromium", False),
        ([], None, False),
    ],
)
def test_nbval_leaves_out_only_lessons_that_the_browser_compares(
    stages: Any, monkeypatch: pytest.MonkeyPatch, names: list[str], chromium: str | None, apart: bool
) -> None:
    monkeypatch.setattr(stages.shutil, "which", lambda name: chromium)
    (command,) = stages.lesson_stages(names)[0].commands()
    globs = [word.removeprefix("--ignore-glob=") for word in command.line if word.startswith("--ignore-glob=")]
    left_out = {path.name.partition("_")[0] for glob in globs for path in CI.parent.glob(glob)}
    assert left_out == (set(EACH_WIDGET) if apart else set())
    assert [len(list(CI.parent.glob(glob))) for glob in globs] == [1] * len(globs)


def test_folders_of_the_groups_are_there_and_no_test_is_left_out(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "quick_compilation", dict)  # which asks a process of its own
    groups = [path for paths in stages.GROUPS.values() for path in paths]
    assert all((CI.parent / path).exists() for path in groups) and len(set(groups)) == len(groups)
    (rest,) = stages.python_tests()
    assert [word.removeprefix("--ignore=") for word in rest.line if word.startswith("--ignore=")] == ["tests/browser", *groups]


def test_a_file_of_another_group_is_left_out_of_its_folder(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "quick_compilation", dict)
    (training,), (bits,) = stages.python_tests("tests of training"), stages.python_tests("tests of bits")
    assert [word for word in training.line if word.startswith("--ignore=")] == ["--ignore=tests/training/test_copies.py"]
    assert "tests/training/test_copies.py" in bits.line
    without_bits = {word.removeprefix("--ignore=") for word in bits.line if word.startswith("--ignore=")}
    assert without_bits == {
        word for word in training.line if word.startswith(("tests/properties/", "tests/program/", "tests/collectives/"))
    }
    assert "tests/program/test_dot_algorithms.py" in without_bits


def test_files_that_are_compiled_quickly_for_all_that_their_folder_is_not_compare_no_bits(stages: Any) -> None:
    with_bits = [path for path in stages.GROUPS["tests of bits"] if not path.endswith(".py")]
    moved = [path for path in stages.GROUPS["tests of training"] if any(path.startswith(f"{folder}/") for folder in with_bits)]
    assert moved and not any("tobytes" in (CI.parent / path).read_text() for path in moved)


LEVEL = "--xla_backend_optimization_level=1"


@pytest.mark.parametrize(
    ("options", "quickly"),
    [(LEVEL, LEVEL), ("--no_such_option=1", None), (f"--no_such_option=1 {LEVEL} --xla_none=2", LEVEL), (f"{LEVEL}x", None)],
)
@pytest.mark.sample(2)
def test_only_tests_of_bits_are_compiled_as_for_users(
    stages: Any, monkeypatch: pytest.MonkeyPatch, options: str, quickly: str | None
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setattr(stages, "QUICKLY_COMPILED", options)
    stages.quick_compilation.cache_clear()
    flags = {name: stages.python_tests(name)[0].env.get("XLA_FLAGS") for name in ("tests of training", "tests of bits", None)}
    stages.quick_compilation.cache_clear()
    assert flags == {"tests of training": quickly, "tests of bits": None, None: quickly}


ADAM = """
import jax, jax.numpy as jnp, numpy as np
a, b = np.random.default_rng(0).normal(size=(2, 9, 8, 8)).astype("float32")
adam = lambda a, b: a - 0.1 * (0.9 * b + 0.1 * a) / (jnp.sqrt(0.999 * b * b + 0.001 * a * a) + 1e-7)
alone = jnp.stack([jax.jit(adam)(*one) for one in zip(a, b)])
looped = jax.jit(lambda *all: jax.lax.scan(lambda carry, one: (carry, adam(*one)), 0, all)[1])(a, b)
print(int((alone != looped).sum()))
"""


def test_what_is_compiled_quickly_has_the_same_bits_in_a_loop(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    env = {**os.environ, **stages.quick_compilation(), "JAX_ENABLE_COMPILATION_CACHE": "0"}
    assert "XLA_FLAGS" in env
    assert subprocess.run([sys.executable, "-c", ADAM], env=env, capture_output=True, text=True, check=True).stdout == "0\n"


def test_a_user_who_has_set_flags_of_xla_has_them_everywhere(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=somewhere")
    monkeypatch.setattr(stages.subprocess, "run", lambda *_, **__: pytest.fail("it does not matter what XLA knows"))
    stages.quick_compilation.cache_clear()
    assert not any(command.env for name in [*stages.GROUPS, None] for command in stages.python_tests(name))
    stages.quick_compilation.cache_clear()


def test_processes_share_bytecode_where_none_may_be_beside_sources(
    stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text("a = 1")
    code = "import module, pathlib; print('kept', pathlib.Path(module.__cached__).exists(), module.__cached__)"
    listed = [stages.Stage("importing", lambda: [stages.Command([sys.executable, "-c", code], tmp_path)] * 2)]
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    for value in ("1", ""):
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", value)
        assert run_all(stages, monkeypatch, listed) == 0
        (first, path), second = (line.split()[1:] for line in capfd.readouterr().out.splitlines() if line.startswith("kept"))
        assert first == "True" and second == [first, path]
        assert Path(path).exists() == (tmp_path / "__pycache__").exists() == (not value)
        assert os.environ["PYTHONDONTWRITEBYTECODE"] == value and "PYTHONPYCACHEPREFIX" not in os.environ


def test_temporary_files_of_stages_are_deleted_at_the_end(
    stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TMPDIR", raising=False)
    assert run_all(stages, monkeypatch, [python(stages, "leaves", "import tempfile; print('left:' + tempfile.mkdtemp())")]) == 0
    left = Path(capfd.readouterr().out.split("left:")[1].splitlines()[0])
    assert left.parent.name.startswith("simdist-tests-") and not left.parent.exists()
    assert "TMPDIR" not in os.environ


def test_a_folder_for_bytecode_of_the_users_own_stays(stages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "somewhere")
    with stages.kept_bytecode():
        assert os.environ["PYTHONDONTWRITEBYTECODE"] == "1" and os.environ["PYTHONPYCACHEPREFIX"] == "somewhere"


def test_skipped_stage_says_why_and_does_not_fail(stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_all(stages, monkeypatch, [stages.Stage("third", list, lambda: "no tool for it")]) == 0
    assert "third                skipped      0.0 s   no tool for it" in capfd.readouterr().out


@pytest.mark.parametrize("line", ["3 passed in 0.01s", "===== 1 failed, 2 passed, 1 skipped in 75.20s (0:01:15) ====="])
def test_closing_line_of_pytest_becomes_the_remark(
    stages: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    assert run_all(stages, monkeypatch, [python(stages, "fourth", f"print({line!r})")]) == 0
    assert capfd.readouterr().out.count(line.strip("= ")) == 2


def test_missing_program_fails_its_stage(stages: Any) -> None:
    outcome = stages.run(stages.Stage("fifth", lambda: [stages.Command(["no-such-program"])]))
    assert (outcome.result, outcome.remark) == ("failed", "no-such-program: No such file or directory")


def test_bundle_that_a_build_changes_fails_the_stage(stages: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(stages, "BUNDLE", tmp_path)
    (tmp_path / "widget.js").write_text("old")
    code = f"open({str(tmp_path / 'widget.js')!r}, 'w').write('new')"
    outcome = stages.run(stages.Stage("front end", python(stages, "build", code).commands))
    assert outcome.result == "failed"
    assert "widget.js" in outcome.remark
