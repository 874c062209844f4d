"""The exercises of the lessons: unanswered they say what to do; with the printed solutions they are right.

And the checks themselves: what they accept, and what they say about the rest.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest

from simdist.collectives import ALL_REDUCE, Schedule, Transfer

LESSONS = Path(__file__).resolve().parents[2] / "lessons"
NOTEBOOKS = sorted(LESSONS.glob("0[234]*.ipynb"))  # those that still use checks.py
ANSWER = re.compile(r"^(\w+) = \.\.\.$", re.MULTILINE)
SOLUTION = re.compile(r"`(\w+) = ([^`]+)`")


def solutions(notebook: Any) -> dict[str, str]:
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and "<details>" in cell.source]
    return dict(match.groups() for text in texts for match in SOLUTION.finditer(text))


def run(notebook: Any, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the code cells in one namespace, with some answers filled in; return what they print."""
    monkeypatch.syspath_prepend(str(LESSONS))
    names: dict[str, Any] = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                source = ANSWER.sub(lambda match: f"{match[1]} = {answers.get(match[1], '...')}", cell.source)
                exec(compile(source, "cell", "exec"), names)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_solutions_pass_every_check(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = nbformat.read(path, as_version=4)
    printed = run(notebook, solutions(notebook), monkeypatch)
    exercises = sum(len(ANSWER.findall(cell.source)) for cell in notebook.cells if cell.cell_type == "code")
    assert exercises >= 2
    assert printed.count("right.") == exercises
    assert "not yet" not in printed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_unanswered_exercises_say_what_to_do(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    stored = [output.text for cell in notebook.cells if ".check(" in cell.source for output in cell.get("outputs", [])]
    assert len(stored) >= 2
    assert all("not answered yet" in text and "Hint:" in text for text in stored)


# -- the checks themselves ----------------------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(LESSONS))
    return importlib.import_module("checks")


@pytest.mark.parametrize("answer", [175e6, 2 * 7 * 100e6 / 8, np.float64(174.9e6)])
def test_target_accepts_a_number_that_is_close(checks: Any, answer: Any) -> None:
    assert checks.target(175e6, "bytes")(answer) is None


@pytest.mark.parametrize(
    ("answer", "words"), [(100e6, "too small"), (1.4e9, "too large"), ("175 MB", "not a number of bytes"), (True, "not a number")]
)
def test_target_says_what_is_wrong_with_another_answer(checks: Any, answer: Any, words: str) -> None:
    assert words in checks.target(175e6, "bytes")(answer)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", ALL_REDUCE)
def test_no_all_reduce_of_the_package_has_an_anomaly(checks: Any, name: str, num_ranks: int) -> None:
    assert checks.all_reduce_anomalies(ALL_REDUCE[name].schedule(num_ranks)) == []


def test_lost_transfer_is_named_by_who_misses_whom(checks: Any) -> None:
    whole = ALL_REDUCE["binomial"].schedule(3)
    lost = Schedule("all_reduce", "binomial", 3, 1, tuple(t for t in whole.transfers if t.source != 2))
    assert checks.all_reduce_anomalies(lost) == [f"rank {rank}, chunk 0: misses rank 2" for rank in range(3)]


SWAPS = [Transfer(step, rank, rank ^ (1 << step), (0,), True) for step in range(2) for rank in range(4)]


@pytest.mark.parametrize(
    ("transfers", "words"),
    [
        (SWAPS[:-1], "rank 1, chunk 0: misses rank 2, and 1 more"),
        ([*SWAPS, Transfer(2, 0, 1, (0,), True)], "rank 1, chunk 0: has rank 0 2 times, and 3 more"),
        (ALL_REDUCE["binomial"].schedule(4).transfers, "4 steps; 2 are enough"),
        (SWAPS[::-1], "in the order of their steps"),
        ([Transfer(0, 0, 4, (0,), True)], "ranks go from 0 to 3"),
        ([(0, 0, 1, (0,), True)], "not a transfer"),
        (7, "not a list of transfers"),
    ],
)
def test_schedule_problem_says_what_is_wrong(checks: Any, transfers: Any, words: str) -> None:
    assert words in checks.schedule_problem(transfers, num_ranks=4, most_steps=2)


def test_schedule_problem_accepts_recursive_doubling(checks: Any) -> None:
    assert checks.schedule_problem(SWAPS, num_ranks=4, most_steps=2) is None


# -- of lesson 02 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (64, "64 it is still 36 microseconds slower"),
        (100, "not a power of two"),
        (8, "from 16 to 16,384"),
        ("128", "not a power of two"),
        (256, "128 is enough"),
    ],
)
def test_first_power_of_two_says_what_is_wrong(checks: Any, answer: Any, words: str) -> None:
    assert words in checks.first_power_of_two(lambda size: size - 100.0)(answer)


