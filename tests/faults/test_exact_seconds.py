"""A fault begins and ends at the seconds that were given, to the last bit."""

from __future__ import annotations

import pytest

import simdist as sd

# By these the sum of the present second and the time that is left is no longer the second that was meant: one bit later, and one earlier.
LATER = (0.03, 0.29)
EARLIER = (0.05, 0.21)
NEVER_S = 10.0


def wait(cluster: sd.Cluster) -> None:
    sd.sleep(NEVER_S, cluster)


def session_at(second: float) -> sd.Session:
    session = sd.Session(wait, sd.Cluster({"worker": 2}))
    session.advance(until=second)
    return session


def test_the_seconds_of_these_tests_are_those_that_a_sum_misses() -> None:
    assert LATER[0] + (LATER[1] - LATER[0]) > LATER[1]
    assert EARLIER[0] + (EARLIER[1] - EARLIER[0]) < EARLIER[1]


@pytest.mark.parametrize(("now_s", "at_s"), [LATER, EARLIER])
@pytest.mark.parametrize("kind", ["slow", "drop"])  # one that lets no wait go on, and one that does
def test_a_fault_begins_at_its_second(kind: str, now_s: float, at_s: float) -> None:
    session = session_at(now_s)
    whom = {"task": "worker:0", "factor": 2.0} if kind == "slow" else {"source": "worker:0", "target": "worker:1"}
    session.inject({"kind": kind, **whom, "at": at_s})
    session.advance(until=at_s)
    assert [fault.fired_s for fault in session.faults] == [at_s]


@pytest.mark.parametrize(("now_s", "until_s"), [LATER, EARLIER])
@pytest.mark.parametrize("kind", ["slow", "pause"])
def test_a_fault_ends_at_its_second(kind: str, now_s: float, until_s: float) -> None:
    session = session_at(now_s)
    session.inject({"kind": kind, "task": "worker:0", "until": until_s} | ({"factor": 2.0} if kind == "slow" else {}))
    session.advance(until=until_s)
    assert [fault.healed_s for fault in session.faults] == [until_s]
    assert [event.time_s for event in session.trace.instants.where(category="heal")] == [until_s]
