"""What a lesson prints stays true when a student changes a number in one cell, or runs a cell a second time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from classroom import spot
from classroom.automatic import VARIABLE
from ipywidgets import Widget

import simdist as sd

FOLDER = Path(__file__).resolve().parents[2] / "lessons"
Step = int | tuple[int, dict[str, str]]  # the number of a cell; with texts, each replaced by the other


@pytest.fixture(autouse=True)
def automatic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lessons run by themselves; their widgets end with the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "1")
    yield
    Widget.close_all()


def run(lesson: str, names: dict[str, Any], *steps: Step) -> None:
    """Run some cells of a lesson."""
    (path,) = FOLDER.glob(f"{lesson}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    for step in steps:
        number, changes = step if isinstance(step, tuple) else (step, {})
        source = cells[number].source
        for old, new in changes.items():
            assert old in source, f"cell {number} of lesson {lesson} has no {old!r}"
            source = source.replace(old, new)
        exec(compile(source, f"lesson {lesson}, cell {number}", "exec"), names)


def test_second_run_of_the_training_of_lesson_00_is_a_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    training: Step = (16, {"epochs=4": "epochs=1"})
    run("00", names, 1, (3, {'"ps": 2}, seed=0': '"ps": 3}, seed=0, numerics="off"'}), 7, 9, 13, 15, training)
    end_s = names["cluster"].now
    run("00", names, training)
    assert names["cluster"].now == end_s
    capsys.readouterr()
    run("00", names, 27, 28, 29)
    printed = capsys.readouterr().out
    assert "each of the 60 updates counts once on each of ps:0, ps:1, ps:2:" in printed
    assert sum(map(int, re.findall(r"^(\d+) updates missed", printed, re.MULTILINE))) == 3 * 60


def test_queue_of_lesson_01_decides_the_same_again(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("01", names, 1, 20, 21)
    capsys.readouterr()
    run("01", names, 24, 24)
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["reply of worker:0 for 0: ignored", "reply of worker:1 for 0: ['resolve 0', 'dispatch 1']"] * 2


def test_queue_of_lesson_01_takes_other_facts(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("01", names, 1, 20, (21, {'    ("worker_down", "worker:0"),\n': ""}))
    capsys.readouterr()
    run("01", names, 24)
    assert capsys.readouterr().out.splitlines() == ["reply of worker:0 for 0: ['resolve 0']", "reply of worker:1 for 1: ['resolve 1']"]
    more = '    ("worker_up", "worker:1"),\n    ("schedule", 2),\n'
    run("01", names, (21, {'    ("worker_up", "worker:1"),\n': more}), (21, {'("worker_up", "worker:1"),': ""}))
    revealed, nobody = capsys.readouterr().out.splitlines()[0::4]
    assert revealed.endswith("worker:1 gets: it is 0.") and nobody == "worker:1 gets no closure."


def test_lesson_02_counts_on_more_replicas_than_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    run("02", {}, 1, 3, (10, {"devices=4": "devices=12"}), 12)
    assert "mean of the replicas' largest numbers: 3.75" in capsys.readouterr().out  # 45 / 12


@pytest.mark.slow
def test_parts_of_a_step_of_lesson_02_add_up_to_it_for_any_number_of_steps() -> None:
    names: dict[str, Any] = {}
    run("02", names, 1, 3, 5, 16, (17, {"STEPS = 2": "STEPS = 3", "(1, 2, 4, 8, 16)": "(2,)"}))
    assert sum(names["parts"][2].values()) == pytest.approx(names["times"][2], rel=0.01)


def test_lesson_03a_names_the_bandwidth_and_the_bytes_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    names["WORKERS"] = 7
    run("03a", names, (1, {"BANDWIDTH = 10e9": "BANDWIDTH = 5e9"}), 5, 7, 8, 12, 13, 17, 19)
    names["network"] = sd.hardware.Network()
    assert names["label"] == "ring = recursive doubling: 440 kB"  # 8.8 x 10 us x 5 GB/s
    assert capsys.readouterr().out.count(" of 5 GB/s") == 5
    run("03a", names, (8, {"ranks, short = 8, 1e3": "ranks, short = 4, 2e3"}), (13, {'"1 kB": 1e3': '"2 kB": 2e3'}))
    printed = capsys.readouterr().out
    assert "gradients that a rank of 4 sends: 1.5\n" in printed and re.search(r"^  4 ranks: .*, 2 kB +0\.06 ms$", printed, re.MULTILINE)
    assert printed.splitlines()[-5].split() == ["microseconds", "2", "kB", "1", "MB", "100", "MB"]
    names["all_reduce_s"] = lambda network, size_bytes, name: 0.001
    run("03a", names, 21, (22, {"IN_A_RACK = 4": "IN_A_RACK = 3"}))
    assert capsys.readouterr().out.count("ms, 3 racks ") == 5


@pytest.mark.slow
def test_lesson_04_counts_the_steps_that_were_taken(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("04", names, 1, (7, {"epochs=3": "epochs=1"}), 17, 18, 38, (39, {"(7, 30, 55)": "(7, 30)", "killed_after(30)": "killed_after(7)"}))
    printed = capsys.readouterr().out
    sent = re.findall(r"RING: workers 0 to 2 send [\d.]+, ([\d.]+), [\d.]+ kB a step; 20 steps take", printed)
    assert float(sent[0]) == pytest.approx(4 / 3 * 19.24, rel=0.01)
    assert "killed after step  7: last loss" in printed
    assert "no crash, done before step 30: last loss" in printed
    run("04", names, (18, {'"worker": 3': '"worker": 1'}))
    assert "RING: workers 0 to 0 send 0.0 kB a step; 20 steps take" in capsys.readouterr().out
    run("04", names, (54, {"workers, rows = 3, 64": "workers, rows = 2, 32", "steps=4": "steps=1"}))
    assert capsys.readouterr().out.startswith("32 rows each: 2 workers are ")


def test_lesson_06_looks_at_all_servers_and_at_the_shards_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("06", names, 1, 3, 12, (13, {"make_cluster(8, 2)": "make_cluster(8, 3)"}), 15, 16, 26)
    more = {"make_cluster(4, 4)": "make_cluster(4, 8)", "shards=4": "shards=8", "2048": "1024"}
    run("06", names, (27, more))
    assert sum(names["shares_of"](names["skewed"])) == pytest.approx(100)
    assert len(names["shares_of"](names["skewed"])) == 8
    capsys.readouterr()
    run("06", names, 29)
    printed = capsys.readouterr().out
    percent = 100 * float((names["drawn"][0, 0] < 12_500).mean())
    assert f"of 1024 ids, {percent:.1f}% are rows of shard 0;" in printed
    assert "row 0 on ps:0: in 8 of 8 reads" in printed
    run("06", names, (31, {"(1, 2, 4, 8)": "(1, 2)"}))
    assert capsys.readouterr().out.count("2 servers, ") == 3 and len(names["shares"]) == 3


def test_lesson_07_says_who_died_and_which_closure_was_given_away(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("07", names, 1, 3, 15, (23, {'"worker:1", at=1.5': '"worker:1", at=3.0'}), 27)
    printed = capsys.readouterr().out
    (again,) = re.findall(r"closure (\d+) is run again", printed)
    assert f"closure {again} was computed until 9.00 s, too: worker:1" in printed
    titles: list[str] = []
    names["pages_picture"] = lambda title, pages: titles.append(title)
    run("07", names, 28, (28, {"closures=36": "closures=12"}), 34)
    assert titles == ['recovery="checkpoint": ps:1 dies at 12.2 s', 'recovery="checkpoint": nobody dies']
    assert "s in place of 12.48" in capsys.readouterr().out
    run("07", names, (34, {"range(12)": "range(6)"}))
    assert "s in place of 6.24" in capsys.readouterr().out
    del names["pages_picture"]
    run("07", names, 1, (15, {"closures=12": "closures=1"}), 17, 18)
    assert "Marks of closure 1, left and right: it is 2, 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("job", "loads"),
    [
        pytest.param({}, {"LOADS = [0.5,": "LOADS = [4.1,"}, id="a load that no float holds exactly"),
        pytest.param({"STEPS, STEP_MS = 20, 3.0": "STEPS, STEP_MS = 7, 4.0"}, {}, id="another job"),
    ],
)
@pytest.mark.sample(2)
def test_formula_of_lesson_08_fits_other_jobs(job: dict[str, str], loads: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    run("08", {}, 1, 26, (27, job), (29, loads))
    assert capsys.readouterr().out.endswith("prefetch 1 as the formula says: True\nprefetch 4 is no better       : True\n")


def test_table_of_lesson_12_counts_from_the_moment_of_the_fault(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("12", names, 1, (3, {"AT_S = 0.0099": "AT_S = 0.0150", "epochs=6": "epochs=3"}))
    names |= {"crash": {"kind": "crash", "task": "worker:1"}, "back": {"restart_after": 0.005}}
    run("12", names, (17, {"table_of(\n    {": "made = dict(\n    {"}))
    assert "crash, back after 5 ms" in names["made"]
    names["table_of"]({"crash": names["crash"]})
    assert re.search(r"^crash +0\.00005 s ", capsys.readouterr().out, re.MULTILINE)
    names["table_of"]({"a server": {"kind": "crash", "task": "ps:1"}})
    assert capsys.readouterr().out.splitlines()[-1].endswith("  failed")
    of_server = {'"duplicate"': '"crash"', '"source": "worker:1",': '"task": "ps:1",', '"target": "ps:0",': "", '"probability": 0.5,': ""}
    run("12", names, (26, of_server))
    assert capsys.readouterr().out.startswith("Session(failed at 0.015")


def test_the_rule_of_lesson_05_is_that_of_other_stragglers(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    stragglers = {"TwoPoint(1.0, 5.0, probability=0.1)": "TwoPoint(1.0, 9.0, probability=0.25)", "1600": "160"}
    run("05", names, 1, 3, 21, (22, stragglers), (26, {"(0, 1, 2, 4, 8, 16, 64)": "(0, 2)"}))
    printed = capsys.readouterr().out
    for by_the_rule, on_the_cluster in re.findall(r"^staleness \d +(\S+) +(\S+)$", printed, re.MULTILINE):
        assert float(by_the_rule) == pytest.approx(float(on_the_cluster), rel=0.05)
    assert "(rule: 1 / 3 s)" in printed and re.search(r"^no bound +0.333", printed, re.MULTILINE)


def test_one_worker_of_lesson_05_has_no_momentum(capsys: pytest.CaptureFixture[str]) -> None:
    run("05", {}, 1, 3, (12, {"(4, 8, 16)": "(1,)", "10_000": "500"}), (14, {"RATE = 0.4": "RATE = 0.2"}))
    header, row = capsys.readouterr().out.splitlines()[-2:]
    assert header.endswith(" 0.2 / M") and row.split() == ["1", "0.0000", "0.0000", "0.2000", "0.2000"]


def test_lesson_05_compares_the_bounds_that_it_has_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"RARELY_SLOW": None, "WORKERS": 2}

    def train(cluster: object, rate: float, until_s: int, staleness: int = 0, **options: Any) -> list[tuple[float, int, float]]:
        return [(0.0, 0, 2.3), (until_s, 8, (1.0 + staleness) / rate)]

    run("05", names, 1)
    names |= {"make_cluster": lambda *given, **options: None, "train": train}
    run("05", names, 30, (31, {"(0, 1, 4, 16)": "(3, 2)", "UNTIL_S = 90": "UNTIL_S = 60"}), 34)
    first, *_, second, last = capsys.readouterr().out.splitlines()
    assert names["best"] == [2] * 6
    assert second.split() == ["rate", "0.5", "8.00", "6.00", "4.00"] and last == "iterations in 60 s          8       8       4"
    assert first.startswith("Bound with the lowest loss")


def test_lesson_06_names_the_cluster_that_it_has_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("06", names, 1, (3, {"8, 1": "4, 3", "rounds=2": "rounds=3"}))
    assert capsys.readouterr().out.startswith("4 workers, 3 servers: 64.0 ms a round")
    run("06", names, (15, {"10_000": "5_000"}), (16, {"(num_rows, 16)": "(num_rows, 32)"}))
    by_hand, in_trace, whole = re.findall(r"by hand (\S+), in the trace (\S+)\nthe whole table: (\S+)", capsys.readouterr().out)[0]
    assert by_hand == in_trace and whole == "640,000"


def test_lesson_09_marks_the_crash_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    marked: list[Any] = []
    run("09", names, 1)
    monkeypatch.setitem(names, "progress_picture", lambda *given: marked.append(given[-1]))
    names |= {
        "fit": lambda save_freq=None, crash_s=None: (names["slow_cluster"](), names["StepLog"](), crash_s),
        "quiet": (0, names["StepLog"]()),
    }
    names |= {"of_fits": {5.0: "A"}, "begun": names["Prediction"]("Steps", 1)}
    run("09", names, (23, {"37.0": "5.0"}))
    assert marked == [{"worker:1 dies": 5.0}]


@pytest.mark.slow
def test_lesson_09_resumes_after_any_number_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("09", names, 1, (3, {"STEPS = 40": "STEPS = 3"}), 11, 12)
    assert "and 3 steps later: " in capsys.readouterr().out
    assert names["apart"].pop("nothing") == 0 and min(names["apart"].values()) > 0


def test_lesson_09_says_where_nobody_has_died(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("09", names, 1, (16, {"(10.3, 10.7, 12.0, 20.9, 21.3, 21.55)": "(10.3, 30.0)"}))
    died, lived = capsys.readouterr().out.splitlines()
    assert died.startswith("dies at 10.30 s: ") and died.endswith("ended at 32.9 s, with 2 saves")
    assert lived.startswith("over by 30.00 s: ") and lived.endswith("ended at 21.6 s, with 2 saves")
    run("09", names, (18, {"writes=2": "writes=3"}))
    printed = capsys.readouterr().out
    assert printed.index("write 3 of ckpt-2 was torn") < printed.index("ckpt-2 was not written")


def test_lesson_09_names_the_work_and_the_seeds_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("09", names, 1, (32, {"work_s = 1200": "work_s = 200"}), 34, (35, {"range(20)": "range(2)"}))
    printed = capsys.readouterr().out
    assert len(re.findall(r"^(?:InFiles|OnDisk) .* s for 200 s of work, crashes: 0$", printed, re.MULTILINE)) == 2
    assert "measured, 2 seeds" in printed
    run("09", names, (35, {"range(20)": "range(1)"}))
    assert capsys.readouterr().out.count("+- nan") == 5


def test_lesson_10_counts_the_epochs_that_there_were(capsys: pytest.CaptureFixture[str]) -> None:
    run("10", {}, 1, 19, (20, {"epochs=6": "epochs=1"}))
    assert "Epochs that the evaluator passes over: it is 0." in capsys.readouterr().out


def test_picture_of_lesson_13_names_its_market() -> None:
    names: dict[str, Any] = {"busy": {}, "BETWEEN_S": 90.0}
    titles: list[str] = []
    run("13", names, 1)
    names["outcome"] = lambda policy: spot.Outcome(0.0, 0.0, 0, 0, "", [])
    names["progress_picture"] = lambda title, progress: titles.append(title)
    run("13", names, 19)
    assert titles == ["Each machine is taken every 1.5 minutes, on average"]
    names["BETWEEN_S"] = None
    run("13", names, 19)
    assert titles[1] == "Each machine is taken never"


def test_notices_of_lesson_13_may_all_be_too_short_at_any_moments(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"saves_in_time": None}
    run("13", names, 1, 7)
    names["run"] = lambda program, fault, steps: (None, 10, "digest")
    run("13", names, (8, {"4.2": "2.0", "20.9, 22.4": "20.5, 21.5, 22.0"}))
    printed = capsys.readouterr().out
    assert "Each of these notices is too short" in printed
    assert "if the notice comes   at 20.5 s   at 21.5 s   at 22 s\n" in printed


def test_lesson_02_compares_the_devices_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"train": lambda strategy: [2.0, 1.0] if strategy.num_replicas_in_sync == 1 else [2.0, 1.5]}
    run("02", names, 1, 7, (8, {"devices=2": "devices=3", "4: sd.MirroredStrategy(devices=4)": "16: sd.MirroredStrategy(devices=16)"}))
    assert "Equal losses of ten: it is 1." in capsys.readouterr().out


def test_lesson_03b_counts_the_results_and_the_bytes_of_its_own_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("03b", names, 1, 12, (13, {"RANKS = 4": "RANKS = 7"}))
    assert "1 of 49 results are wrong" in capsys.readouterr().out
    run("03b", names, 15, (16, {"WORKERS, DAMAGED = 8, 2": "WORKERS, DAMAGED = 4, 3", "size_bytes=10e6": "size_bytes=10e3"}))
    printed = capsys.readouterr().out
    assert "worker:3 sends" in printed and re.search(r"^ring .* 1\.50 gradients$", printed, re.MULTILINE)


def test_lesson_03b_shows_the_packs_of_the_fastest_step(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"network": None}
    run("03b", names, 1, (18, {"(1, 100_000, 500_000, 0)": "(0,)", "layers=20": "layers=1", '"worker": 8': '"worker": 2'}))
    run("03b", names, 22, (23, {"**wide": "rows=8"}))
    printed = capsys.readouterr().out
    assert "all-reduces," not in printed and "with 0: compute from" in printed


def test_lesson_04_checks_as_many_rows_as_it_reads(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("04", names, 1, (9, {"NUM_ROWS = 12": "NUM_ROWS = 13"}), 11)
    printed = capsys.readouterr().out
    assert re.findall(r"wrong rows: (\d+)", printed) == ["0", "13", "0"] and "there is no row" not in printed


def test_lesson_05_counts_the_gradients_of_the_workers_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    fewer = {"WORKERS = 8": "WORKERS = 4", "1600": "16"}
    run("05", names, 1, 3, 21, (22, fewer))
    printed = capsys.readouterr().out
    assert "a round of 4 gradients" in printed and printed.endswith("a round of 1 gradient\n")
    names |= {"train": lambda cluster, rate, **options: [(0.0, 0, 2.3), (1.0, 1, 2.1)]}
    run("05", names, 19)
    assert capsys.readouterr().out.endswith("     1               2.1000                   2.1000\n")
    run("05", names, (19, {"workers, rows = 8, 32": "workers, rows = 4, 16"}))
    assert "update  4 workers, 16 images each   1 worker, 64 images\n" in capsys.readouterr().out


def test_lessons_06_and_07_say_one_worker_and_one_closure(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("06", names, 1, (3, {"8, 1": "1, 1"}), 5, (6, {"Partitioner(4)": "Partitioner(3)"}))
    printed = capsys.readouterr().out
    assert "1 worker, 1 server:" in printed and "in 3 shards 42.7 ms" in printed
    names = {}
    run("07", names, 1)
    names |= {"images": names["images"][:64], "labels": names["labels"][:64]}
    run("07", names, (5, {"(1, 4, 8)": "(24,)"}))
    assert "steps_per_execution=24:  1 closure, " in capsys.readouterr().out


def test_lesson_07_lists_all_workers_and_the_runs_that_nobody_ends(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("07", names, 1, 3, (10, {"cluster = make_cluster()": "cluster = make_cluster(workers=4)"}), 12, 13, 15)
    assert capsys.readouterr().out.count("  worker:3 rows [3, 7, ") == 2
    run("07", names, (32, {"at=5.5": "at=9.5", '"chief:0", at=5.0': '"chief:0", at=50.0'}))
    assert [line.split(";")[0].split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "closures lost: 0",
        "over before the chief could die",
    ]


def test_lesson_10_names_the_workers_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("10", names, 1)
    names |= {name: names[name][:512] for name in ("x_train", "y_train", "x_test", "y_test")}
    run("10", names, (3, {"workers = 1": "workers = 2"}), 5, (6, {"(1, 2, 4)": "(3,)"}), 8)
    printed = capsys.readouterr().out
    assert "workers: 2. An epoch takes " in printed and "model.evaluate    worker:" in printed
    names |= {"quiet": (0.5, names["y_test"]), "tutorials_way": lambda *given, **options: names["quiet"]}
    run("10", names, (15, {"2.75)": "1.5)"}))
    assert [line[:29].rstrip() for line in capsys.readouterr().out.splitlines()[-2:]] == [
        "shards, dies at 1.5 s",
        "shards, 1.5 s, all options",
    ]
    run("10", names, 19, (20, {"epochs=6": "epochs=1", "timeout_s=30.0": "timeout_s=1.0"}))
    printed = capsys.readouterr().out
    (gave_up_s,) = re.findall(r"the evaluator gave up at (\S+) s", printed)
    assert float(gave_up_s) > 2.0 and "1.weights.h5     0.5 s    2.0 s" in printed


def test_lesson_03a_compares_the_cluster_with_the_formula_of_as_many_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    run("03a", {}, 1, 3, 12, 13, (15, {"WORKERS = 7": "WORKERS = 3"}))
    found = re.findall(r"formula +(\S+) us, cluster +(\S+) us", capsys.readouterr().out)
    assert len(found) == 4 and all(formula == measured for formula, measured in found)


def test_lesson_08_shows_the_waiting_of_all_workers(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    run("08", names, 1, 3, (36, {"workers=3": "workers=5", "steps = 5": "steps = 2"}))
    printed = capsys.readouterr().out
    assert "\nworker:4 " in printed and "ms of 2 steps: " in printed
    run("08", names, (24, {"take(24)": "take(12)"}), 26, (27, {"many=40": "many=60"}), (38, {"= 6, 3": "= 5, 2", "steps=200": "steps=20"}))
    printed = capsys.readouterr().out
    assert "different rows in the first 12\n" in printed and "with prefetch 0, 1 and 2: it is 8, 5, 5 ms." in printed
    assert "10 rows are decoded in 2 epochs of 5" in printed
