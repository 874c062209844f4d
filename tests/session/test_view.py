"""What can be seen of a session, without letting its time pass."""

from __future__ import annotations

import pytest

from session_programs import CRASH, session_of
from simdist import errors


def test_what_is_seen_of_a_run_lets_no_time_pass() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    command = session.inject(CRASH)
    before = session.moment(), session.digest()
    assert (session.state, session.now, session.is_settled, session.is_kept, session.error) == ("paused", 0.0005, False, True, None)
    assert session.commands == [command] and [fault.kind for fault in session.faults] == ["crash"]
    assert session.steps == session.cluster.trace.num_steps and session.closures == len(session.progress_s)
    assert session.last_output(3) == session.output[-3:]
    with pytest.raises(errors.FailedPreconditionError, match=r"The program has no result: it is paused at 0\.000500 s"):
        _ = session.result
    assert (session.moment(), session.digest()) == before


def test_the_pace_is_seconds_for_each_time_that_the_run_came_on() -> None:
    session = session_of("coordinator")
    assert session.pace_s is None
    session.advance()
    assert session.pace_s == session.progress_s[-1] / session.closures


def test_of_a_run_that_is_not_kept_all_is_seen_as_before() -> None:
    session = session_of("coordinator")
    session._branch.family.most_runs = 1
    session.advance(until=0.0005)
    before = session.now, session.state, session.output, session.commands, session.moment(), session.digest(), session.steps
    session.fork(0.0002)
    assert not session.is_kept
    after = session.now, session.state, session.output, session.commands, session.moment(), session.digest()
    assert not session.is_kept and (*after, session.steps) == before and session.is_kept
