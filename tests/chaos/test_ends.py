"""Who was up, who had the variables, and with which errors a run may therefore end."""

from __future__ import annotations

from typing import Any

import pytest

from simdist.chaos import Disturbance, Scenario, examine, run
from simdist.chaos.holders import somebody_has_the_variables
from simdist.chaos.incarnations import Incarnations
from simdist.trace import Trace

Event = tuple[str, str, float]
NEVER, SOON = {"restart_after": None}, {"restart_after": 1e-3}


def told(*events: Event) -> Trace:
    """A trace in which tasks crash ("-"), come back ("+") and get the variables of a survivor ("=")."""
    trace = Trace()
    for what, task, time_s in events:
        if what == "=":
            trace.span(task, "read", "variables of a survivor", time_s - 0.1, time_s)
        else:
            trace.instant(task, {"-": "crash", "+": "restart"}[what], "", time_s, incarnation=0)
    return trace


def test_another_crash_of_a_task_that_is_down_decides_when_it_comes_back() -> None:
    processes = Incarnations(told(("-", "a", 1.0), ("-", "a", 2.0), ("+", "a", 3.0)))
    (down,) = processes.downs
    assert (down.from_s, down.until_s, down.decided_s) == (1.0, 3.0, 2.0)
    assert [processes.lost(["a"], at_s) for at_s in (0.5, 1.5, 2.5, 3.5)] == [[], ["a"], [], []]


def test_a_main_that_starts_again_is_no_new_life() -> None:
    trace = told(("-", "a", 1.0))
    trace.instant("a", "restart", "the main of a starts again", 2.0)
    assert not Incarnations(trace).is_up("a", 2.5)


@pytest.mark.parametrize(
    ("events", "survives"),
    [
        ([], True),
        ([("-", "a", 1.0)], True),
        ([("-", "a", 1.0), ("-", "b", 2.0)], False),
        ([("-", "a", 1.0), ("+", "a", 1.5), ("-", "b", 2.0)], False),
        ([("-", "a", 1.0), ("+", "a", 1.5), ("=", "a", 1.8), ("-", "b", 2.0)], True),
        ([("-", "a", 1.0), ("+", "a", 1.5), ("=", "a", 1.8), ("-", "a", 1.9), ("-", "b", 2.0)], False),
        ([("-", "a", 1.0), ("-", "b", 9.0)], True),
    ],
)
def test_somebody_has_the_variables_as_long_as_one_kept_or_got_them(events: list[Event], survives: bool) -> None:
    trace = told(*events)
    assert somebody_has_the_variables(trace, Incarnations(trace), ["a", "b"], until_s=5.0) is survives


CLOSURES: dict[str, Any] = {"script": "sss", "callers": 1}


@pytest.mark.parametrize(
    ("scenario", "task", "figures", "excused"),
    [
        (Scenario("coordinator", CLOSURES, workers=2), "worker:0", NEVER, set()),
        (Scenario("coordinator", CLOSURES, workers=1), "worker:0", NEVER, {"DeadlineExceededError", "UnavailableError"}),
        (Scenario("coordinator", CLOSURES, workers=1), "worker:0", SOON, set()),
        (Scenario("coordinator", CLOSURES, workers=2), "ps:0", SOON, {"UnavailableError", "AbortedError"}),
        (Scenario("coordinator", CLOSURES, workers=2), "chief:0", NEVER, {"UnavailableError"}),
        (Scenario("mains", {"naps": 2, "nap_s": 1e-3}, workers=2), "worker:0", SOON, {"UnavailableError", "AbortedError"}),
        (Scenario("mains", {"naps": 2, "nap_s": 1e-3, "restart": "always"}, workers=2), "worker:0", SOON, set()),
        (
            Scenario("mains", {"naps": 2, "nap_s": 1e-3, "restart": "always"}, workers=2),
            "worker:0",
            NEVER,
            {"UnavailableError", "DeadlineExceededError"},
        ),
    ],
)
def test_a_death_excuses_exactly_what_follows_from_it(scenario: Scenario, task: str, figures: Any, excused: set[str]) -> None:
    hit = Scenario(scenario.workload, scenario.options, scenario.workers, disturbances=(Disturbance("crash", task, 1e-4, figures=figures),))
    done = run(hit)
    done.close()
    assert {error.__name__ for error, _ in done.workload.excuses(done)} == excused
    assert done.error is None or type(done.error).__name__ in excused


def test_a_server_without_weights_may_come_back_from_its_checkpoint() -> None:
    options = {"backup_workers": 0, "data": "arguments", "exactly_once": True, "mode": "sync", "momentum": False, "recovery": "checkpoint"}
    scenario = Scenario(
        "servers",
        {**options, "rounds": [7], "shards": 1, "staleness": None},
        workers=2,
        servers=2,
        numerics="loop",
        disturbances=(Disturbance("crash", "ps:1", at_s=0.004, figures={"restart_after": 1e-3}),),
    )
    assert examine(scenario) == []
