"""Every benchmark runs, in its small form; where TensorFlow is (TF_PYTHON names a Python that has it), its side runs too."""

from __future__ import annotations

import ast
import gc
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import jax
import numpy as np
import pytest

from sampling import sampled

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
TF_PYTHON = os.environ.get("TF_PYTHON", sys.executable)
has_tensorflow = (
    subprocess.run([TF_PYTHON, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('tensorflow'))"]).returncode == 0
)
needs_tensorflow = pytest.mark.skipif(not has_tensorflow, reason="no TensorFlow here; TF_PYTHON can name a Python that has it")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads a benchmark by its name, as a module of its own."""
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name.replace("/", "_"), FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def numbers_of_last_line(shown: str) -> list[float]:
    """The numbers that stand alone: not those in brackets, with a unit ("3s") or in a name."""
    line = re.sub(r"\([^)]*\)", "", shown.splitlines()[-1])
    return [float(number.replace(",", "")) for number in re.findall(r"(?<!\S)\d[\d,]*(?:\.\d+)?(?!\S)", line)]


def test_numbers_of_a_table_stand_alone() -> None:
    assert numbers_of_last_line("1 2\ntutorial, 8 x 16 (TensorFlow: 139)   1,234  0.52 3s 4%") == [8, 16, 1234, 0.52]


@pytest.mark.parametrize("name", sampled(["kernel", "network", "trace_cost", "walks"], ["kernel", "network", "trace_cost"]))
def test_benchmark_of_the_engine_prints_its_table(name: str, load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert gc.get_freeze_count() > 0, "tests/conftest.py freezes what there was: benchmarks collect garbage before they measure"
    load(name).main(["--quick"])
    assert max(numbers_of_last_line(capsys.readouterr().out)) > 0


@pytest.mark.exhaustive
def test_benchmark_of_rewinding_runs_a_lesson_twice_and_rewinds_its_session(
    load: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMDIST_LESSONS_AUTOMATIC", "1")
    load("rewinding").main(["01_dead_worker"])
    header, line = capsys.readouterr().out.splitlines()
    assert header.startswith("lesson") and line.startswith("01_dead_worker")
    assert len([word for word in line.split() if word == "s"]) == 4, "first, again, one run, and a rewind of its session"


@pytest.mark.exhaustive
def test_benchmark_of_memory_keeps_no_cluster(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert load("memory").main(["--quick"]) == 0
    *lines, ratio = capsys.readouterr().out.splitlines()
    # Other tests of this process may still hold clusters; the models of the benchmark must add none.
    kept = [int(line.split()[-2]) for line in lines]
    assert len(kept) == 5 and max(kept) == kept[0]
    assert float(ratio.split()[-1]) > 0


TABLES = [("async_workers", 4), ("growth", 2), ("saving", 2), ("synchronous", 2), ("embedding", 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lines"), sampled(TABLES, TABLES[:2]))
def test_benchmark_of_training_prints_its_table(name: str, lines: int, load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(["--quick"])
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) == lines
    assert all(number > 0 for number in numbers_of_last_line(shown))


@pytest.mark.slow
def test_benchmark_of_accelerators_has_a_line_for_each_plan_and_says_what_the_goal_is_for(
    load: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    load("accelerator").main(["--quick"])
    first, _, *plans, last = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{len(jax.local_devices())} x ") and "8 workers" in first
    assert [line.split()[0] for line in plans[:3]] == ["bare", "numerics='vmap'", "numerics='loop'"]
    assert ("for accelerators" in last) == (jax.default_backend() == "cpu")


def test_every_benchmark_is_tried_here() -> None:
    tried = Path(__file__).read_text(encoding="utf-8")
    names = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.py") if not path.name.startswith("_")]
    assert [name for name in names if f'"{name}"' not in tried] == []


# -- flows in SimGrid ---------------------------------------------------------------------------------------------------------------


def test_flow_sets_are_exported_with_the_ends_of_our_model(load: Any, tmp_path: Path) -> None:
    module = load("simgrid_flows")
    assert module.main(["--quick", "--export", str(tmp_path / "flows.json")]) == 0
    sets = json.loads((tmp_path / "flows.json").read_text())
    assert len(sets) == 5
    for flow_set in sets:
        for flow, end_s in zip(flow_set["flows"], flow_set["ends_s"], strict=True):
            links = [flow_set["links"][number] for number in flow["links"]]
            alone_s = flow["bytes"] / min(link["bandwidth"] for link in links) + sum(link["latency"] for link in links)
            assert end_s >= flow["start_s"] + alone_s - 1e-9


def test_two_flows_on_one_link_end_where_pencil_and_paper_put_them(load: Any) -> None:
    links = [{"bandwidth": 1e6, "latency": 0.5}]
    flows = [{"links": [0], "bytes": 1_000_000, "start_s": 0.0}, {"links": [0], "bytes": 1_000_000, "start_s": 0.5}]
    assert load("simgrid_flows").our_ends({"links": links, "flows": flows}) == pytest.approx([2.0, 2.5])


def test_links_that_simgrid_is_given_have_no_latency_of_their_own(load: Any) -> None:
    module = load("simgrid_flows")
    flow_set = {"links": [{"bandwidth": 1e6, "latency": 0.001}], "flows": [{"links": [0], "bytes": 5, "start_s": 2.0}]}
    assert 'latency="0s"' in module.platform(flow_set) and "0.001" not in module.platform(flow_set)
    assert module.first_byte_s(flow_set, flow_set["flows"][0]) == 2.001


def test_comparison_without_simgrid_says_what_to_install(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if importlib.util.find_spec("simgrid"):
        pytest.skip("SimGrid is here")
    assert load("simgrid_flows").main(["--quick"]) == 2
    assert "apt install python3-simgrid" in capsys.readouterr().err


# -- walks ---------------------------------------------------------------------------------------------------------------------------


def test_walks_through_our_functions_are_counted_alike_in_every_run(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module, shown = load("walks"), list[dict[str, Any]]()
    for _ in range(2):
        assert module.main(["servers", "mirrored", "crash", "--quick", "--json"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1] and set(shown[0]) == {"servers", "mirrored", "crash"}
    for counts in shown[0].values():
        assert sum(counts["functions"].values()) == pytest.approx(counts["calls"])
        assert counts["files"] == len({name.split(":")[0] for name in counts["functions"]})


def test_walk_of_a_crash_leads_from_the_crash_to_its_retry(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module = load("walks")
    walk = module.crash("off", 1)
    recorded = [number for number, stack in enumerate(walk.calls) if stack[0].function.endswith(".instant")]
    rest = walk.calls[recorded[-1] :]
    assert all(any(place.function.endswith(".instant") for place in stack) for stack in rest), "recording the retry ends it"
    assert len(recorded) == 3, "crash, detection, retry"
    assert walk.calls[0][0] in walk.calls[recorded[0]], "the first call leads to the crash"
    lines = module.tree(walk)
    assert sum(line == "...." for line in lines) == len([a for a, b in pairwise(walk.fibers) if a != b])


@pytest.mark.parametrize(
    ("files", "comes_back"),
    [
        (["a/x.py", "b/y.py", "a/z.py"], True),
        (["a/x.py", "b/y.py", "b/w.py", "a/z.py"], True),
        (["a/x.py", "b/y.py", "c/z.py"], False),
        (["a/x.py", "b/y.py", "a/z.py", "a/z.py"], False),
        (["a/x.py", "a/y.py"], False),
        (["errors.py", "a/x.py", "arguments.py"], True),
    ],
)
def test_call_comes_back_when_it_enters_the_package_that_its_caller_was_called_from(files: list[str], comes_back: bool, load: Any) -> None:
    module = load("walks")
    outermost_first = [module.Place(file, "f") for file in files]
    assert module.comes_back(tuple(reversed(outermost_first))) is comes_back


# -- against another revision --------------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two commits; the first is tagged "old"."""
    try:
        subprocess.run(["git", "init", "-q", tmp_path], check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        pytest.skip("no git here")
    for number, tag in enumerate(["old", "new"]):
        (tmp_path / "file").write_text(str(number))
        identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        for words in (["add", "file"], [*identity, "commit", "-q", "-m", tag], ["tag", tag]):
            subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return tmp_path


def worktrees(repository: Path) -> int:
    listed = subprocess.run(["git", "-C", repository, "worktree", "list"], check=True, capture_output=True, text=True)
    return len(listed.stdout.splitlines())


def told_to_end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("end", "expected"), [(lambda: None, None), (lambda: 1 / 0, ZeroDivisionError), (told_to_end, SystemExit)])
def test_checkout_of_the_base_is_removed_whatever_happens(
    end: Any, expected: Any, repository: Path, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, before = load("_against_base"), signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(module, "HEAD", repository)
    seen = list[Any]()
    with pytest.raises(expected) if expected else nullcontext(), module.checked_out("old") as tree:
        seen += [tree, (tree / "file").read_text(), worktrees(repository)]
        end()
    assert seen[1:] == ["0", 2]
    assert not seen[0].parent.exists() and worktrees(repository) == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_base_that_is_no_revision_is_refused(
    repository: Path, load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load("_against_base")
    monkeypatch.setattr(module, "HEAD", repository)
    assert module.main(["nowhere", "network"]) == 2
    assert "Cannot compare with nowhere: git rev-parse" in capsys.readouterr().err


def compare(module: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds: dict[str, list[float]], rounds: int = 2) -> tuple[int, list[str]]:
    """Compare a line with given seconds of its processes (none: it cannot run), and a second one that always takes one.

    Returns:
        The status, and which trees ran the first line, in which order.
    """
    ran = list[str]()

    def in_a_process(tree: Path, cache: Path, name: str, steps: int) -> float:
        if name == "first-step":
            return 1.0
        ran.append(tree.name)
        if not seconds[tree.name]:
            raise module.CannotRun("ImportError: no such name")
        return seconds[tree.name].pop(0)

    monkeypatch.setattr(module, "HEAD", Path("head"))
    monkeypatch.setattr(module, "in_a_process", in_a_process)
    chosen = {name: module.lines()[name] for name in ("network", "first-step")}
    return module.compare(Path("base"), Path("cache"), chosen, rounds, quick=True), ran


@pytest.mark.parametrize(
    ("head", "status", "ratio"), [([0.1, 1.0, 4.0], 0, "2.00"), ([9.0, 2.09, 3.0], 0, "0.96"), ([9.0, 2.2, 2.3], 1, "0.91")]
)
def test_base_and_head_take_turns_and_their_least_seconds_after_the_first_round_count(
    head: list[float], status: int, ratio: str, load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, ran = compare(load("_against_base"), monkeypatch, {"base": [1.0, 2.0, 5.0], "head": head})
    assert ran == ["base", "head"] * 3
    shown = capsys.readouterr().out.splitlines()
    base_s, head_s, shown_ratio = shown[1].removesuffix("   slower").split()[-3:]
    assert shown_ratio == ratio and ("slower" in shown[1]) == bool(status)
    assert shown[-1].split() == ["geometric", "mean", f"{(float(base_s) / float(head_s)) ** 0.5:.2f}"]
    assert found == status


@pytest.mark.parametrize(("head", "status", "said"), [([1.0, 1.0, 1.0], 0, "skipped: the base"), ([], 1, "failed: the head")])
def test_line_that_a_tree_cannot_run_is_left_out_and_said(
    head: list[float], status: int, said: str, load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = compare(load("_against_base"), monkeypatch, {"base": [], "head": head})
    assert f"{said} cannot run it (ImportError: no such name)" in capsys.readouterr().out
    assert found == status


def test_lines_are_chosen_by_their_names_or_first_letters(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, chosen = load("_against_base"), list[list[str]]()
    monkeypatch.setattr(module, "checked_out", lambda revision: nullcontext(Path(revision)))
    monkeypatch.setattr(module, "compare", lambda base, cache, lines, rounds, quick: chosen.append(list(lines)) or 0)
    for names in (["async-100"], ["async-n", "fit"], []):
        assert module.main(["old", *names]) == 0
    assert chosen[:2] == [["async-100"], ["async-numbers-3", "async-numbers-100", "fit"]]
    assert chosen[2] == list(module.lines())
    with pytest.raises(SystemExit):
        module.main(["old", "nothing"])


LINES = ["async-3", "mirrored-2", "mirrored-numbers-2", "network", "fit", "notebook-8", "mains-4", "first-step"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(LINES, LINES[2:4]))
def test_line_runs_here(name: str, load: Any) -> None:
    found = load("_workloads").measured(name, 60)
    assert found["cpu_s"] > 0 and found["package"] == str(FOLDER.parent / "simdist")


@pytest.mark.exhaustive
def test_line_runs_on_what_was_checked_out_and_not_on_this_tree(load: Any, tmp_path: Path) -> None:
    module = load("_against_base")
    try:
        module.git("rev-parse", "--verify", "HEAD")
    except module.CannotRun as error:
        pytest.skip(str(error))
    with module.checked_out("HEAD") as base:
        assert module.in_a_process(base, tmp_path, "network", 1) > 0  # it refuses a package of another tree
        (base / "simdist" / "__init__.py").write_text("raise ImportError('broken on purpose')")
        with pytest.raises(module.CannotRun, match="ImportError: broken on purpose"):
            module.in_a_process(base, tmp_path, "network", 1)


# -- the compilation cache ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_first_fit_is_taken_in_this_process_when_asked(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert load("first_fit").main(["--quick", "--here"]) == 0
    seconds, digest = capsys.readouterr().out.split()
    assert float(seconds) > 0 and len(digest) == 16


@pytest.mark.parametrize(("digests", "status"), [("aaa", 0), ("aab", 1)])
def test_first_fits_with_other_digests_fail(
    digests: str, status: int, load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, folders = load("first_fit"), list[Path | None]()
    monkeypatch.setattr(module, "in_a_process", lambda folder, *_: (folders.append(folder) or 1.0, digests[len(folders) - 1]))
    assert module.main(["--quick"]) == status
    assert folders[0] is None and folders[1] == folders[2] is not None
    assert "with the filled cache" in capsys.readouterr().out


# -- TensorFlow's side --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bench_tf/mirrored_tf", "bench_tf/async_linear_tf", "bench_tf/embedding_tf"])
def test_script_of_tensorflow_compiles(name: str) -> None:
    assert ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")).body


@pytest.mark.parametrize("command", [["speed", 2, "1"], ["uneven", 2, "[0.0, 1.0]"]])
def test_devices_are_made_before_anything_else_of_tensorflow(command: list[Any], load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorflow = MagicMock()
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    for name in ("TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES", "KERAS_BACKEND"):
        monkeypatch.setenv(name, "set by the script, put back after the test")
    module = load("bench_tf/mirrored_tf")
    tensorflow.keras.Sequential.return_value.get_weights.return_value = [np.zeros(1)]
    module.main(*command)
    names = [name for name, _, _ in tensorflow.mock_calls if "()" not in name]
    devices = names.index("config.set_logical_device_configuration")
    assert all(name.startswith("config.") for name in names[:devices])
    assert any(name.startswith("data.Dataset") for name in names[devices:])


def test_the_tutorial_is_compared_where_tensorflow_is(
    load: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, asked = load("embedding"), list[Any]()
    monkeypatch.setattr(module, "tensorflow_side", lambda *given: asked.append(given) or {"rate": 50.0 * given[-1]})
    module.table(lambda *case: {"rate": 100.0, "peak_gb": 0.5}, 10, 2, 2, 200, "python")
    assert asked == [("python", "embedding_tf.py", 20, pack) for pack in (1, 10)]
    last_two = capsys.readouterr().out.splitlines()[-2:]
    assert [line.split()[-2:] for line in last_two] == [["50", "2.00"], ["500", "0.20"]]


def test_losses_do_not_depend_on_the_number_of_replicas(load: Any) -> None:
    module = load("parity_mirrored")
    given = module.arrays(2)
    one, two = (np.array(module.losses(given, "linear", "SGD", replicas)) for replicas in (1, 2))
    assert one.shape == (2,) and np.allclose(one, two, rtol=module.TOLERANCE)


@needs_tensorflow
@pytest.mark.slow
def test_losses_are_those_of_tensorflow(load: Any) -> None:
    assert load("parity_mirrored").main(["--quick", "--tf-python", TF_PYTHON]) == 0


@needs_tensorflow
@pytest.mark.slow
def test_time_of_a_step_in_tensorflow_is_measured(load: Any) -> None:
    columns = load("synchronous").tensorflow_columns(TF_PYTHON, 2, 2, 1.0)
    assert all(float(column) >= 0 for column in columns.split()) and len(columns.split()) == 4
