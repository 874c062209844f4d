"""A script on every task: what it sees of itself, how mains and servers end, and what is left afterwards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from simdist.errors import DeadlineExceededError, InvalidArgumentError, NotFoundError, UnavailableError
from simdist.launcher import Outcome, Script, read_cluster_file, run_script

Runner = Callable[..., Outcome]

SERVER = """
import simdist as sd
resolver = sd.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
"""


@pytest.fixture
def play(tmp_path: Path) -> Runner:
    """Runs the text of a script on the cluster of a text."""

    def run(source: str, cluster: str = "[jobs]\nworker = 2\n", *arguments: str, seed: int | None = None) -> Outcome:
        script, file = tmp_path / "script.py", tmp_path / "cluster.toml"
        script.write_text(source)
        file.write_text(cluster)
        return run_script(Script(script, arguments), read_cluster_file(file), seed)

    return run


def test_script_is_the_main_of_each_task(play: Runner, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = """
import json, os, sys
count = 0
if __name__ == "__main__":
    count += 1
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    print(task["type"], task["index"], sys.argv[1:], count, __file__ == sys.argv[0], sys.modules["__main__"].count)
"""
    outcome = play(source, "[jobs]\nworker = 2\nps = 1\n", "--epochs", "3")
    assert (outcome.status, outcome.failures, outcome.ended_s) == (0, {}, 0.0)
    assert capsys.readouterr().out.splitlines() == [
        "[worker:0] worker 0 ['--epochs', '3'] 1 True 1",
        "[worker:1] worker 1 ['--epochs', '3'] 1 True 1",
        "[ps:0] ps 0 ['--epochs', '3'] 1 True 1",
    ]


def test_tasks_that_take_turns_keep_their_module_and_arguments(play: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
import pickle, sys
from dataclasses import dataclass
import simdist as sd
me = sd.TFConfigClusterResolver().task_id
sys.argv.append(str(me))
for _ in range(3):
    sd.sleep(1.0)
    assert sys.modules["__main__"].me == me and sys.argv[1:] == [str(me)]

@dataclass
class Kept:
    number: "int"

assert pickle.loads(pickle.dumps(Kept(me))) == Kept(me)
print("kept", sys.argv[1:])
"""
    assert play(source).status == 0
    assert capsys.readouterr().out.splitlines() == ["[worker:0] kept ['0']", "[worker:1] kept ['1']"]


def test_process_is_as_before_afterwards(play: Runner) -> None:
    before = sys.modules["__main__"], sys.argv, list(sys.path), os.environ.get("TF_CONFIG")
    play("import sys; sys.argv = ['other']; del sys.modules['__main__']")
    assert (sys.modules["__main__"], sys.argv, sys.path, os.environ.get("TF_CONFIG")) == before
    play("raise KeyError('x')")
    assert (sys.modules["__main__"], sys.argv, sys.path, os.environ.get("TF_CONFIG")) == before


def test_script_finds_modules_beside_it(play: Runner, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "module_beside_the_script.py").write_text("ANSWER = 42\n")
    try:
        assert play("from module_beside_the_script import ANSWER; print(ANSWER)").status == 0
    finally:
        sys.modules.pop("module_beside_the_script", None)
    assert capsys.readouterr().out.splitlines() == ["[worker:0] 42", "[worker:1] 42"]


def test_servers_end_with_the_chief(play: Runner) -> None:
    outcome = play(SERVER + "sd.sleep(3.0)\n", "[jobs]\nchief = 1\nworker = 2\nps = 1\n")
    assert (outcome.status, outcome.ended_s) == (0, 3.0)


def test_servers_alone_are_an_error_that_names_them(play: Runner) -> None:
    outcome = play(SERVER)
    assert (outcome.status, outcome.ended_s) == (1, None)
    assert isinstance(outcome.error, DeadlineExceededError)
    assert "worker:0, worker:1 wait in Server.join()" in str(outcome.error)


def test_error_of_a_main_is_shown_with_its_task_and_the_lines_of_the_script(play: Runner) -> None:
    outcome = play("import simdist as sd\nif sd.TFConfigClusterResolver().task_id == 1:\n    raise KeyError('mine')\nsd.sleep(9.0)\n")
    lines = outcome.errors()
    assert (outcome.status, list(outcome.failures)) == (1, ["worker:1"])
    assert lines[0] == "[worker:1] Traceback (most recent call last):"
    assert "script.py" in lines[1] and "line 3" in lines[1]
    assert lines[-1] == "[worker:1] KeyError: 'mine'"
    assert not any("launcher" in line for line in lines)


@pytest.mark.parametrize(("status", "expected"), [("", 0), ("0", 0), ("3", 1), ("'stop'", 1)])
def test_exit_of_a_script_is_success_or_failure(play: Runner, status: str, expected: int) -> None:
    outcome = play(f"import sys\nsys.exit({status})\n")
    assert (outcome.status, bool(outcome.errors())) == (expected, bool(expected))


