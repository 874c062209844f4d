"""What the machines do at a moment agrees with what the trace says later about that moment."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import session_programs as programs
import simdist as sd
from session_programs import session_of
from simdist import keras
from simdist.session.present import TASK_STATES, closures_in_flight, flights, task_states, tasks_since

WORK = {"reading": "read", "computing": "compute", "updating": "update"}


@pytest.mark.parametrize("name", ["coordinator", "fit of servers"])
def test_states_agree_with_the_spans_that_cover_the_moment(name: str) -> None:
    session = session_of(name)
    seen: list[tuple[float, str, str]] = []
    while session.state == "paused":
        session.advance(by=0.000037)
        if session.state == "paused":
            seen += [(session.now, task, state) for task, state in task_states(session.cluster).items()]
    assert {state for _, _, state in seen} >= {"reading", "computing", "updating"}
    spans = list(session.trace.spans)
    for now_s, task, state in seen:
        if task.startswith("worker") and state in WORK:
            assert any(span.lane == task and span.category == WORK[state] and span.start_s <= now_s <= span.end_s for span in spans), (
                f"{task} was {state} at {now_s}"
            )


def test_closures_in_flight_and_messages_are_those_of_the_workers_at_work() -> None:
    session = session_of("coordinator")
    session.advance(closures=4)
    running = closures_in_flight(session.cluster)
    assert {worker for worker, _ in running} <= {"worker:0", "worker:1"} and all(number >= 3 for _, number in running)
    for _ in range(30):
        session.advance(events=3)
        states = task_states(session.cluster)
        for flight in flights(session.cluster):
            worker = flight.target if flight.kind == "read_reply" else flight.source
            assert states[worker] in ("reading", "updating") and flight.size_bytes >= 0.0
            assert flight.began_s <= session.now
    assert len(flights(session.cluster, most=1)) <= 1


def test_faults_go_before_what_a_task_does() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.inject({"kind": "pause", "task": "worker:0", "until": 0.002})
    session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.001})
    session.inject({"kind": "partition", "a": "ps:1", "b": "chief:0", "until": 0.002})
    session.inject({"kind": "slow", "task": "ps:0", "factor": 2.0, "until": 0.002})
    session.advance(by=0.0)
    states = task_states(session.cluster)
    assert states == {"chief:0": "cut off", "worker:0": "paused", "worker:1": "restarting", "ps:0": "slow", "ps:1": "cut off"}
    assert set(states.values()) <= set(TASK_STATES)
    session.close()


def test_replicas_wait_for_each_other_and_send() -> None:
    session = sd.Session(programs.PROGRAMS["workers from a notebook"][0], programs.cluster_of("workers from a notebook"))
    session.advance(until=0.0003)
    session.inject({"kind": "slow", "task": "worker:2", "factor": 20.0, "until": 1.0})
    seen = set[str]()
    kinds = set[str]()
    for _ in range(60):
        session.advance(events=2)
        if session.state != "paused":
            break
        seen |= set(task_states(session.cluster).values())
        kinds |= {flight.kind for flight in flights(session.cluster)}
    assert {"waiting", "slow"} <= seen and kinds == {"collective"}
    session.close()


def test_looking_changes_nothing() -> None:
    session, other = session_of("coordinator"), session_of("coordinator")
    while session.state == "paused":
        session.advance(events=10)
        task_states(session.cluster), flights(session.cluster), closures_in_flight(session.cluster)
    other.advance()
    assert session.digest() == other.digest()


def test_worker_of_two_coordinators_has_a_closure_of_each() -> None:
    def program(cluster: sd.Cluster) -> None:
        chiefs = [sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)) for _ in range(2)]
        for chief in chiefs * 2:
            chief.schedule(lambda: sd.sleep(1.0))
        for chief in chiefs:
            chief.join()

    session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
    session.advance(until=0.5)
    assert sorted(closures_in_flight(session.cluster)) == [("worker:0", 0), ("worker:0", 0), ("worker:1", 1), ("worker:1", 1)]


def test_since_when_a_task_works_is_when_its_span_begins() -> None:
    session = session_of("coordinator")
    seen: list[tuple[float, str, str, float]] = []
    while session.state == "paused":
        session.advance(by=0.000037)
        for task, (state, since_s) in tasks_since(session.cluster).items():
            if task.startswith("worker") and state in ("reading", "updating") and since_s is not None:
                seen.append((session.now, task, WORK[state], since_s))
    assert len(seen) > 10
    begins = {(span.lane, span.category, span.start_s) for span in session.trace.spans}
    assert [entry for entry in seen if entry[1:] not in begins and entry[0] < session.now] == []


def test_since_when_a_task_is_down_or_paused_is_when_that_began() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.inject({"kind": "pause", "task": "worker:0", "until": 0.002})
    session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.001})
    session.advance(until=0.0008)
    since = tasks_since(session.cluster)
    assert since["worker:0"] == ("paused", 0.0005) and since["worker:1"] == ("restarting", 0.0005)
    session.close()


SLOW = sd.hardware.Network(bandwidth=1e6)


def ways(session: sd.Session) -> list[tuple[str, str, str, float]]:
    return [(flight.source, flight.target, flight.kind, flight.size_bytes) for flight in flights(session.cluster)]


def test_reply_that_has_come_is_not_on_its_way() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            large = sd.Variable(np.zeros(1_000_000, np.float32), name="large")  # 4 MB at 1 MB/s
            small = sd.Variable(np.zeros(10, np.float32), name="small")
        chief = sd.ClusterCoordinator(strategy)
        chief.schedule(sd.function(lambda: large.value.sum() + small.value.sum()))
        chief.join()

    session = sd.Session(program, sd.Cluster({"worker": 1, "ps": 2}, network=SLOW))
    session.advance(until=2.0)
    assert ways(session) == [("ps:0", "worker:0", "read_reply", 4e6)]
    session.inject({"kind": "slow_link", "source": "ps:0", "target": "worker:0", "bandwidth_factor": 2.0, "until": 3.0})
    session.advance(until=2.5)
    assert ways(session) == [("ps:0", "worker:0", "read_reply", 4e6)], "its bytes go on as a flow of their own"
    session.advance(until=4.7)
    assert ways(session) == [], "half a second later it has come"


def test_update_that_waits_for_its_server_has_come() -> None:
    def program(cluster: sd.Cluster) -> None:
        strategy = sd.ParameterServerStrategy(cluster)
        with strategy.scope():
            w = sd.Variable(np.zeros(250_000, np.float32), name="w")
            optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
        chief = sd.ClusterCoordinator(strategy)
        chief.schedule(sd.function(lambda: optimizer.apply_gradients([(w.value, w)])))
        chief.join()

    session = sd.Session(program, sd.Cluster({"worker": 1, "ps": 1}, network=SLOW))
    session.inject({"kind": "slow", "task": "ps:0", "factor": 1e4})
    session.advance(until=1.5)
    assert ways(session) == [("worker:0", "ps:0", "update", 1e6)]
    session.advance(until=2.05)
    assert ways(session) == [] and task_states(session.cluster)["worker:0"] == "updating"
    session.close()


# Of four workers and 1 MB: when a step begins, a moment of it, what goes from rank to rank, and how many bytes.
STEPS = {
    "ring": [(0.25 * step, 0.25 * step + 0.1, [(0, 1), (1, 2), (2, 3), (3, 0)], 250_000) for step in range(6)],
    "reduction to one": [
        (0.0, 0.5, [(1, 0)], 1_000_000),
        (1.0, 1.5, [(2, 0)], 1_000_000),
        (2.0, 2.5, [(3, 0)], 1_000_000),
        (3.0, 4.5, [(0, 1), (0, 2), (0, 3)], 1_000_000),
    ],
    "recursive doubling": [
        (0.0, 0.5, [(0, 1), (1, 0), (2, 3), (3, 2)], 1_000_000),
        (1.0, 1.5, [(0, 2), (1, 3), (2, 0), (3, 1)], 1_000_000),
    ],
}


@pytest.mark.parametrize("is_disturbed", [False, True])
@pytest.mark.parametrize("algorithm", STEPS)
def test_collective_sends_what_belongs_to_the_step_of_the_moment(algorithm: str, is_disturbed: bool) -> None:
    session = sd.Session(programs.one_reduction(algorithm), sd.Cluster({"worker": 4}, network=SLOW))
    for begun_s, at_s, pairs, size_bytes in STEPS[algorithm]:
        session.advance(until=at_s)
        expected = [(f"worker:{source}", f"worker:{target}", "collective", size_bytes) for source, target in pairs]
        assert sorted(ways(session)) == expected
        assert [flight.began_s for flight in flights(session.cluster)] == [pytest.approx(begun_s, abs=0.01)] * len(pairs)
        if is_disturbed and not session.commands:  # from here on its bytes go as flows
            session.inject({"kind": "delay", "source": "worker:0", "target": "worker:1", "seconds": 1.0, "at": 1e5})
            assert sorted(ways(session)) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fault whose time never comes
        session.close()
