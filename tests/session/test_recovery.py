"""What a fault has cost: the phases sum to the difference of two runs, exactly, and to figures that can be worked out by hand."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import pytest

import simdist as sd
from sampling import covering, sampled
from session_programs import session_of
from simdist import errors
from simdist.faults.base import KINDS
from simdist.session import Command, Recovery

FAULTS: dict[str, dict[str, Any]] = {
    "crash": {"task": "TASK", "restart_after": 0.001},
    "lose_host": {"task": "TASK", "restart_after": 0.002},
    "preempt": {"task": "TASK", "notice": 0.0004, "restart_after": 0.001},
    "disk_full": {"task": "TASK", "until": 0.003},
    "disk_slow": {"task": "TASK", "factor": 4.0},
    "torn_write": {"task": "TASK"},
    "slow": {"task": "TASK", "factor": 4.0, "until": 0.003},
    "pause": {"task": "TASK", "until": 0.002},
    "partition": {"a": "TASK", "b": "chief:0", "until": 0.002},
    "drop": {"source": "TASK", "target": "chief:0", "probability": 0.5, "until": 0.002},
    "delay": {"source": "TASK", "target": "chief:0", "seconds": 0.0003, "until": 0.002},
    "duplicate": {"source": "TASK", "target": "chief:0", "until": 0.002},
    "slow_link": {"source": "TASK", "target": "chief:0", "bandwidth_factor": 30.0, "until": 0.002},
}


def sleeping(cluster: sd.Cluster) -> int:
    """Six closures of one second, on two workers: three seconds."""
    chief = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    for _ in range(6):
        chief.schedule(lambda: sd.sleep(1.0))
    chief.join()
    return chief.scheduled


def story_of(fault: dict[str, Any], at_s: float = 1.5, **options: Any) -> Recovery:
    session = sd.Session(sleeping, sd.Cluster({"worker": 2, "ps": 1}))
    session.advance(until=at_s)
    command = session.inject(fault)
    assert command is not None
    return sd.recovery(session, command, **options)


NAMES = ["coordinator", "fit of servers", "survivors", "workers from a notebook", "mirrored"]
PAIRS = [(name, kind) for name in NAMES for kind in KINDS]


@pytest.mark.parametrize(("name", "kind"), sampled(PAIRS, covering(PAIRS)))
def test_costs_of_the_phases_sum_to_the_difference_exactly(name: str, kind: str) -> None:
    session = session_of(name)
    session.advance(until=0.00041)
    task = session.cluster.tasks[1:3][-1]
    command = session.inject({"kind": kind, **{figure: task if value == "TASK" else value for figure, value in FAULTS[kind].items()}})
    assert command is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of faults whose time never comes
        story = sd.recovery(session, command)
    lags = [story.phases[0].lag_before_s, *(phase.lag_after_s for phase in story.phases)]
    assert lags[0] == 0.0 and lags[-1] == story.end_s - story.end_without_s == story.cost_s
    assert [phase.lag_before_s for phase in story.phases[1:]] == lags[1:-1]
    assert sum(Fraction(phase.lag_after_s) - Fraction(phase.lag_before_s) for phase in story.phases) == Fraction(story.cost_s)
    moments = [story.phases[0].begin_s, *(phase.end_s for phase in story.phases)]
    assert moments == sorted(moments) and moments[0] == 0.00041 and moments[-1] == story.end_s
    assert session.state == "paused" and session.now == 0.00041, "the session itself is where it was"


def test_crash_costs_what_can_be_worked_out_by_hand() -> None:
    story = story_of({"kind": "crash", "task": "worker:1", "restart_after": 0.25})
    # The closure that began at 1 s begins again at 1.75 s; the other worker takes the fifth at 2 s, and the sixth waits until 2.75 s.
    assert story.end_without_s == pytest.approx(3.0, abs=0.01) and story.end_s == pytest.approx(3.75, abs=0.01)
    assert story.lost_s == pytest.approx(0.5, abs=0.01)
    costs_s = {phase.name: phase.cost_s for phase in story.phases}
    assert list(costs_s) == ["detection", "decision", "restoration", "afterwards"]
    assert costs_s["detection"] == costs_s["decision"] == costs_s["restoration"] == 0.0, "until then nothing was late"
    assert costs_s["afterwards"] == pytest.approx(0.75, abs=0.01)
    assert story.waited_s == pytest.approx(0.75, abs=0.01), "the other worker, at the end"
    assert (story.state, story.state_without, story.units, story.units_without) == ("finished", "finished", 6, 6)


def test_preemption_costs_what_is_lost_at_the_kill_and_not_at_the_notice() -> None:
    story = story_of({"kind": "preempt", "task": "worker:1", "notice": 0.3, "restart_after": 0.25})
    # The closure that began at 1 s is lost at 1.8 s. The other worker takes it at 2 s, and the sixth at 3 s.
    assert story.lost_s == pytest.approx(0.8, abs=0.01) and story.end_s == pytest.approx(4.0, abs=0.01)
    assert [phase.name for phase in story.phases] == ["detection", "decision", "restoration", "afterwards"]
    ends_s = [phase.end_s for phase in story.phases[:3]]
    assert ends_s == [pytest.approx(1.8, abs=0.001), pytest.approx(1.8, abs=0.001), pytest.approx(2.05)]


def test_silence_costs_what_it_takes_to_be_noticed() -> None:
    story = story_of({"kind": "lose_host", "task": "worker:1"})
    costs_s = {phase.name: phase.cost_s for phase in story.phases}
    # Five seconds of silence after the last heartbeat, then the other worker does what is left: the lost closure again, last of all.
    assert story.phases[0].end_s == pytest.approx(7.0, abs=1.0)
    assert costs_s["detection"] == pytest.approx(story.phases[0].end_s - 3.0, abs=0.01)
    assert story.cost_s == pytest.approx(story.phases[0].end_s + 1.0 - 3.0, abs=0.01)


def test_fault_that_costs_nothing_says_so() -> None:
    story = story_of({"kind": "duplicate", "source": "worker:0", "target": "chief:0", "until": 2.5})
    assert story.cost_s == pytest.approx(0.0, abs=1e-6) and story.repeated_steps == 0 and story.lost_s == 0.0


def test_fault_that_never_begins_has_no_phases() -> None:
    story = story_of({"kind": "crash", "task": "worker:1", "at": 50.0})
    assert story.phases == () and story.cost_s == 0.0
    assert "never" in str(story)


def test_losses_are_compared_where_they_are_asked_for() -> None:
    story = story_of({"kind": "crash", "task": "worker:1", "restart_after": 0.25}, loss=lambda result: result / 2)
    assert (story.loss, story.loss_without) == (3.0, 3.0)
    assert "loss           3, without the fault 3" in str(story)


def test_run_that_fails_says_how_far_it_came() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    command = session.inject({"kind": "crash", "task": "ps:0"})
    assert command is not None
    story = sd.recovery(session, command)
    assert (story.state, story.state_without) == ("failed", "finished")
    assert story.units < story.units_without and story.cost_s < 0.0
    assert "came to" in str(story) and "failed" in str(story)


def test_session_that_is_over_is_used_as_it_is() -> None:
    session = sd.Session(sleeping, sd.Cluster({"worker": 2, "ps": 1}))
    session.advance(until=1.5)
    command = session.inject({"kind": "crash", "task": "worker:1"})
    assert command is not None
    paused = sd.recovery(session, command)
    session.advance()
    assert sd.recovery(session, command) == paused


def test_command_of_another_session_is_refused() -> None:
    session = sd.Session(sleeping, sd.Cluster({"worker": 2, "ps": 1}))
    with pytest.raises(errors.InvalidArgumentError, match="no command of this session"):
        sd.recovery(session, Command(1.0, {"kind": "crash", "task": "worker:0"}))


def test_names_that_begin_alike_are_different_tasks() -> None:
    def program(cluster: sd.Cluster) -> None:
        chief = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        for _ in range(33):
            chief.schedule(lambda: sd.sleep(1.0))
        chief.join()

    session = sd.Session(program, sd.Cluster({"worker": 11, "ps": 1}))
    session.advance(until=0.5)
    command = session.inject({"kind": "slow", "task": "worker:1", "factor": 2.0, "until": 2.7})
    assert command is not None
    session.inject({"kind": "crash", "task": "worker:10", "restart_after": 0.25})
    session.advance(until=1.2)
    session.inject({"kind": "slow", "task": "worker:1", "factor": 1.5, "until": 1.4})
    story = sd.recovery(session, command)
    phases = {phase.name: phase.end_s for phase in story.phases}
    assert "detection" not in phases and "decision" not in phases, "those were of worker:10"
    assert phases["restoration"] == 2.7, "the heal of the other slowness is not its own"


def test_time_without_work_is_not_lost() -> None:
    def program(cluster: sd.Cluster) -> None:
        chief = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
        for _ in range(2):
            for _ in range(2):
                chief.schedule(lambda: sd.sleep(1.0))
            chief.join()
            sd.sleep(9.0, cluster)

    def lost_s(at_s: float) -> float:
        session = sd.Session(program, sd.Cluster({"worker": 2, "ps": 1}))
        session.advance(until=at_s)
        command = session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.25})
        assert command is not None
        session.advance(until=10.5)
        session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.25})
        return sd.recovery(session, command).lost_s

    assert lost_s(5.0) == 0.0, "it had nothing to do, and what it lost later was another crash's doing"
    assert lost_s(10.25) == pytest.approx(0.25, abs=0.01), "since the closure began, and not since the one before ended"


def test_work_of_a_backup_worker_is_lost_also_where_it_would_have_been_dropped() -> None:
    def program(cluster: sd.Cluster) -> None:
        cluster.faults.slow("worker:2", 4.0, at=0.0)
        strategy = sd.ParameterServerStrategy(cluster, mode="sync", backup_workers=1)
        with strategy.scope():
            count = sd.Variable(0.0)
        chief = sd.ClusterCoordinator(strategy)
        step = sd.function(lambda: count.assign_add(1.0), seconds=1.0)
        for _ in range(8):
            chief.schedule(step)
        chief.join()

    session = sd.Session(program, sd.Cluster({"worker": 3, "ps": 1}))
    session.advance(until=0.5)
    command = session.inject({"kind": "crash", "task": "worker:2", "restart_after": 0.1})
    assert command is not None
    assert sd.recovery(session, command).lost_s == pytest.approx(0.5, abs=0.01)


def test_death_in_the_middle_of_a_step_loses_what_the_replica_had_of_it() -> None:
    session = session_of("survivors")
    session.advance(steps=3)
    begun_s = session.now
    session.advance(by=0.00001)
    command = session.inject({"kind": "crash", "task": "worker:1", "restart_after": 0.001})
    assert command is not None
    assert sd.recovery(session, command).lost_s >= session.now - begun_s > 0.0


def test_run_that_fails_before_its_first_closure_has_come_to_none() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0003)
    assert session.steps > 0 == session.closures
    command = session.inject({"kind": "crash", "task": "chief:0"})
    assert command is not None
    story = sd.recovery(session, command)
    assert (story.state, story.units, story.units_without) == ("failed", 0, 18)


def test_closure_whose_reply_was_on_its_way_is_lost_with_its_task() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    command = session.inject({"kind": "crash", "task": "worker:1", "after_steps": 4, "restart_after": 0.0003})
    assert command is not None
    story = sd.recovery(session, command)
    session.advance()
    (retry,) = session.trace.instants.where(category="retry")
    healthy = session.fork(0.0, without=[command])
    healthy.advance()
    (whole,) = (span for span in healthy.trace.spans.where(lane="worker:1") if span.facts.get("closure") == retry.facts["closure"])
    assert whole.end_s == story.phases[0].begin_s and story.lost_s == whole.duration_s > 0.0


@pytest.mark.parametrize(("restart_after", "repeated"), [(0.001, 1), (None, 1)])
def test_survivors_repeat_the_step_in_which_another_died_and_no_fewer_than_none(restart_after: float | None, repeated: int) -> None:
    session = session_of("survivors")
    session.advance(steps=3)
    session.advance(by=0.00001)
    command = session.inject({"kind": "crash", "task": "worker:1", "restart_after": restart_after})
    assert command is not None
    story = sd.recovery(session, command)
    assert story.steps < story.steps_without, "fewer replicas take fewer steps"
    assert story.repeated_steps == repeated


def test_run_that_fails_has_repeated_no_steps() -> None:
    session = session_of("coordinator")
    session.advance(until=0.0005)
    command = session.inject({"kind": "crash", "task": "ps:0"})
    assert command is not None
    assert sd.recovery(session, command).repeated_steps == 0
