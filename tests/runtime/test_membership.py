"""Beliefs about who is up: each transition of the table, what is ignored, and what cannot be."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from broken_tables import broken_tables
from simdist.runtime import membership as membership_module
from simdist.runtime.membership import MEMBERS, MemberChange, MemberDecision, MemberFact, Membership, MemberState
from simdist.transitions import ImpossibleFactError


@pytest.fixture
def members() -> Membership:
    members = Membership(timeout_s=3.0)
    members.heartbeat("worker:0", 1, now_s=0.0)
    return members


def kinds(decisions: Sequence[MemberDecision]) -> list[str]:
    return [decision.kind for decision in decisions]


def test_reset_connection_means_down_once(members: Membership) -> None:
    assert kinds(members.connection_reset("worker:0", 1)) == ["down"]
    assert members.connection_reset("worker:0", 1) == []


def test_silence_means_down_only_after_the_timeout(members: Membership) -> None:
    assert members.time_passed(now_s=3.0) == []
    assert kinds(members.time_passed(now_s=3.1)) == ["down"]


def test_heartbeat_in_time_keeps_a_task_up(members: Membership) -> None:
    members.heartbeat("worker:0", 1, now_s=2.5)
    assert members.time_passed(now_s=5.0) == []
    assert members.is_up("worker:0")


def test_silent_task_that_speaks_again_is_up_again(members: Membership) -> None:
    members.time_passed(now_s=10.0)
    assert kinds(members.heartbeat("worker:0", 1, now_s=11.0)) == ["up"]


def test_higher_incarnation_means_the_old_one_went_down(members: Membership) -> None:
    assert members.heartbeat("worker:0", 2, now_s=1.0) == [
        MemberDecision(MemberChange.DOWN, "worker:0", 1, "restarted"),
        MemberDecision(MemberChange.UP, "worker:0", 2),
    ]


def test_reset_of_a_task_that_nobody_has_heard_of_is_ignored(members: Membership) -> None:
    assert members.connection_reset("worker:1", 0) == []
    assert kinds(members.heartbeat("worker:1", 0, now_s=0.0)) == ["up"]


@pytest.mark.parametrize(("state", "fact"), sorted(set(itertools.product(MemberState, MemberFact)) - set(MEMBERS.rows)), ids=str)
def test_a_belief_refuses_each_fact_that_is_not_in_the_table(state: MemberState, fact: MemberFact) -> None:
    with pytest.raises(ImpossibleFactError, match="membership: the fact"):
        MEMBERS.after(state, fact)


# -- whatever comes ----------------------------------------------------------------------------------------------------

History = list[tuple[str, int, float]]
FACTS = ["heartbeat", "heartbeat", "reset", "time"]


def follow(history: History) -> None:
    """Tell the machine, and a judge that knows no table, the same of one task: a fact, its incarnation, seconds since the last fact."""
    members, now_s, known, up, heard_s = Membership(timeout_s=3.0), 0.0, -1, False, 0.0
    for fact, incarnation, seconds in history:
        now_s += seconds
        expected: list[tuple[str, int]] = []
        if fact == "heartbeat":
            decisions = members.heartbeat("ps:0", incarnation, now_s)
            if incarnation >= known:
                if up and incarnation > known:
                    expected.append(("down", known))
                if not up or incarnation > known:
                    expected.append(("up", incarnation))
                known, up, heard_s = incarnation, True, now_s
        elif fact == "reset":
            decisions = members.connection_reset("ps:0", incarnation)
            if up and incarnation >= known:
                expected, up = [("down", known)], False
        else:
            decisions = members.time_passed(now_s)
            if up and now_s - heard_s > 3.0:
                expected, up = [("down", known)], False
        assert [(decision.kind, decision.incarnation) for decision in decisions] == expected
        assert members.is_up("ps:0") == up
        assert ("ps:0" in members.beliefs) == (known >= 0)


@given(st.lists(st.tuples(st.sampled_from(FACTS), st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0, 4.0])), max_size=60))
def test_beliefs_are_those_of_the_judge_whatever_happens(history: History) -> None:
    follow(history)


def test_every_wrong_row_of_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    histories = [
        [(draw.choice(FACTS), min(3, step // 10 + draw.randrange(3)), draw.choice([0.0, 1.0, 4.0])) for step in range(30)]
        for _ in range(100)
    ]
    wrong, survivors = list(broken_tables(MEMBERS, MemberState, MemberChange)), list[str]()
    for words, table in wrong:
        monkeypatch.setattr(membership_module, "MEMBERS", table)
        try:
            for history in histories:
                follow(history)
        except AssertionError:
            continue
        survivors.append(words)
    assert survivors == []
    assert len(wrong) > 50


def test_the_picture_of_the_table_is_that_of_the_documentation() -> None:
    text = (Path(__file__).resolve().parents[2] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{MEMBERS.diagram()}\n```\n" in text, MEMBERS.diagram()


# -- in a cluster ------------------------------------------------------------------------------------------------------


def test_facts_of_an_older_incarnation_are_ignored(members: Membership) -> None:
    assert members.heartbeat("worker:0", 0, now_s=1.0) == []
    assert members.connection_reset("worker:0", 0) == []
    assert members.is_up("worker:0")


def test_task_that_stops_sending_heartbeats_is_found_by_time_alone() -> None:
    with sd.Cluster({"worker": 1, "ps": 1}) as cluster:
        sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        runtime = cluster.world
        runtime.clock.sleep(2.5)
        # A lost host resets no connection: it only falls silent.
        runtime.tasks["worker:0"].process.alive = False
        runtime.clock.sleep(10.0)
        (found,) = cluster.trace.instants.where(category="detect")
        assert found.lane == "worker:0"
        assert 7.0 <= found.time_s <= 9.0
        assert "silent" in found.facts["reason"]


def test_crash_of_the_chief_raises_in_the_call_that_it_is_in() -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        cluster.faults.crash("chief", at=1.0)
        with pytest.raises(sd.errors.UnavailableError, match="chief:0 crashed"):
            cluster.world.clock.sleep(5.0)
