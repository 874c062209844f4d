"""What the Lab shows of a moment, and how much work that is."""

from __future__ import annotations

import json

import numpy as np
import pytest

import session_programs as programs
import simdist as sd
from session_programs import CRASH, session_of
from simdist.session import Session
from simdist_widgets.cluster_layout import MOST_SINGLE
from simdist_widgets.lab_state import MOST_OUTPUT, LinkLoads, state_of


def test_state_says_what_became_of_each_fault() -> None:
    session, loads = session_of("coordinator"), LinkLoads()
    session.advance(until=0.0005)
    session.inject(CRASH)
    session.inject({"kind": "slow", "task": "worker:0", "factor": 2.0, "until": 0.001})
    session.inject({"kind": "crash", "task": "worker:0", "after_steps": 10_000})
    session.advance(until=0.0012)
    session.inject({"kind": "pause", "task": "ps:1", "until": 0.0013})
    session.rewind(0.0011)
    found = [(fault["status"], fault["fired_s"], fault["healed_s"]) for fault in state_of(session, loads)["faults"]]
    assert found == [("fired", 0.0005, None), ("healed", 0.0005, 0.001), ("pending", None, None), ("pending", None, None)]
    assert [command["status"] for command in state_of(session, loads)["commands"]] == ["done", "done", "done", "pending"]
    with pytest.warns(UserWarning):
        session.advance()
        session.close()
    state = state_of(session, loads)
    assert state["state"] == "closed" and state["faults"][2]["status"] == "never" and json.dumps(state, allow_nan=False)


def test_queue_is_what_waits_and_what_is_under_way() -> None:
    session = session_of("coordinator")
    assert state_of(session, LinkLoads())["queue"] is None
    session.advance(until=0.0005)
    queue = state_of(session, LinkLoads())["queue"]
    assert queue["waiting"] == session.trace.counters.series("chief:0", "queue")[1][-1]
    assert queue["in_flight"] == len(queue["closures"]) == 2


def test_loads_are_shares_of_what_a_link_can_carry_since_the_state_before() -> None:
    slow = sd.hardware.Network(bandwidth=1e6)
    session, loads = Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, network=slow)), LinkLoads()
    found: list[dict[str, float]] = []
    while session.state == "paused":
        session.advance(by=0.0001)
        found.append(loads.since_last_state(session))
    assert all(0.0 <= load <= 1.0 for each in found for load in each.values())
    assert max(load for each in found for load in each.values()) > 0.1
    assert set(found[0]) == set(session.cluster.tasks)
    session.rewind(0.0)
    assert set(loads.since_last_state(session).values()) == {0.0}


def test_link_is_full_while_a_long_message_is_on_its_way() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.zeros(1_000_000, np.float32), name="w")  # 4 MB at 1 MB/s
        chief = sd.ClusterCoordinator(strategy)
        chief.schedule(sd.function(lambda: w.value.sum()))
        chief.join()

    session = Session(program, sd.Cluster({"worker": 1, "ps": 1}, network=sd.hardware.Network(bandwidth=1e6)))
    loads = LinkLoads()
    for _ in range(7):
        session.advance(by=0.5)
        assert loads.since_last_state(session) == {
            "chief:0": 0.0,
            "worker:0": pytest.approx(1.0, abs=1e-3),
            "ps:0": pytest.approx(1.0, abs=1e-3),
        }
    assert session.state == "paused"


def test_a_line_of_a_torus_shows_the_greater_load_of_both_directions() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.zeros(1_000_000, np.float32), name="w")  # 4 MB at 1 MB/s, in the negative direction
        chief = sd.ClusterCoordinator(strategy)
        chief.schedule(sd.function(lambda: w.value.sum()))
        chief.join()

    ring = sd.hardware.Network(bandwidth=1e6).as_torus((3,))  # chief:0, worker:0, ps:0
    session, loads = Session(program, sd.Cluster({"worker": 1, "ps": 1}, network=ring)), LinkLoads()
    session.advance(until=0.5)
    found = loads.since_last_state(session)
    assert found["worker:0/x+"] == pytest.approx(1.0, abs=1e-2) and found["chief:0/x+"] == 0.0