@pytest.mark.parametrize(("answer", "threshold"), [(128, 100.0), (16, 10.0), (16_384, 16_000.0)])
def test_first_power_of_two_accepts_only_the_first(checks: Any, answer: int, threshold: float) -> None:
    check = checks.first_power_of_two(lambda size: size - threshold)
    accepted = [size for size in (2**power for power in range(4, 15)) if check(size) is None]
    assert accepted == [answer]


def gradient_of_five(average: Any, devices: int) -> float:
    """The sum over the replicas of what each makes of its own examples."""
    losses = [0.0, 0.0, 0.0, 0.0, 1.0]
    edges = {1: (0, 5), 2: (0, 3, 5), 3: (0, 2, 4, 5)}[devices]
    return float(sum(average(losses[start:stop]) for start, stop in pairwise(edges)))


def test_gives_gradient_accepts_division_by_the_global_batch(checks: Any) -> None:
    assert checks.gives_gradient(gradient_of_five, 0.2)(lambda losses: sum(losses) / 5) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.mean, "on 2 devices the gradient is 0.500 instead of 0.200"),
        (lambda losses: np.mean(losses) / 2, "on 1 device the gradient is 0.100"),
        (0.2, "cannot be called"),
    ],
)
def test_gives_gradient_says_what_is_wrong(checks: Any, answer: Any, words: str) -> None:
    assert words in checks.gives_gradient(gradient_of_five, 0.2)(answer)


@pytest.mark.parametrize(
    ("answer", "words"), [(2, "1.50 times as long, not 2"), (0.5, "not a factor"), ("3", "not a factor"), (True, "not a")]
)
def test_makes_ratio_says_what_is_wrong(checks: Any, answer: Any, words: str) -> None:
    assert words in checks.makes_ratio(lambda factor: 0.5 + factor / 2, 2.0)(answer)


@pytest.mark.parametrize("answer", [3, 3.05, np.float64(2.95)])
def test_makes_ratio_accepts_what_is_close(checks: Any, answer: Any) -> None:
    assert checks.makes_ratio(lambda factor: 0.5 + factor / 2, 2.0)(answer) is None


# -- lesson 04 ----------------------------------------------------------------------------------------------------------

BLOCKS = {f"worker:{w}": [[4 * w, 4 * w + 1], [4 * w + 2, 4 * w + 3]] for w in range(3)}


def test_sharding_without_anomaly_is_accepted(checks: Any) -> None:
    assert checks.sharding_anomalies(BLOCKS, num_rows=12) == []
    assert checks.sharding_problem(BLOCKS, num_rows=12, rows_per_batch=2) is None


def test_rows_that_all_read_and_rows_that_nobody_reads_are_named(checks: Any) -> None:
    reads = {"worker:0": [[0, 1]], "worker:1": [[0, 1]]}
    both, nobody = "is read by worker:0 and worker:1", "is read by nobody"
    assert checks.sharding_anomalies(reads, num_rows=3) == [f"row 0 {both}", f"row 1 {both}", f"row 2 {nobody}"]


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        ({**BLOCKS, "worker:2": BLOCKS["worker:0"]}, "row 0 is read by worker:0 and worker:2, and 7 rows more are wrong"),
        ({**BLOCKS, "worker:2": [[8, 9], [10]]}, "row 11 is read by nobody."),
        ({**BLOCKS, "worker:2": [[8, 9], [10, 11, 12]]}, "there is no row 12"),
        ({f"worker:{w}": [[w, w + 3], [w + 6, w + 9]] for w in range(3)}, "worker:0 reads rows [0, 3, 6, 9], which are not one block"),
        ({f"worker:{w}": [list(range(4 * w, 4 * w + 4))] for w in range(3)}, "worker:0 reads batches of [4] rows; 2 each"),
        ({**BLOCKS, "worker:1": [], "worker:0": [[0, 1], [2, 3], [4, 5], [6, 7]]}, "worker:1 reads nothing"),
    ],
)
def test_sharding_problem_says_what_is_wrong(checks: Any, reads: Any, words: str) -> None:
    assert words in checks.sharding_problem(reads, num_rows=12, rows_per_batch=2)
