"""A session is the run of the cell, wherever it was paused; and a run of its commands, whatever was done to it."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

import session_programs as programs
import simdist as sd
from sampling import covering, sampled
from session_programs import CRASH, digest_without_faults, session_of
from simdist import errors
from simdist.faults.plan_json import fault_from_plain
from simdist.process_state import active
from simdist.session import Command, commands_from_json, commands_to_json

# The others are like some of these, and the test below runs them all in two pieces.
SAMPLE = ("coordinator", "fit of servers", "mirrored", "survivors", "launched mains")


@pytest.mark.parametrize("name", sampled(programs.PROGRAMS, SAMPLE))
def test_run_in_slices_has_digest_result_and_seconds_of_the_run_in_a_cell(name: str) -> None:
    cluster = programs.cluster_of(name)
    result = programs.PROGRAMS[name][0](cluster)
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


def test_pause_after_completed_closures_of_which_none_counts_twice() -> None:
    chiefs: list[sd.ClusterCoordinator] = []

    def program(cluster: sd.Cluster) -> None:
        chiefs.append(sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster)))
        for _ in range(18):
            chiefs[-1].schedule(lambda: sd.sleep(0.001))
        chiefs[-1].join()

    session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
    session.advance(closures=3)
    assert 18 - chiefs[-1].queue.pending == 3
    session.inject(CRASH)
    session.advance(closures=4)
    assert 18 - chiefs[-1].queue.pending == 7 and "retry" in [instant.category for instant in session.trace.instants]
    session.advance(closures=0)
    assert 18 - chiefs[-1].queue.pending == 7
    session.advance(closures=1_000)
    assert (session.state, chiefs[-1].queue.pending) == ("finished", 0)


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
    assert session.digest() != digest_without_faults("coordinator")


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


SILENT = [
    {"kind": "lose_host", "task": "TASK"},
    {"kind": "lose_host", "task": "TASK", "restart_after": 0.002},
    {"kind": "pause", "task": "TASK", "until": 8.0},
    {"kind": "partition", "a": "TASK", "b": "chief:0", "until": 9.0},
]


PAIRS = [(name, fault) for name in programs.PROGRAMS for fault in SILENT]


@pytest.mark.parametrize(("name", "fault"), sampled(PAIRS, covering(PAIRS)))
def test_silence_that_begins_in_the_middle_of_a_step_is_noticed_like_one_that_was_planned(name: str, fault: dict[str, Any]) -> None:
    session = session_of(name)
    session.advance(until=0.00041)
    task = session.cluster.tasks[1:3][-1]
    silent = {figure: task if value == "TASK" else value for figure, value in fault.items()}
    session.inject(silent)
    planned = programs.cluster_of(name)
    planned.faults.add(fault_from_plain({**silent, "at": 0.00041}))
    endings: list[tuple[str, float]] = []
    for cluster, run in ((session.cluster, session.advance), (planned, lambda: programs.PROGRAMS[name][0](planned))):
        try:
            run()
            endings.append(("finished", cluster.now))
        except errors.SimdistError as error:
            endings.append((f"{type(error).__name__}: {error}", cluster.now))
    assert endings[0][0] == endings[1][0]
    assert endings[0][1] == pytest.approx(endings[1][1], abs=1.0), "heartbeats may begin at another time"


def test_fork_without_the_crash_is_the_run_without_it() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    crash = session.inject(CRASH)
    session.advance(until=0.001)
    assert crash is not None
    fork = session.fork(0.0004, without=[crash])
    assert fork.now == 0.0004 and fork.commands == []
    fork.advance()
    assert fork.digest() == digest_without_faults("coordinator")
    session.advance()
    found = session.compare(fork)
    assert not found and found.same_until_s == pytest.approx(0.0005) and "crash" in found.first
    assert str(found).startswith("the same until 0.5 ms, then crash of worker:1 in the first, ")
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


@pytest.mark.parametrize(
    "make", [lambda: sd.MirroredStrategy(2), sd.OneDeviceStrategy, sd.TPUStrategy, lambda: sd.CentralStorageStrategy(2)]
)
def test_strategy_on_a_cluster_that_the_session_does_not_control_is_refused(make: Any) -> None:
    session = sd.Session(lambda _: make(), sd.Cluster({"worker": 1}))
    with pytest.raises(errors.FailedPreconditionError, match="without cluster= in the program of a session"):
        session.advance()
    assert make().num_replicas_in_sync >= 1, "outside it has a cluster of its own"


def test_code_without_a_strategy_is_not_refused() -> None:
    session = sd.Session(lambda _: float(sd.Variable(2.0).numpy()), sd.Cluster({"worker": 1}))
    session.advance()
    assert session.result == 2.0


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


def test_a_fault_that_is_refused_before_the_start_changes_nothing() -> None:
    def program(cluster: sd.Cluster) -> None:
        coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        coordinator.schedule(sd.function(lambda: 1.0, seconds=1.0))
        coordinator.join()

    session = sd.Session(program, sd.Cluster({"worker": 1, "ps": 1}))
    before = session.moment()
    with pytest.raises(errors.InvalidArgumentError, match="worker:7"):
        session.inject({"kind": "crash", "task": "worker:7"})
    assert session.moment() == before
