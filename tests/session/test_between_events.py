"""A session stands at the second that was asked for, also where commands lie between two events; the events are at whole seconds here."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import simdist as sd
from simdist.session import Command

AFTER_A_COMMAND = 2.5
BETWEEN_TWO_EVENTS = (2.0, 2.2, AFTER_A_COMMAND, 2.7, 3.0)


def training(cluster: sd.Cluster) -> float:
    """Four steps of one second."""
    strategy = sd.MultiWorkerMirroredStrategy(cluster)
    with strategy.scope():
        v = sd.Variable(0.0)
    step = sd.function(seconds=1.0)(lambda: strategy.run(lambda: v.assign_add(sd.get_replica_context().all_reduce("sum", 1.0))))
    for _ in range(4):
        step()
    return float(v)


def of_a_main(cluster: sd.Cluster) -> str:
    run = cluster.launch(lambda: [sd.sleep(1.0) for _ in range(4)])
    run.join()
    return "done"


def slow(factor: float, task: str = "worker:1") -> dict[str, Any]:
    return {"kind": "slow", "task": task, "factor": factor}


def session_with(program: Callable[[sd.Cluster], Any], *commands: tuple[float, float]) -> sd.Session:
    """A session to the end, into which workers that slow down were injected: at a second, by a factor."""
    session = sd.Session(program, sd.Cluster({"worker": 2}))
    for at_s, factor in commands:
        session.advance(until=at_s)
        session.inject(slow(factor))
    session.advance()
    return session


def by_rewind(session: sd.Session, t: float) -> sd.Session:
    session.rewind(t)
    return session


def by_fork(session: sd.Session, t: float) -> sd.Session:
    return session.fork(t)


def by_fork_of_a_fork(session: sd.Session, t: float) -> sd.Session:
    return session.fork(0.7).fork(t)


def by_until(session: sd.Session, t: float) -> sd.Session:
    session.rewind(1.0)
    session.advance(until=t)
    return session


def by_steps_of_time(session: sd.Session, t: float) -> sd.Session:
    session.rewind(1.5)
    session.advance(by=0.5)
    session.advance(by=t - session.now)
    return session


REACHED_BY = (by_rewind, by_fork, by_fork_of_a_fork, by_until, by_steps_of_time)


@pytest.mark.parametrize("program", [training, of_a_main])
@pytest.mark.parametrize("go", REACHED_BY)
def test_session_stands_where_it_was_asked_to_and_goes_on_as_ever(go: Callable[..., sd.Session], program: Any) -> None:
    for t in BETWEEN_TWO_EVENTS:
        session = session_with(program, (AFTER_A_COMMAND, 2.0))
        digest, end_s = session.digest(), session.now
        found = go(session, t)
        assert found.now == pytest.approx(t)
        assert len(found.faults) == (t >= AFTER_A_COMMAND), f"at {t} s"
        found.advance()
        assert (found.digest(), found.now) == (digest, end_s)


@pytest.mark.parametrize("go", REACHED_BY)
def test_fault_before_a_command_falls_where_it_is_injected(go: Callable[..., sd.Session]) -> None:
    found = go(session_with(training, (AFTER_A_COMMAND, 2.0)), 2.2)
    command = found.inject({"kind": "slow", "task": "worker:0", "factor": 3.0})
    assert command is not None and command.at_s == pytest.approx(2.2)
    assert [command.at_s for command in found.commands] == [pytest.approx(2.2), AFTER_A_COMMAND]
    found.advance()
    batch = sd.Session(training, sd.Cluster({"worker": 2}), [Command(command.at_s, command.fault), Command(2.5, slow(2.0))])
    batch.advance()
    assert (found.digest(), found.now) == (batch.digest(), batch.now)


def test_several_commands_between_two_events_and_at_one_second_are_done_one_by_one() -> None:
    commands = ((2.1, 2.0), (2.1, 3.0), (2.4, 5.0), (2.4, 7.0), (2.8, 11.0))
    session = session_with(training, *commands)
    digest = session.digest()
    for t, other_s in itertools.product((2.05, 2.1, 2.3, 2.4, 2.6, 2.8, 2.9), (None, 2.1, 2.6)):
        found = session.fork(t) if other_s is None else session.fork(min(t, other_s))
        found.advance(until=t)
        assert found.now == t
        assert len(found.faults) == sum(at_s <= t for at_s, _ in commands)
        found.advance()
        assert found.digest() == digest


def test_run_that_was_put_aside_before_a_command_comes_back_there() -> None:
    session = session_with(training, (2.5, 2.0))
    session._branch.family.most_runs = 1
    session.rewind(2.2)
    moment, digest = session.moment(), session.digest()
    session.fork(3.0)
    assert not session.is_kept
    assert (session.cluster.now, session.moment(), session.digest(), session.faults) == (2.2, moment, digest, [])


def test_events_and_steps_are_reached_before_a_command_that_comes_later() -> None:
    session = session_with(training, (2.5, 2.0))
    session.rewind(1.5)
    session.advance(steps=2)  # of two workers
    reached_s = session.now
    assert 2.0 < reached_s < 2.1
    assert not session.faults
    while session.cluster.world.clock.queue[0][0] < 2.5:
        session.advance(events=1)
    assert session.now < 2.1
    session.advance(events=0)
    assert session.now < 2.1
    assert not session.faults
    session.advance(events=1)
    assert len(session.faults) == 1


def test_fork_without_the_commands_is_the_run_that_never_had_them() -> None:
    session = session_with(training, (2.2, 2.0), (2.5, 3.0))
    plain = sd.Session(training, sd.Cluster({"worker": 2}))
    for t in (2.0, 2.1, 2.3, 2.5, 2.9):
        plain.rewind(0.0)
        plain.advance(until=t)
        fork = session.fork(t, without=session.commands)
        assert (fork.now, fork.digest()) == (t, plain.digest())
    assert session.fork(2.1).digest() == plain.fork(2.1).digest()
    assert session.compare(plain.fork(9.0)).same_until_s == 2.2


def test_fault_of_another_thread_leaves_later_commands_at_their_seconds() -> None:
    session = session_with(training, (2.5, 2.0))
    session.rewind(0.5)
    # Its end is an event more before the later command.
    brief = {"kind": "slow", "task": "worker:0", "factor": 1.0, "until": 1.5}
    thread = threading.Thread(target=lambda: session.inject(brief))
    thread.start()
    thread.join()
    session.advance()
    assert [instant.time_s for instant in session.trace.instants if instant.category == "slow"] == [0.5, 2.5]
    assert [command.at_s for command in session.commands] == [0.5, 2.5]