CRASH = "[jobs]\nworker = 2\n[[faults]]\nkind = 'crash'\ntask = 'worker:1'\nat = 1.0\nrestart_after = 0.5\n"


def test_crash_without_restart_is_a_failure(play: Runner) -> None:
    outcome = play("import simdist as sd\nsd.sleep(2.0)\n", CRASH)
    assert outcome.status == 1 and isinstance(outcome.error, UnavailableError)
    assert outcome.errors()[-1].startswith("UnavailableError: worker:1 crashed")


def test_crash_with_restart_runs_the_script_again(play: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = play("import simdist as sd\nprint('begins')\nsd.sleep(2.0)\n", "restart = 'always'\n" + CRASH)
    assert (outcome.status, outcome.ended_s) == (0, 3.5)
    assert capsys.readouterr().out.splitlines() == ["[worker:0] begins", "[worker:1] begins", "[worker:1] begins"]
    assert "restarts of mains  worker:1 1" in outcome.lines


def test_error_that_was_followed_by_a_restart_is_no_failure(play: Runner) -> None:
    source = """
import os, pathlib, sys
mark = pathlib.Path(__file__).with_name("mark")
if not mark.exists():
    mark.touch()
    sys.exit(3)
"""
    outcome = play(source, "restart = 'always'\n[jobs]\nworker = 1\n")
    assert (outcome.status, outcome.errors(), outcome.ended_s) == (0, [], 1.0)


EVALUATOR = """
import simdist as sd
if sd.TFConfigClusterResolver().task_type == "evaluator":
    for second in range({seconds}):
        sd.sleep(1.0)
    print("evaluated")
    {last}
else:
    sd.sleep(2.5)
"""
WITH_EVALUATOR = "evaluator_grace = 10\n[jobs]\nworker = 1\nevaluator = 1\n"


@pytest.mark.parametrize(("seconds", "ends_s"), [(1, 2.5), (5, 5.0), (1000, 12.5)])
def test_evaluator_may_go_on_for_its_grace(play: Runner, capsys: pytest.CaptureFixture[str], seconds: int, ends_s: float) -> None:
    outcome = play(EVALUATOR.format(seconds=seconds, last=""), WITH_EVALUATOR)
    assert (outcome.status, outcome.ended_s, outcome.cluster.now) == (0, 2.5, ends_s)
    assert ("evaluated" in capsys.readouterr().out) == (seconds < 1000)


def test_error_of_an_evaluator_does_not_stop_the_others_but_the_run_has_failed(play: Runner) -> None:
    outcome = play(EVALUATOR.format(seconds=1, last="raise KeyError('e')"), WITH_EVALUATOR)
    assert (outcome.status, outcome.ended_s, list(outcome.failures)) == (1, 2.5, ["evaluator:0"])


def test_evaluator_that_exits_with_success_ends_the_grace(play: Runner) -> None:
    outcome = play(EVALUATOR.format(seconds=5, last="raise SystemExit(0)"), WITH_EVALUATOR)
    assert (outcome.status, outcome.cluster.now) == (0, 5.0)


def test_crashed_evaluator_starts_again_within_its_grace(play: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    faults = "[[faults]]\nkind = 'crash'\ntask = 'evaluator'\nat = 3.0\nrestart_after = 1.0\n"
    outcome = play(EVALUATOR.format(seconds=5, last=""), "restart = 'always'\n" + WITH_EVALUATOR + faults)
    assert (outcome.status, outcome.cluster.now, outcome.errors()) == (0, 9.0, [])
    assert capsys.readouterr().out == "[evaluator:0] evaluated\n"


def test_evaluator_that_looks_for_ever_does_not_hide_that_the_others_are_stuck(play: Runner) -> None:
    outcome = play(EVALUATOR.format(seconds=10**9, last=""), WITH_EVALUATOR + "[[faults]]\nkind = 'crash'\ntask = 'worker:0'\nat = 1.0\n")
    assert (outcome.status, type(outcome.error)) == (1, UnavailableError)


def test_evaluator_alone_is_waited_for(play: Runner) -> None:
    outcome = play(EVALUATOR.format(seconds=700, last=""), "[jobs]\nevaluator = 1\n")
    assert (outcome.status, outcome.ended_s) == (0, 700.0)


def test_time_limit_stops_a_run_that_has_no_end(play: Runner) -> None:
    outcome = play("import simdist as sd\nwhile True:\n    sd.sleep(1.0)\n", "time_limit = 7.5\n[jobs]\nworker = 1\n")
    assert (outcome.status, outcome.cluster.now) == (1, 7.5)
    assert outcome.errors() == ["DeadlineExceededError: The run was stopped after 7.5 virtual seconds, the time_limit of the file."]


def test_time_limit_does_not_count_the_grace_of_the_evaluator(play: Runner) -> None:
    outcome = play(EVALUATOR.format(seconds=100, last=""), "time_limit = 5\n" + WITH_EVALUATOR)
    assert (outcome.status, outcome.cluster.now) == (0, 12.5)


def test_same_seed_gives_the_same_lines(play: Runner) -> None:
    source = (
        SERVER
        + """
strategy = sd.ParameterServerStrategy(resolver)
with strategy.scope():
    total = sd.Variable([0.0])
coordinator = sd.ClusterCoordinator(strategy)
for _ in range(9):
    coordinator.schedule(sd.function(lambda: total.assign_add([1.0])))
coordinator.join()
assert float(total.numpy()[0]) >= 9.0
"""
    )
    cluster = """
hardware = { worker = { jitter = { is = "TwoPoint", low = 1.0, high = 5.0, probability = 0.5 } } }
[jobs]
chief = 1
worker = 2
ps = 1
[[faults]]
kind = "crash"
task = "worker:0"
after_steps = 2
restart_after = 0.001
"""
    first, second, other = play(source, cluster), play(source, cluster), play(source, cluster, seed=5)
    assert first.status == second.status == other.status == 0, first.errors()
    assert first.lines == second.lines != other.lines
    assert "restarts of tasks  worker:0 1" in first.lines
    assert "seed               5" in other.lines


def test_fault_that_never_fired_is_in_the_table_and_no_warning(play: Runner) -> None:
    outcome = play("pass", CRASH)
    assert any("crash('worker:1')" in line and " never " in line for line in outcome.lines)


def test_trace_and_summary_are_written_also_of_a_run_that_failed(play: Runner, tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    text = f"[jobs]\nworker = 1\n[output]\ntrace = '{out / 'trace.json'}'\nsummary = '{out / 'summary.txt'}'\n"
    outcome = play("raise KeyError('x')", text)
    assert outcome.status == 1
    assert json.loads((out / "trace.json").read_text())["traceEvents"]
    assert (out / "summary.txt").read_text().startswith("result             failed\n")
    assert [line for line in outcome.lines if line.startswith("wrote")] == [
        f"wrote {out / 'trace.json'} (open it at https://ui.perfetto.dev)",
        f"wrote {out / 'summary.txt'}",
    ]


def test_file_that_cannot_be_written_is_a_failure_that_names_it(play: Runner, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = play("pass", f"[jobs]\nworker = 1\n[output]\ntrace = '{tmp_path / 'file' / 'trace.json'}'\n")
    assert outcome.status == 1
    assert outcome.errors()[0].startswith(f"{tmp_path / 'file' / 'trace.json'} was not written: ")


@pytest.mark.parametrize("wrong", ["trace", "summary"])
def test_a_file_that_cannot_be_written_hides_nothing_else(play: Runner, tmp_path: Path, wrong: str) -> None:
    paths = {"trace": tmp_path / "a.json", "summary": tmp_path / "b.txt"}
    paths[wrong].mkdir()
    outcome = play("raise KeyError('boom')", f"[jobs]\nworker = 1\n[output]\ntrace = '{paths['trace']}'\nsummary = '{paths['summary']}'\n")
    errors = "\n".join(outcome.errors())
    assert outcome.status == 1 and "boom" in errors and f"{paths[wrong]} was not written" in errors
    assert len([line for line in outcome.lines if line.startswith("wrote")]) == 1


def test_one_path_for_trace_and_summary_is_refused(play: Runner, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    with pytest.raises(InvalidArgumentError, match="another path than that of the trace"):
        play("pass", f"[jobs]\nworker = 1\n[output]\ntrace = '{path}'\nsummary = '{path}'\n")


def test_script_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="There is no program"):
        Script(tmp_path / "no.py")
    with pytest.raises(NotFoundError, match=r"is a folder\. Give the path"):
        Script(tmp_path)
    (tmp_path / "wrong.py").write_text("x = = 1\n")
    with pytest.raises(InvalidArgumentError, match=r"wrong\.py is not Python: .*line 1"):
        Script(tmp_path / "wrong.py")


def test_closures_of_a_script_draw_from_its_generators_and_see_its_module(play: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
import random, sys
import numpy as np
import simdist as sd
resolver = sd.TFConfigClusterResolver()
if resolver.task_type != "chief":
    sd.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
me = "the script"
coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(resolver))
drawn = [coordinator.schedule(lambda: (random.random(), np.random.rand(), sys.argv[1:], sys.modules["__main__"].me)) for _ in range(3)]
print(coordinator.fetch(drawn))
"""
    lines: list[list[str]] = []
    for _ in range(2):
        assert play(source, "[jobs]\nchief = 1\nworker = 2\nps = 1\n", "--fast").status == 0
        lines.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("[chief:0]")])
    assert lines[0] == lines[1] and lines[0][0].count("['--fast'], 'the script'") == 3


def test_script_that_refuses_its_arguments_is_not_started_again(play: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    source = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--steps')\nparser.parse_args()\n"
    outcome = play(source, 'restart = "always"\n[jobs]\nworker = 2\n', "--step size", "3")
    assert outcome.status == 1 and outcome.cluster.now == 0.0
    assert capsys.readouterr().err.count("unrecognized arguments: --step size 3") == 1
    assert outcome.errors()[-1].endswith("script.py refuses its arguments: '--step size' 3. What it says about them stands above.")
