"""Branches of the Lab: forks of forks, the end of the first one, and a log that says what was done."""

from __future__ import annotations

from typing import Any

import pytest

import simdist as sd
from session_programs import CRASH, session_of
from simdist import errors
from simdist_widgets.lab_branches import Branches


def branches() -> Branches:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.inject(CRASH)
    session.advance(until=0.0008)
    return Branches(session)


def test_fork_of_a_fork_lives_on_when_the_first_branch_is_closed() -> None:
    found = branches()
    first = found.present
    second = found.fork(0.0006, [])
    third = found.fork(0.0004, [0])
    assert [branch.forked_from for branch in (first, second, third)] == [None, 0, 1] and found.present is third
    found.close(0)
    assert first.session.state == "closed" and found.present is third
    found.close(2)
    assert found.present is second, "another one is shown"
    second.session.advance()
    assert second.session.state == "finished" and [shown["number"] for shown in found.plain()] == [1]
    assert found.fork(0.0, []).number == 3, "numbers are not given twice"
    with pytest.raises(errors.InvalidArgumentError, match="There is no branch 0"):
        found.select(0)


def test_only_branch_cannot_be_closed_and_wrong_places_are_refused() -> None:
    found = branches()
    with pytest.raises(errors.InvalidArgumentError, match="only branch"):
        found.close(0)
    with pytest.raises(errors.InvalidArgumentError, match="1 command, counted from 0"):
        found.fork(0.0, [1])
    assert found.log == [] and len(found.plain()) == 1


def test_log_makes_the_same_branches() -> None:
    found = branches()
    found.fork(0.0006, [])
    found.fork(0.0004, [0])
    found.present.session.advance(until=0.0005)
    found.present.session.rewind(0.00045)  # further than what is noted
    found.present.session.advance(events=2)
    found.note_progress()
    found.note_progress()
    assert len(found.log) == 3, "what is noted is not noted again"
    names: dict[str, Any] = {"session": branches().present.session}
    for line in found.log:
        exec(line, names)
    assert names["fork_2"].moment() == found.present.session.moment() and names["fork_2"].digest() == found.present.session.digest()


def test_run_that_begins_again_needs_another_feed() -> None:
    branch = branches().present
    branch.feed.take(branch.session.trace)
    assert not branch.feed_of_this_run() and branch.feed.rows
    branch.session.rewind(0.0003)
    assert branch.feed_of_this_run() and not branch.feed.rows and not branch.feed_of_this_run()


def test_log_of_a_run_that_failed_in_the_middle_of_a_second_fails_too() -> None:
    """Its program ends after the last event: so many events alone leave it paused before that."""

    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise ValueError("no more")

    def crashed() -> sd.Session:
        session = sd.Session(program, sd.Cluster({"worker": 1}))
        session.inject({"kind": "crash", "task": "chief:0"})
        return session

    found = Branches(crashed())
    with pytest.raises(errors.UnavailableError):
        found.present.session.advance()
    assert not found.present.session.is_settled, "the end of the sleep is still due"
    found.note_progress()
    names = {"session": crashed()}
    with pytest.raises(errors.UnavailableError):
        exec(found.log[-1], names)
    assert names["session"].moment() == found.present.session.moment()
