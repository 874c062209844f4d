"""Beliefs about who is up: each transition of the table, and what is ignored."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.runtime.membership import Membership


@pytest.fixture
def members() -> Membership:
    members = Membership(timeout_s=3.0)
    members.heartbeat("worker:0", 1, now_s=0.0)
    return members


def kinds(decisions: list[object]) -> list[str]:
    return [decision.kind for decision in decisions]  # pyright: ignore[reportAttributeAccessIssue]


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
    assert kinds(members.heartbeat("worker:0", 2, now_s=1.0)) == ["down", "up"]


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
