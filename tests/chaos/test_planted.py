"""Defects that are put back into the engine: each shows in a scenario that a campaign came upon, and campaigns find them again."""

from __future__ import annotations

from typing import Any

import pytest

from chaos import planted
from simdist.chaos import Chips, Disturbance, Scenario, Wires, examine
from simdist.chaos.block import Examined, Request, examined

SEED, AT_MOST, AT_LEAST = 7, 600, 8  # of the campaigns: scenarios for each defect, and defects that are to be found
LOOP: dict[str, Any] = {"batch": 8, "momentum": False}
ALWAYS: dict[str, Any] = {**LOOP, "restart": "always"}


def crash(task: str, at_s: float, restart_after: float | None) -> Disturbance:
    return Disturbance("crash", task, at_s, figures={"restart_after": restart_after})


def slow(task: str, at_s: float, factor: float, until: float | None) -> Disturbance:
    return Disturbance("slow", task, at_s, figures={"factor": factor, "until": until})


def pause(task: str, at_s: float, until: float | None) -> Disturbance:
    return Disturbance("pause", task, at_s, figures={"until": until})


def cut(source: str, target: str, at_s: float, until: float | None) -> Disturbance:
    return Disturbance("partition", source, at_s, figures={"a": [source], "b": [target], "one_way": True, "until": until})


SHOWN: dict[str, tuple[Scenario, str]] = {
    "slow_faults_take_each_others_place": (
        Scenario(
            "multi-worker", {**LOOP, "steps": 5}, 2, disturbances=(slow("worker:1", 1e-4, 3.0, None), slow("worker:1", 2e-4, 1.5, 3e-4))
        ),
        "factors-multiply",
    ),
    "members_are_known_by_their_task_not_by_their_life": (
        Scenario("elastic", {**LOOP, "steps": 2}, 2, disturbances=(crash("worker:0", 1e-4, 0.0),)),
        "right-end",
    ),
    "a_single_replica_runs_in_the_callers_place": (
        Scenario("elastic", {**LOOP, "steps": 1}, chips=Chips(0.2), disturbances=(crash("worker:0", 0.1, 0.5),)),
        "never-hangs",
    ),
    "mains_start_again_without_a_look_at_their_task": (
        Scenario("trained-mains", {**ALWAYS, "steps": 2}, 2, disturbances=(crash("worker:0", 1e-4, 1e-4), crash("worker:1", 0.5, 2.0))),
        "restart-runs",
    ),
    "mains_killed_before_their_first_line_count_as_ended": (
        Scenario("mains", {"naps": 1, "nap_s": 1e-3, "restart": "always"}, disturbances=(crash("worker:0", 0.0, 1.0),)),
        "restart-runs",
    ),
    "failed_mains_keep_their_bytes": (
        Scenario("trained-mains", {**ALWAYS, "steps": 1}, 2, disturbances=(crash("worker:1", 1e-5, 1e-6),)),
        "memory-account",
    ),
    "closures_that_exit_end_the_loop_of_their_worker": (
        Scenario("coordinator", {"script": "x", "callers": 1}),
        "never-hangs",
    ),
    "errors_cancel_nothing": (
        Scenario("coordinator", {"script": "ssrsssssssssjss", "callers": 1}, 2),
        "cancelled-with-the-error",
    ),
    "only_the_last_who_joins_is_woken": (
        Scenario("coordinator", {"script": "s", "callers": 2}),
        "never-hangs",
    ),
    "another_death_while_a_worker_joins_ends_the_run": (
        Scenario(
            "elastic",
            {**LOOP, "steps": 3},
            3,
            wires=Wires(1e5),
            disturbances=(crash("worker:1", 1e-4, 0.0), crash("worker:0", 2.5e-4, None)),
        ),
        "right-end",
    ),
    "interrupted_looks_drop_updates": (
        Scenario(
            "multi-worker",
            {**LOOP, "steps": 2},
            numerics="loop",
            disturbances=(Disturbance("interrupt", "chief:0", figures={"observation": 3, "call": 2}),),
        ),
        "same-bits-by-plan",
    ),
    "losses_of_layers_are_dropped": (
        Scenario("multi-worker-fit", {"epochs": 1, "penalty": True}, numerics="deferred"),
        "equals-plain",
    ),
    "steps_that_cannot_begin_leave_a_listener": (
        Scenario("backup", {**LOOP, "steps": 2}, 2, chips=Chips(2.82e-3), disturbances=(crash("worker:1", 4.3e-3, 1e-4),)),
        "queues-end-empty",
    ),
}


SHOWN.update(
    {
        "what_is_lost_has_no_time_out": (
            Scenario("coordinator", {"script": "s", "callers": 1}, disturbances=(cut("ps:0", "worker:0", 0.00017, 0.58),)),
            "never-hangs",
        ),
        "heartbeats_of_a_paused_task_go_on": (
            Scenario("mirrored", {**LOOP, "steps": 1, "devices": 1}, disturbances=(pause("worker:0", 0.0067, None),)),
            "belief-exact",
        ),
        "late_replies_count": (
            Scenario("coordinator", {"script": "s", "callers": 1}, chips=Chips(0.212), disturbances=(pause("worker:0", 0.089, 9.6),)),
            "right-end",
        ),
        "copies_of_a_silent_replica_count_when_it_is_back": (
            Scenario("elastic", {**LOOP, "steps": 8}, 2, chips=Chips(2.0), disturbances=(pause("worker:1", 1.0, 9.6),)),
            "joins-with-copies",
        ),
        "a_batch_is_lost_where_bytes_were_lost": (
            Scenario(
                "elastic",
                {"batch": 6, "momentum": False, "steps": 4},
                2,
                chips=Chips(0.253, "lognormal", 0.3),
                numerics="deferred",
                disturbances=(cut("worker:0", "worker:1", 2.2840850894171885, 2.8),),
                seed=869344767,
            ),
            "equals-plain",
        ),
        "timers_of_a_paused_task_run": (
            Scenario("coordinator", {"script": "s", "callers": 1}, chips=Chips(0.212), disturbances=(pause("worker:0", 0.089, 9.6),)),
            "paused-task-is-silent",
        ),
    }
)


@pytest.mark.parametrize("name", list(planted.PLANTED))
def test_a_planted_defect_breaks_its_invariant_and_nothing_is_wrong_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, invariant = SHOWN[name]
    assert examine(scenario, again=False, forgotten=False) == []
    planted.PLANTED[name](monkeypatch)
    assert invariant in {finding.invariant for finding in examine(scenario, again=False, forgotten=False)}


def found(plant: planted.Plant) -> Examined | None:
    """The first scenario of a campaign in which anything is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        return next((one for one in examined(Request(SEED, tuple(range(AT_MOST)))) if one.findings), None)


@pytest.mark.exhaustive
def test_a_campaign_finds_most_planted_defects_by_itself() -> None:
    told: list[str] = []
    for name, plant in planted.PLANTED.items():
        one = found(plant)
        if one is not None:
            assert examine(one.scenario) == [], f"{one.scenario.to_json()} fails without {name} too"
            told.append(f"{name}: after {one.number + 1} scenarios, {one.findings[0]}")
    assert len(told) >= AT_LEAST, "\n".join(told)
