"""The checks that lessons show as well: whose data a schedule adds up, which rows the workers read, errors in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from classroom import bits, evaluations, spot, tally
from classroom.failures import error_shown
from classroom.lesson_03a import print_contents
from classroom.schedules import all_reduce_anomalies, contributions
from classroom.sharding import rows_read, sharding_anomalies, sharding_problem

import simdist as sd
from simdist.collectives import ALL_REDUCE, Schedule, Transfer

BLOCKS = {f"worker:{w}": [[4 * w, 4 * w + 1], [4 * w + 2, 4 * w + 3]] for w in range(3)}


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", ALL_REDUCE)
def test_no_all_reduce_of_the_package_has_an_anomaly(name: str, num_ranks: int) -> None:
    assert all_reduce_anomalies(ALL_REDUCE[name].schedule(num_ranks)) == []


def test_lost_transfer_is_named_by_who_misses_whom() -> None:
    whole = ALL_REDUCE["binomial"].schedule(3)
    lost = Schedule("all_reduce", "binomial", 3, 1, tuple(t for t in whole.transfers if t.source != 2))
    assert all_reduce_anomalies(lost) == [f"rank {rank}, chunk 0: misses rank 2" for rank in range(3)]
    assert contributions(lost)[:, 0].tolist() == [[1, 1, 0]] * 3


def test_contents_say_what_was_added_twice(capsys: pytest.CaptureFixture[str]) -> None:
    print_contents([Transfer(0, 0, 1, (0,), True), Transfer(1, 0, 1, (0,), True)], num_ranks=2)
    assert capsys.readouterr().out == "rank 0 has the data of rank 0\nrank 1 has the data of ranks 0 (2 times), 1\n"

    print_contents([Transfer(0, "0", 1, (0,), True)], num_ranks=2)  # type: ignore[arg-type]
    assert "source is the text '0'" in capsys.readouterr().out


def test_sharding_without_anomaly_is_accepted() -> None:
    assert sharding_anomalies(BLOCKS, num_rows=12) == []
    assert sharding_problem(BLOCKS, num_rows=12, rows_per_batch=2) is None


def test_rows_that_all_read_and_rows_that_no_worker_reads_are_named() -> None:
    reads = {"worker:0": [[0, 1]], "worker:1": [[0, 1]]}
    both, none = "is read by worker:0 and worker:1", "is read by no worker"
    assert sharding_anomalies(reads, num_rows=3) == [f"row 0 {both}", f"row 1 {both}", f"row 2 {none}"]


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        ({**BLOCKS, "worker:2": BLOCKS["worker:0"]}, "row 0 is read by worker:0 and worker:2, and 7 rows more are wrong"),
        ({**BLOCKS, "worker:2": [[8, 9], [10]]}, "row 11 is read by no worker."),
        ({**BLOCKS, "worker:2": [[8, 9], [10, 11, 12]]}, "there is no row 12"),
        ({f"worker:{w}": [[w, w + 3], [w + 6, w + 9]] for w in range(3)}, "worker:0 reads the rows [0, 3, 6, 9]"),
        ({f"worker:{w}": [list(range(4 * w, 4 * w + 4))] for w in range(3)}, "worker:0 reads batches of 4 rows"),
        ({**BLOCKS, "worker:1": [], "worker:0": [[0, 1], [2, 3], [4, 5], [6, 7]]}, "it should read [0, 1, 2, 3]"),
        ({**BLOCKS, "worker:1": [[0.5]]}, "not numbers of rows"),
        ({**BLOCKS, "worker:1": [["a", "b"]]}, "not numbers of rows"),
        ({**BLOCKS, "worker:1": [[4, 5]] * 50}, "must end"),
    ],
)
def test_sharding_problem_says_what_is_wrong(reads: Any, words: str) -> None:
    assert words in str(sharding_problem(reads, num_rows=12, rows_per_batch=2))


def test_rows_of_a_dataset_without_end_are_read_for_a_while() -> None:
    reads = rows_read(lambda strategy: strategy.distribute_dataset(sd.Dataset.range(6).repeat().batch(3)))
    assert {worker: len(batches) for worker, batches in reads.items()} == {"worker:0": 50, "worker:1": 50, "worker:2": 50}


def test_error_is_shown_in_words_and_without_the_file_of_a_cell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with error_shown():
        error = ValueError("on purpose")
        error.add_note(f"simdist: its main failed on worker:1\n  {tmp_path}/ipykernel_123/456.py:7: raise ValueError")
        raise error
    printed = capsys.readouterr()
    assert printed.out == "ValueError: on purpose\nsimdist: its main failed on worker:1\n  line 7 of the cell: raise ValueError\n"
    assert printed.err == ""


def test_error_shown_lets_an_interrupt_through() -> None:
    with pytest.raises(KeyboardInterrupt), error_shown():
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("outcome", "arguments", "words"),
    [
        (evaluations.outcome, ("evaluators",), "the text 'evaluators' is no way to evaluate: give one of 'chief', 'workers', 'evaluator'"),
        (evaluations.outcome, ("chief", 0), "the number 0 is no number of epochs: give a whole number from 1"),
        (evaluations.outcome, ("chief", 1.5), "the number 1.5 is no number of epochs"),
        (spot.outcome, ("elastc",), "the text 'elastc' is no policy: give one of 'restart', 'notice', 'elastic'"),
        (spot.outcome, ("notice", 0), "the number 0 is no number of seconds between two machines: give one from 1, or None"),
        (spot.outcome, ("notice", "300"), "the text '300' is no number of seconds"),
        (spot.outcome, ("notice", float("nan")), "NaN .* is no number of seconds"),
    ],
)
def test_outcome_of_what_there_is_not_is_refused(outcome: Any, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(sd.errors.InvalidArgumentError, match=words):
        outcome(*arguments)


def test_loss_of_the_small_training_is_that_of_all_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[np.ndarray] = []
    monkeypatch.setattr(bits, "digest_of", lambda arrays: learned.extend(arrays) or "digest")
    cluster = tally.make_cluster()
    cluster.faults.crash("worker:1", at=0.5)  # for good: the last closure has another batch
    _, loss = bits.train_digits(cluster, mode="sync")
    scores = bits.images @ learned[0] + learned[1]
    of_labels = scores[np.arange(len(scores)), bits.labels]
    assert loss == pytest.approx(float(np.mean(np.log(np.exp(scores).sum(axis=1)) - of_labels)), rel=1e-5)


def test_timetable_has_a_dash_where_a_reply_was_lost_and_where_no_update_is_of_one_closure(capsys: pytest.CaptureFixture[str]) -> None:
    broken = tally.two_buildings()
    broken.faults.crash("worker:1", at=1.11, restart_after=1.0)  # its reply of closure 1 is under way
    tally.tally(broken, closures=2)
    tally.timetable(broken, 3)
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["chief", "1.12", "-", "2.25"]
    rounds = tally.make_cluster(workers=1)
    tally.tally(rounds, closures=1, mode="sync")
    tally.timetable(rounds, 1)
    assert capsys.readouterr().out.splitlines()[1].split()[2:] == ["0.02", "-", "-", "1.10", "1.12"]
