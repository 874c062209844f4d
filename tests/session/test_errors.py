"""What goes wrong in a session leaves it usable, and it says what happened."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import session_programs as programs
import simdist as sd
from session_programs import CRASH, digest_without_faults, session_of
from simdist import errors
from simdist.runtime.simulated.uncontended import AloneOnLinks
from simdist.session import Command
from simdist.session.branch import MOST_RUNS


def test_error_ends_the_session_with_its_second_and_a_rewind_goes_back_before_it() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise RuntimeError("not enough")

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not enough"):
            session.advance()
    assert (session.state, session.now) == ("failed", 1.0) and isinstance(session.error, RuntimeError)
    with pytest.raises(errors.FailedPreconditionError, match=r"has failed at 1\.000000 s with RuntimeError: not enough\. .*rewind"):
        session.inject({"kind": "crash", "task": "worker:0"})
    with pytest.raises(errors.FailedPreconditionError, match="no result"):
        _ = session.result
    fork = session.fork(2.0)
    assert (fork.state, fork.now) == ("failed", 1.0)
    session.rewind(0.5)
    assert (session.state, session.now, session.error) == ("paused", 0.5, None)


def test_program_that_waits_for_ever_fails_and_says_who_waits() -> None:
    def program(cluster: sd.Cluster) -> None:
        cluster.world.clock.wait(cluster.world.clock.gate(), "what never comes")

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    with pytest.raises(errors.DeadlineExceededError, match="what never comes"):
        session.advance()
    assert session.state == "failed"


def test_program_that_never_blocks_runs_at_once() -> None:
    session = sd.Session(lambda _: 7, sd.Cluster({"worker": 1}))
    assert session.state == "paused"
    session.advance(events=0)
    assert (session.state, session.result) == ("finished", 7)


def test_ctrl_c_between_events_pauses_and_the_run_goes_on_unchanged() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.cluster.world.clock.after(0.0001, lambda _: signal_once())
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert session.state == "paused" and session.now == pytest.approx(0.0006)
    session.advance()
    assert session.digest() == digest_without_faults("coordinator")


def signal_once() -> None:
    signal.raise_signal(signal.SIGINT)


def test_ctrl_c_while_a_collective_is_timed_within_an_event_loses_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    done, signals = AloneOnLinks._done, [signal.SIGINT]

    def interrupted(self: AloneOnLinks, rank: int) -> None:
        if signals:
            signal.raise_signal(signals.pop())
        done(self, rank)

    monkeypatch.setattr(AloneOnLinks, "_done", interrupted)
    session = session_of("workers from a notebook")
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert session.state == "paused"
    session.advance()
    assert (session.state, session.digest()) == ("finished", digest_without_faults("workers from a notebook"))


def test_second_ctrl_c_while_an_event_happens_ends_the_program() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    session.cluster.world.clock.after(0.0001, lambda _: [signal_once(), signal_once()])
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert session.state == "failed" and isinstance(session.error, KeyboardInterrupt)


def test_command_that_makes_no_sense_is_an_error_of_advance_and_not_of_the_program() -> None:
    program, spec = programs.PROGRAMS["coordinator"]
    commands = [Command(0.0005, {"kind": "crash", "task": "worker:9"}), Command(0.0007, CRASH)]
    session = sd.Session(program, sd.Cluster(spec, seed=3), commands)
    with pytest.raises(errors.InvalidArgumentError, match="worker:9"):
        session.advance()
    assert (session.state, session.now, session.commands) == ("paused", 0.0005, commands[1:])
    session.advance()
    assert session.state == "finished" and [command.fault for command in session.commands] == [CRASH]


def test_commands_after_the_end_are_a_warning() -> None:
    session = session_of("coordinator")
    session.advance()
    late = session.fork(0.0, plus=[Command(5.0, CRASH)])
    with pytest.warns(UserWarning, match="before 1 of its commands"):
        late.advance()
    assert late.digest() == session.digest()


def test_planned_faults_of_the_cluster_are_refused_because_no_run_would_have_them() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 2})
    with pytest.warns(UserWarning, match="never fired"), cluster:
        cluster.faults.crash("worker:0", at=1.0)
        with pytest.raises(errors.InvalidArgumentError, match="1 planned faults"):
            sd.Session(programs.coordinator, cluster)


def test_closed_session_does_nothing_until_it_is_rewound() -> None:
    session = session_of("coordinator")
    for _ in range(2):
        session.close()
    for call in (session.advance, lambda: session.inject(CRASH)):
        with pytest.raises(errors.FailedPreconditionError, match=r"session\.close"):
            call()
    session.rewind(0.0)
    session.advance()
    assert session.digest() == digest_without_faults("coordinator")


def test_ctrl_c_in_the_programs_own_code_ends_it_and_the_session_can_go_back() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        signal_once()

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert session.state == "failed"
    session.rewind(0.5)
    assert session.state == "paused"


def test_program_cannot_control_its_own_session() -> None:
    sessions: list[sd.Session] = []

    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        sessions[0].rewind(0.0)

    sessions.append(sd.Session(program, sd.Cluster({"worker": 1})))
    with pytest.raises(errors.FailedPreconditionError, match="by a running program"):
        sessions[0].advance()


def test_program_that_swallows_its_end_is_left() -> None:
    def program(cluster: sd.Cluster) -> None:
        while True:
            with suppress(BaseException):
                sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance(until=2.5)
    session.rewind(1.5)
    assert session.now == 1.5
    session.close()


def test_wrong_arguments_are_refused_and_change_nothing() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    before = session.digest()
    wrong: list[tuple[type[Exception], Any]] = [
        (errors.InvalidArgumentError, lambda: session.advance(until=1.0, by=1.0)),
        (errors.InvalidArgumentError, lambda: session.advance(until=0.0001)),
        (errors.InvalidArgumentError, lambda: session.advance(by=-1.0)),
        (TypeError, lambda: session.advance(events=1.5)),
        (errors.InvalidArgumentError, lambda: session.rewind(1.0)),
        (errors.InvalidArgumentError, lambda: session.inject({"kind": "flood", "task": "worker:0"})),
        (errors.InvalidArgumentError, lambda: session.inject({"kind": "crash", "task": "worker:9"})),
        (errors.InvalidArgumentError, lambda: session.inject({"kind": "crash", "task": "worker:0", "at": 0.0001})),
        (TypeError, lambda: session.inject("crash")),
        (TypeError, lambda: sd.Session(3, sd.Cluster({"worker": 1}))),  # type: ignore[arg-type]
        (TypeError, lambda: sd.Session(lambda: None, sd.Cluster({"worker": 1}))),  # type: ignore[arg-type]
        (TypeError, lambda: sd.Session(lambda cluster: None, {"worker": 1})),  # type: ignore[arg-type]
        (TypeError, lambda: sd.Session(lambda cluster: None, sd.Cluster({"worker": 1}), [{"at_s": 1}])),  # type: ignore[list-item]
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    assert session.digest() == before and session.commands == [] and session.now == 0.0005


@pytest.mark.parametrize("isolated", [False, True])
def test_a_cluster_without_time_has_no_session(isolated: bool) -> None:
    with pytest.raises(errors.FailedPreconditionError, match="A session stands still between two events of virtual time"):
        sd.Session(lambda cluster: None, sd.Cluster({"worker": 1}, engine="in_process", isolated=isolated))


@pytest.mark.parametrize("what", ["fork", "rewind", "inject", "trace", "open_share"])
def test_ctrl_c_in_the_programs_own_code_reaches_whatever_runs_it(what: str) -> None:
    interrupt: list[str] = []

    def program(cluster: sd.Cluster) -> None:
        if interrupt:
            signal_once()
        for _ in range(3):
            sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    text = ""
    if what != "inject":  # it is the first to run the program
        session.advance(until=2.5)
        text = sd.share(session)
    forks = [session.fork(0.5) for _ in range(MOST_RUNS)] if what == "trace" else []
    calls: dict[str, Callable[[], object]] = {
        "fork": lambda: session.fork(1.5),
        "rewind": lambda: session.rewind(1.5),
        "inject": lambda: session.inject({"kind": "crash", "task": "worker:0"}),
        "trace": lambda: session.trace,  # the run was put aside, so it is done again
        "open_share": lambda: sd.open_share(text, {"program": program}),
    }
    interrupt.append("now")
    with pytest.raises(KeyboardInterrupt) as caught:
        calls[what]()
    interrupt.clear()
    if what in ("rewind", "inject"):
        assert session.state == "failed" and "session.rewind(t)" in caught.value.__notes__[0]
        session.rewind(0.0)
    else:
        assert (session.state, session.now) == ("paused", 2.5) and len(forks) in (0, MOST_RUNS)
    session.advance()
    assert (session.state, session.now) == ("finished", 3.0)


@pytest.mark.parametrize("given", [None, 3, "digest"])
def test_what_has_no_trace_is_not_compared(given: Any) -> None:
    session = session_of("coordinator")
    with pytest.raises(TypeError, match=r"second is .* expected a session or a cluster"):
        session.compare(given)
    with pytest.raises(TypeError, match="first is"):
        sd.compare(given, session)


@pytest.mark.parametrize("given", [None, len, [len]])
def test_programs_that_have_no_names_are_named_by_the_error(given: Any) -> None:
    session = session_of("coordinator")
    with pytest.raises(TypeError, match=r"programs is .* expected programs by their names"):
        sd.open_share(sd.share(session, "coordinator"), given)
