from __future__ import annotations

import pytest

from simdist.trace import Trace
from simdist.trace.down_times import unfinished_down_times


@pytest.fixture
def trace() -> Trace:
    trace = Trace()
    trace.span("worker:1", "compute", "step", 0.0, 5.0)
    return trace


@pytest.mark.parametrize("how", ["crash", "lose_host"])
def test_task_that_died_is_down_since_then(trace: Trace, how: str) -> None:
    trace.instant("worker:0", how, "death", 1.0)
    assert unfinished_down_times(trace) == {"worker:0": 1.0}


def test_restarted_task_is_up(trace: Trace) -> None:
    trace.instant("worker:0", "crash", "crash", 1.0)
    trace.instant("worker:0", "restart", "restart", 2.0)
    assert unfinished_down_times(trace) == {}


def test_second_death_counts_after_a_restart_and_not_while_down(trace: Trace) -> None:
    for time_s, category in [(1.0, "crash"), (2.0, "restart"), (3.0, "crash"), (4.0, "lose_host")]:
        trace.instant("worker:0", category, category, time_s)
    assert unfinished_down_times(trace) == {"worker:0": 3.0}


def test_crash_in_the_last_moment_has_no_down_time(trace: Trace) -> None:
    trace.instant("worker:0", "crash", "crash", 5.0)
    assert unfinished_down_times(trace) == {}


def test_other_faults_are_no_deaths(trace: Trace) -> None:
    for category in ("pause", "slow", "partition", "drop"):
        trace.instant("worker:0", category, category, 1.0)
    assert unfinished_down_times(trace) == {}
