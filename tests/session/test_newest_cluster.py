"""`sd.sleep` without a cluster: a session's program means that of its run, and a notebook never means that of a session."""

from __future__ import annotations

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError
from simdist.runtime.cluster import newest_cluster


def program(cluster: sd.Cluster) -> float:
    for _ in range(4):
        sd.sleep(1.0)
    return cluster.now


def session_of() -> sd.Session:
    return sd.Session(program, sd.Cluster({"worker": 1}))


def test_clusters_and_sessions_that_are_made_meanwhile_are_not_those_of_the_program() -> None:
    session = session_of()
    session.advance(until=1.5)
    other, fork, another = sd.Cluster({"worker": 1}), session.fork(1.5), session_of()
    for one in (session, fork, another):
        one.advance()
        assert (one.state, one.result) == ("finished", 4.0)
    assert other.now == 0.0


def test_a_block_that_is_open_in_a_paused_program_is_not_open_in_the_notebook() -> None:
    inner: list[sd.Cluster] = []

    def nested(cluster: sd.Cluster) -> float:
        with sd.Cluster({"worker": 1}) as another:
            inner.append(another)
            cluster.world.clock.sleep(1.0)
            sd.sleep(2.0)
        return cluster.now

    mine = sd.Cluster({"worker": 1})
    session = sd.Session(nested, sd.Cluster({"worker": 1}).fresh())
    sd.Cluster({"worker": 1}).close()
    session.advance(until=0.5)
    with mine:
        sd.sleep(8.0)
        session.advance()
    assert (mine.now, inner[0].now, session.result) == (8.0, 2.0, 1.0)


def test_a_notebook_means_its_last_cluster_and_none_of_a_session() -> None:
    mine = sd.Cluster({"worker": 1})
    session = sd.Session(program, mine)
    session.advance(until=1.5)
    session.fork(0.0).advance()
    assert newest_cluster() is mine
    sd.sleep(1.0)
    assert (mine.now, session.now) == (1.0, 1.5)


def test_time_of_a_session_that_stands_still_passes_only_in_it() -> None:
    session = session_of()
    with pytest.raises(FailedPreconditionError, match=r"stands still at 0\.000000 s.*session\.advance"):
        sd.sleep(1.0, session.cluster)
    session.advance()
    assert session.result == 4.0
