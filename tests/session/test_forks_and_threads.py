"""What other threads ask of a session is done, or refused aloud; and what it keeps and counts over rewinds and forks."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import simdist as sd
from session_programs import session_of
from simdist import errors
from simdist.session import Command
from simdist.session.branch import MOST_SECONDS

SLOW = {"kind": "slow", "task": "worker:1", "factor": 3.0, "until": 0.002}


def test_fault_of_another_thread_is_refused_where_the_run_is_over() -> None:
    session = session_of("coordinator")
    session.advance()
    found: list[BaseException] = []

    def inject() -> None:
        try:
            session.inject(SLOW)
        except errors.FailedPreconditionError as error:
            found.append(error)

    thread = threading.Thread(target=inject)
    thread.start()
    thread.join()
    assert len(found) == 1 and "finished" in str(found[0])


def test_memory_of_a_session_does_not_grow_with_the_number_of_its_advances() -> None:
    session = sd.Session(lambda cluster: sd.sleep(1e6, cluster), sd.Cluster({"worker": 1}))
    for _ in range(5 * MOST_SECONDS):
        session.advance(by=1.0)
    assert len(session._branch._seconds) <= MOST_SECONDS
    early, late = session.rewind_seconds(50.0), session.rewind_seconds(session.now)
    assert 0.0 < early < late == session._branch._seconds[-1][1]


def test_rewinds_are_counted_and_runs_that_are_done_again_are_not() -> None:
    session = session_of("coordinator")
    session._branch.family.most_runs = 1
    session.advance(until=0.0005)
    session.fork(0.0002)
    assert not session.is_kept
    session.advance(until=0.0006)
    assert session.begun_again == 0
    session.rewind(0.0003)
    assert session.begun_again == 1 and session.is_settled


def test_numbers_of_numpy_in_a_fault_are_plain_and_lists_are_its_own() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    sides = ["worker:0"]
    session.inject({"kind": "slow", "task": "worker:0", "factor": np.float32(2.0), "until": np.float64(1.0)})
    session.inject({"kind": "partition", "a": sides, "b": ("chief:0",), "after_steps": np.int64(500)})
    sides.append("ps:9")
    opened = sd.open_share(sd.share(session, "p"), {"p": session.program})
    assert opened.commands == session.commands and session.commands[1].fault["a"] == ["worker:0"]


def test_commands_that_are_none_are_refused_by_name() -> None:
    session = session_of("coordinator")
    with pytest.raises(TypeError, match="plus has"):
        session.fork(0.0, plus=[SLOW])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="without is"):
        session.fork(0.0, without=Command(0.0, SLOW))  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgumentError, match="after_events"):
        Command(0.0, SLOW, after_events=-1)


def test_closures_of_all_coordinators_count() -> None:
    def program(cluster: sd.Cluster) -> int:
        chiefs = [sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)) for _ in range(2)]
        for chief in chiefs * 3:
            chief.schedule(lambda: sd.sleep(1.0))
        for chief in chiefs:
            chief.join()
        return len(chiefs)

    session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
    session.advance(closures=3)
    assert session.closures == len(session.progress_s) == 3 and session.state == "paused"
    session.advance(closures=100)
    assert (session.closures, session.state) == (6, "finished")
