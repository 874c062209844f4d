"""What is looked up of a collective in closed form is what its flows do event by event."""

from __future__ import annotations

import pytest

import simdist as sd
from session_programs import one_reduction

ALGORITHMS = ["ring", "reduction to one", "recursive doubling", "binomial", "double tree"]


def moments(algorithm: str, event_by_event: bool) -> list[tuple[float, dict[str, float], list[tuple[str, str, float, float]]]]:
    """At several moments of an all-reduce of five workers: the second, the bytes on all links, and what is on its way."""
    session = sd.Session(one_reduction(algorithm), sd.Cluster({"worker": 5}, network=sd.hardware.Network(bandwidth=1e6), numerics="off"))
    if event_by_event:  # as where a fault has begun that hits nobody here: nothing is worked out beforehand
        session.cluster.world.disturb()
    found: list[tuple[float, dict[str, float], list[tuple[str, str, float, float]]]] = []
    for _ in range(12):
        session.advance(by=0.37)
        world = session.cluster.world
        assert bool(world.foreseen) is (not event_by_event and session.state == "paused")
        pending = [one for group in world.listeners for one in getattr(group, "queue", [])]
        ways = sorted((*ends, round(sent_s, 9)) for one in pending for *ends, sent_s in one.under_way())
        found.append((session.now, world.bytes_carried(), ways))
        if session.state != "paused":
            break
    session.close()
    return found


@pytest.mark.filterwarnings("ignore:The fault")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_bytes_and_transfers_of_a_moment_are_those_of_the_flows(algorithm: str) -> None:
    found, expected = moments(algorithm, False), moments(algorithm, True)
    assert len(found) > 3 and any(ways for _, _, ways in found)
    for (now_s, carried, ways), (then_s, flowed, flows) in zip(found, expected, strict=True):
        assert now_s == pytest.approx(then_s)
        assert carried == pytest.approx(flowed, abs=1.0)
        assert ways == flows


def test_looking_at_a_collective_changes_nothing() -> None:
    def digest(looks: bool) -> str:
        session = sd.Session(one_reduction("ring"), sd.Cluster({"worker": 3}, network=sd.hardware.Network(bandwidth=1e6), numerics="off"))
        while session.state == "paused":
            session.advance(by=0.1)
            if looks:
                session.cluster.world.bytes_carried()
        return session.digest()

    assert digest(True) == digest(False)