def test_loads_after_a_rewind_are_those_since_the_start() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.zeros(1_000_000, np.float32), name="w")  # 4 MB at 1 MB/s
        chief = sd.ClusterCoordinator(strategy)
        chief.schedule(sd.function(lambda: w.value.sum()))
        chief.join()

    def load(begin_s: float | None, now_s: float) -> dict[str, float]:
        """The loads at a second; of a run that was looked at once before, at the second that it begins with, and rewound."""
        session = Session(program, sd.Cluster({"worker": 1, "ps": 1}, network=sd.hardware.Network(bandwidth=1e6)))
        loads = LinkLoads()
        if begin_s is not None:
            session.advance(until=begin_s)
            loads.since_last_state(session)
            session.rewind(min(begin_s, now_s))
        session.advance(until=now_s)
        return loads.since_last_state(session)

    for now_s in (1.0, 2.0, 2.5):
        assert load(2.0, now_s) == load(None, now_s)
        assert load(2.0, now_s)["ps:0"] == pytest.approx(1.0, abs=1e-3)
    assert load(2.0, 0.0)["ps:0"] == 0.0


def test_links_have_their_share_of_a_collective_before_it_ends() -> None:
    session = Session(programs.one_reduction("reduction to one"), sd.Cluster({"worker": 4}, network=sd.hardware.Network(bandwidth=1e6)))
    loads = LinkLoads()
    for source in (1, 2, 3):  # 1 MB each, one after the other, to worker:0
        session.advance(until=source - 0.6)
        loads.since_last_state(session)
        session.advance(until=source - 0.1)
        found = loads.since_last_state(session)
        assert {task for task, load in found.items() if load > 0.0} == {"worker:0", f"worker:{source}"}
        assert found["worker:0"] == found[f"worker:{source}"] == 1.0
    session.advance(until=3.5)
    loads.since_last_state(session)
    session.advance(until=5.5)
    thirds = {f"worker:{target}": pytest.approx(1 / 3, abs=1e-3) for target in (1, 2, 3)}
    assert loads.since_last_state(session) == {"chief:0": 0.0, "worker:0": 1.0, **thirds}, "three share the way out of worker:0"


def test_state_of_a_large_cluster_and_a_long_output_stays_small() -> None:
    def program(cluster: sd.Cluster) -> None:
        print("x" * 10 * MOST_OUTPUT)
        sd.sleep(1.0, cluster)

    session = Session(program, sd.Cluster({"worker": MOST_SINGLE + 1}))
    session.advance()
    state = state_of(session, LinkLoads())
    assert len(state["output"]) == MOST_OUTPUT and state["loads"] == {}, "a grid of cells has no lines"
    assert len(state["tasks"]) == MOST_SINGLE + 2


def test_work_for_a_state_does_not_grow_with_the_square_of_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(lambda cluster: sd.sleep(1.0, cluster), sd.Cluster({"worker": 1}))
    for number in range(40):
        session.inject({"kind": "slow", "task": "worker:0", "factor": 1.0 + number})
    reads: list[int] = []
    commands, faults = Session.commands.fget, Session.faults.fget
    assert commands is not None and faults is not None
    monkeypatch.setattr(Session, "commands", property(lambda self: reads.append(1) or commands(self)))
    monkeypatch.setattr(Session, "faults", property(lambda self: reads.append(1) or faults(self)))
    state_of(session, LinkLoads())
    assert len(reads) <= 4


def test_loads_stay_where_no_time_has_passed() -> None:
    session, loads = session_of("coordinator"), LinkLoads()
    session.advance(until=0.0005)
    found = loads.since_last_state(session)
    assert max(found.values()) > 0.0 and loads.since_last_state(session) == found
