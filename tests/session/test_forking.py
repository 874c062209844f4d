"""The commands of a fork: up to its first change they are those of its session, to the event."""

from __future__ import annotations

import pytest

from session_programs import CRASH, session_of
from simdist.errors import InvalidArgumentError
from simdist.session.commands import Command
from simdist.session.forking import commands_of_fork

SLOW = {"kind": "slow", "task": "worker:1", "factor": 3.0, "until": 0.002}
FIRST, SECOND, THIRD = (Command(at_s, CRASH, after_events=number) for number, at_s in ((3, 1.0), (5, 2.0), (8, 3.0)))
BEFORE = [FIRST, SECOND, THIRD]


def test_without_a_change_they_are_the_same() -> None:
    assert commands_of_fork(BEFORE, [], []) == BEFORE


def test_after_the_first_change_they_are_done_at_their_second() -> None:
    assert commands_of_fork(BEFORE, [SECOND], []) == [FIRST, THIRD.by_time()]
    added = Command(2.0, {"kind": "crash", "task": "worker:0"}, after_events=1)
    assert commands_of_fork(BEFORE, [], [added]) == [FIRST, SECOND, added.by_time(), THIRD.by_time()]
    assert BEFORE == [FIRST, SECOND, THIRD]


def test_of_equal_commands_one_is_left_out_for_each_that_is_named() -> None:
    assert commands_of_fork([FIRST, FIRST, FIRST], [FIRST, FIRST], []) == [FIRST]
    with pytest.raises(InvalidArgumentError, match=r"this session has no such command\. It has \[Command"):
        commands_of_fork([FIRST], [FIRST, FIRST], [])


def test_fork_does_the_commands_before_its_first_change_exactly_where_they_were() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0004)
    session.advance(events=1)
    while session.is_settled:  # so that the command comes between two events of one second
        session.advance(events=1)
    first = session.inject(SLOW)
    session.advance(until=0.0012)
    second = session.inject(CRASH)
    assert first is not None and second is not None and first.after_events is not None
    session.advance()
    for fork in (session.fork(0.0, without=[second]), session.fork(0.0, plus=[Command(0.0012, SLOW)])):
        assert fork.commands[0] == first
        fork.advance()
        found = session.compare(fork)
        assert found.same_until_s is not None and found.same_until_s >= 0.0012, str(found)
    assert session.fork(0.0, without=[first]).commands == [second.by_time()]
