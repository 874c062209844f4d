"""A session is the run of the cell, wherever it was paused; and a run of its commands, whatever was done to it."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

import session_programs as programs
import simdist as sd
from simdist import errors
from simdist.process_state import active
from simdist.session import Command, commands_from_json, commands_to_json

CRASH = {"kind": "crash", "task": "worker:1", "restart_after": 0.0002}


def session_of(name: str, seed: int = 3) -> sd.Session:
    program, spec = programs.PROGRAMS[name]
    return sd.Session(program, sd.Cluster(spec, seed=seed))


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_run_in_slices_has_digest_result_and_seconds_of_the_run_in_a_cell(name: str) -> None:
    program, spec = programs.PROGRAMS[name]
    cluster = sd.Cluster(spec, seed=3).fresh()
    result = program(cluster)
    session = session_of(name)
    session.advance(until=cluster.now / 5)
    session.advance(by=cluster.now / 5)
    session.advance(events=3)
    session.advance(steps=1)
    assert session.state == "paused" and session.now < cluster.now
    session.advance()
    assert (session.state, session.now, session.result) == ("finished", cluster.now, result)
    assert session.digest() == cluster.trace.digest()


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_rewound_run_is_the_same_again_with_a_fault_too(name: str) -> None:
    session = session_of(name)
    session.advance(events=15)
    session.inject({"kind": "slow", "task": session.cluster.tasks[-1], "factor": 3.0})
    session.advance(by=0.0)  # what is due now happens, the fault too
    middle, before = session.now, session.digest()
    session.advance()
    end, result, digest = session.now, session.result, session.digest()
    session.rewind(middle)
    assert (session.state, session.now, session.digest()) == ("paused", middle, before)
    session.advance()
    assert (session.now, session.result, session.digest()) == (end, result, digest)


def test_pause_is_where_it_was_asked_for() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    assert session.now == session.cluster.now == 0.0005
    session.advance(by=0.0001)
    assert session.now == pytest.approx(0.0006)
    events = session.cluster.world.clock.events
    session.advance(events=7)
    assert session.cluster.world.clock.events == events + 7
    steps = session.cluster.world.task("worker:0").steps + session.cluster.world.task("worker:1").steps
    session.advance(steps=3)
    assert session.cluster.world.task("worker:0").steps + session.cluster.world.task("worker:1").steps == steps + 3


def test_injected_crash_happens_and_its_commands_do_it_again() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    command = session.inject(CRASH)
    assert session.commands == [command] == [Command(0.0005, CRASH, session.commands[0].after_events)]
    session.advance()
    assert [instant.time_s for instant in session.trace.instants if instant.category == "crash"] == [0.0005]
    again = sd.Session(
        programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3), commands_from_json(commands_to_json(session.commands))
    )
    again.advance()
    assert (again.digest(), again.result, again.commands) == (session.digest(), session.result, session.commands)
    assert session.digest() != _digest_without("coordinator")


def _digest_without(name: str) -> str:
    session = session_of(name)
    session.advance()
    return session.digest()


def test_fault_that_is_injected_before_the_first_advance_finds_the_program_at_its_first_wait() -> None:
    session = session_of("launched mains")
    session.inject({"kind": "crash", "task": "worker:0", "restart_after": 0.002})
    batch = session.fork(0.0)
    for one in (session, batch):
        with pytest.raises(errors.UnavailableError, match="worker:0"):
            one.advance()
    assert (session.digest(), session.now) == (batch.digest(), batch.now)


def test_command_in_the_middle_of_a_moment_is_done_there_again() -> None:
    def program(cluster: sd.Cluster) -> None:
        for number in range(6):
            cluster.trace.instant("chief:0", "mark", str(number), cluster.now)
            sd.sleep(0.0, cluster)
        sd.sleep(1.0, cluster)

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    session.advance(events=3)
    session.inject({"kind": "slow", "task": "worker:0", "factor": 2.0, "until": 0.5})
    session.advance()
    names = [instant.category for instant in session.trace.instants]
    assert names[:3] == ["mark"] * 3 and names.index("slow") < 6, "between two marks of one second"
    again = session.fork(0.0)
    again.advance()
    assert again.digest() == session.digest()


def test_fault_with_a_trigger_begins_then() -> None:
    session = session_of("coordinator")
    session.inject({"kind": "crash", "task": "worker:0", "restart_after": 0.0001, "at": 0.0008})
    session.advance()
    assert [instant.time_s for instant in session.trace.instants if instant.category == "crash"] == [0.0008]


def test_fork_without_the_crash_is_the_run_without_it() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    crash = session.inject(CRASH)
    session.advance(until=0.001)
    assert crash is not None
    fork = session.fork(0.0004, without=[crash])
    assert fork.now == 0.0004 and fork.commands == []
    fork.advance()
    assert fork.digest() == _digest_without("coordinator")
    session.advance()
    found = session.compare(fork)
    assert not found and found.same_until_s == pytest.approx(0.0005) and "crash" in found.first
    assert str(found).startswith("the same until 0.5 ms, then worker:1 crash")
    assert bool(sd.compare(fork, session.fork(0.0, without=[crash]))) is False
    with pytest.raises(errors.InvalidArgumentError, match="no such command"):
        fork.fork(0.0, without=[crash])


def test_fork_with_another_fault_has_it_too() -> None:
    session = session_of("coordinator")
    session.advance()
    fork = session.fork(0.0, plus=[Command(0.0007, {"kind": "pause", "task": "ps:0", "until": 0.0012})])
    fork.advance()
    assert [instant.time_s for instant in fork.trace.instants if instant.category == "pause"] == [0.0007]
    assert fork.result and session.compare(fork).same_until_s == pytest.approx(0.0007)


def test_later_commands_come_again_after_a_rewind_and_others_can_come_before_them() -> None:
    session = session_of("coordinator")
    session.advance(until=0.001)
    session.inject(CRASH)
    session.advance()
    session.rewind(0.0004)
    session.inject({"kind": "slow", "task": "worker:0", "factor": 5.0, "until": 0.0009})
    assert [command.at_s for command in session.commands] == [0.0004, 0.001]
    session.advance()
    assert [instant.time_s for instant in session.trace.instants if instant.category == "crash"] == [0.001]
    batch = sd.Session(programs.coordinator, sd.Cluster({"worker": 2, "ps": 2}, seed=3), session.commands)
    batch.advance()
    assert batch.digest() == session.digest()


def test_output_is_kept_and_the_notebooks_own_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    session = session_of("coordinator")
    stream = sys.stdout
    session.advance(until=0.0015)
    assert sys.stdout is stream
    print("mine")
    session.advance()
    assert capsys.readouterr().out == "mine\n"
    assert [line.split(" at")[0] for line in session.output.splitlines()] == ["epoch 0", "epoch 1", "epoch 2"]
    session.rewind(0.0)
    assert session.output == ""


def test_process_has_the_notebooks_state_while_a_session_is_paused() -> None:
    own = active.context
    session = session_of("launched mains")
    session.advance(events=60)
    assert active.context is own and not sd.has_strategy()
    layer = sd.keras.layers.Dense(2)
    session.advance()
    assert (active.context is own and layer.name == "dense") or layer.name.startswith("dense_")


# -- what goes wrong ------------------------------------------------------------------------------------------------------


def test_error_ends_the_session_with_its_second_and_a_rewind_goes_back_before_it() -> None:
    def program(cluster: sd.Cluster) -> None:
        sd.sleep(1.0, cluster)
        raise RuntimeError("not enough")

    session = sd.Session(program, sd.Cluster({"worker": 1}))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not enough"):
            session.advance()
    assert (session.state, session.now) == ("failed", 1.0) and isinstance(session.error, RuntimeError)
    with pytest.raises(errors.FailedPreconditionError, match=r"failed at 1\.000000 s.*rewind"):
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
    assert session.digest() == _digest_without("coordinator")


def signal_once() -> None:
    signal.raise_signal(signal.SIGINT)


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
    assert session.digest() == _digest_without("coordinator")


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
        (TypeError, lambda: sd.Session(lambda cluster: None, {"worker": 1})),  # type: ignore[arg-type]
        (TypeError, lambda: sd.Session(lambda cluster: None, sd.Cluster({"worker": 1}), [{"at_s": 1}])),  # type: ignore[list-item]
        (errors.FailedPreconditionError, lambda: sd.Session(lambda cluster: None, sd.Cluster({"worker": 1}, engine="in_process"))),
    ]
    for error, call in wrong:
        with pytest.raises(error):
            call()
    assert session.digest() == before and session.commands == [] and session.now == 0.0005


def test_play_lets_other_work_go_on() -> None:
    session = sd.Session(lambda cluster: [sd.sleep(1.0, cluster) for _ in range(3_000)], sd.Cluster({"worker": 1}))
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while session.state != "finished":
            ticks += 1
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(session.play(), tick())

    asyncio.run(both())
    assert session.state == "finished" and session.now == 3_000.0 and ticks >= 2


def test_fault_from_another_thread_is_injected_between_two_events() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    thread = threading.Thread(target=lambda: session.inject(CRASH))
    thread.start()
    thread.join()
    assert session.commands == []
    session.advance()
    assert [command.fault["kind"] for command in session.commands] == ["crash"]
    again = session.fork(0.0)
    again.advance()
    assert again.digest() == session.digest()


def test_rewinding_says_how_long_it_will_take() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    half_s = session.rewind_seconds(0.0004)
    session.advance()
    assert 0.0 < half_s <= session.rewind_seconds(session.now)
    assert session.rewind_seconds(0.0004) == half_s
