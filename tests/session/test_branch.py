"""Of many branches few keep their runs, and none can tell."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

import session_programs as programs
import simdist as sd
from simdist import errors
from simdist.session import Command
from simdist.session.branch import MOST_RUNS, Family

SLOW = {"kind": "slow", "task": "worker:1", "factor": 3.0, "until": 0.002}


def session_of(name: str = "coordinator") -> sd.Session:
    program, spec = programs.PROGRAMS[name]
    return sd.Session(program, sd.Cluster(spec, seed=3))


def test_runs_that_were_not_used_for_long_are_done_again_and_are_the_same() -> None:
    session = session_of()
    session.advance(until=0.0006)
    session.inject(SLOW)
    session.advance(events=11)
    seen = (session.now, session.state, session.digest(), session.output, session.commands, session.moment())
    forks = [session.fork(0.0004, plus=[Command(0.0005 + number * 1e-5, SLOW)]) for number in range(MOST_RUNS)]
    assert not session.is_kept and all(fork.is_kept for fork in forks)
    assert (session.now, session.state, session.digest(), session.output, session.commands, session.moment()) == seen
    assert not session.is_kept, "what is known of it needs no run"
    assert session.trace.digest() == seen[2] and session.is_kept and not forks[0].is_kept
    session.advance()
    other = session.fork(0.0)
    other.advance()
    assert (session.digest(), session.result) == (other.digest(), other.result)


def test_memory_of_a_run_that_is_put_aside_is_given_back() -> None:
    session = session_of()
    session.advance()
    cluster = weakref.ref(session.cluster)
    forks = [session.fork(0.0) for _ in range(MOST_RUNS)]
    gc.collect()
    assert cluster() is None and len(forks) == MOST_RUNS
    assert session.result[:6] == [pytest.approx(loss) for loss in session.result[:6]]
    assert session.state == "finished"


def test_forks_that_are_gone_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "most_runs", 2)
    session = session_of()
    session.advance(until=0.0004)
    session.fork(0.0002)
    gc.collect()
    other = session.fork(0.0003)
    assert session.is_kept and other.is_kept


def test_failed_and_closed_runs_come_back_as_they_were() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise RuntimeError("not enough")

    failed = sd.Session(program, sd.Cluster({"worker": 1}))
    with pytest.raises(RuntimeError, match="not enough"):
        failed.advance()
    closed = failed.fork(0.5)
    closed.close()
    forks = [failed.fork(0.25) for _ in range(MOST_RUNS)]
    assert not failed.is_kept and not closed.is_kept and len(forks) == MOST_RUNS
    assert (failed.state, closed.state) == ("failed", "closed")
    with pytest.raises(RuntimeError, match="not enough"):
        failed.advance()
    assert closed.trace.digest() == closed.digest() and closed.state == "closed"
    with pytest.raises(errors.FailedPreconditionError, match=r"session\.close"):
        closed.advance()


def test_to_look_at_a_program_that_has_not_begun_does_not_begin_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "most_runs", 1)
    runs: list[str] = []

    def program(cluster: sd.Cluster) -> None:
        cluster.trace.instant("chief:0", "mark", "begun", cluster.now)
        runs.append(cluster.trace.digest())
        sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    before = session.digest()
    fork = session.fork(0.5)
    assert not session.is_kept and fork.is_kept and len(runs) == 1
    assert session.trace.digest() == before and session.is_kept and len(runs) == 1
    session.advance()
    assert session.state == "finished" and len(runs) == 2


def test_run_that_is_put_aside_takes_no_fault_of_another_thread_twice_or_too_early() -> None:
    session = session_of()
    session.advance(until=0.0006)
    forks = [session.fork(0.0004) for _ in range(MOST_RUNS)]
    thread = threading.Thread(target=lambda: session.inject(SLOW))
    thread.start()
    thread.join()
    assert not session.is_kept and len(forks) == MOST_RUNS
    session.advance()
    assert [command.at_s for command in session.commands] == [0.0006]
    again = session.fork(0.0)
    again.advance()
    assert again.digest() == session.digest()


def test_fault_of_another_thread_is_not_lost_by_a_rewind() -> None:
    session = session_of()
    session.advance(until=0.0006)
    thread = threading.Thread(target=lambda: session.inject(SLOW))
    thread.start()
    thread.join()
    session.rewind(0.0003)
    session.advance()
    assert [command.at_s for command in session.commands] == [0.0003]


def test_run_is_not_done_again_from_another_thread() -> None:
    session = session_of()
    session.advance(until=0.0006)
    forks = [session.fork(0.0004) for _ in range(MOST_RUNS)]
    found: list[BaseException] = []

    def look() -> None:
        try:
            _ = session.trace
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [errors.FailedPreconditionError] and len(forks) == MOST_RUNS


def test_run_that_ctrl_c_has_ended_is_kept_because_it_would_not_end_again() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise KeyboardInterrupt

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    forks = [session.fork(0.5) for _ in range(MOST_RUNS)]
    assert session.is_kept and session.state == "failed" and len(forks) == MOST_RUNS


def test_paused_runs_of_sessions_that_are_gone_are_ended_and_give_their_memory_back() -> None:
    ended: list[str] = []

    def program(cluster: sd.Cluster) -> None:
        try:
            sd.sleep(9.0, cluster)
        finally:
            ended.append("here")

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    clusters = []
    for _ in range(3):
        fork = session.fork(5.0)
        clusters.append(weakref.ref(fork.cluster))
        del fork
    assert len(ended) < 3, "not in the middle of anything"
    session.advance(until=1.0)
    gc.collect()
    assert len(ended) == 3 and [cluster() for cluster in clusters] == [None] * 3
    assert session.state == "paused"


def test_end_of_the_output_is_that_of_all_of_it_and_printing_goes_on() -> None:
    session = session_of()
    session.advance(until=0.0015)
    assert session.last_output(6) == session.output[-6:] != "" and session.last_output(10**6) == session.output
    session.advance()
    assert session.output.count("epoch") == 3 and session.last_output(9) == session.output[-9:]
