"""Scenarios are data, and drawn from a seed and a number alone."""

from __future__ import annotations

import pytest

from simdist.chaos import Chips, Disturbance, Scenario, Wires, examine, run
from simdist.chaos.dice import Dice
from simdist.chaos.drawing import calm, disturbed
from simdist.chaos.kinds import KINDS, Ground
from simdist.chaos.workloads import WORKLOADS
from simdist.chaos.workloads.synchronous import COMPRESSORS
from simdist.collectives import ALL_REDUCE
from simdist.errors import InvalidArgumentError

GROUND = Ground(
    length_s=2.0,
    moments_s=(0.5, 1.5),
    roles={"worker": ("worker:0", "worker:1"), "server": ("ps:0",), "chief": ("chief:0",)},
    steps={"worker:0": 3, "worker:1": 4},
    observations=5,
    scales_s=(1e-4, 2.0),
    disks=("ps:0",),
)


def drawn(number: int, timing_only: float = 0.875) -> Scenario:
    return disturbed(calm(11, number, timing_only=timing_only), GROUND, 11, number)


def test_scenarios_survive_json() -> None:
    for number in range(200):
        scenario = drawn(number, timing_only=0.5)
        assert Scenario.from_json(scenario.to_json()) == scenario


def test_everything_that_differs_from_its_default_is_in_the_text() -> None:
    crash = Disturbance("crash", "worker:1", when=("detect", 2), figures={"restart_after": None})
    scenario = Scenario("elastic", {"steps": 2}, 3, 2, Wires(1e6), Chips(1e-3, "lognormal", 0.3), "replay", (crash,), (1, 4), 9)
    assert Scenario.from_json(scenario.to_json()) == scenario


@pytest.mark.parametrize("text", ["[]", "{", '{"workload": "mains", "moons": 3}', "{}"])
def test_what_is_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no scenario"):
        Scenario.from_json(text)


def test_an_unknown_jitter_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="uniform"):
        Chips(jitter="wild").device()


def test_the_same_seed_and_number_give_the_same_scenario_and_others_another() -> None:
    assert [drawn(number) for number in range(20)] == [drawn(number) for number in range(20)]
    assert len({drawn(number).to_json() for number in range(20)}) == 20


def test_draws_of_one_part_do_not_shift_those_of_another() -> None:
    dice = Dice(3, "a")
    before = dice.part("b").whole(1, 10**6)
    dice.part("c").whole(1, 10**6)
    dice.whole(1, 10**6)
    assert dice.part("b").whole(1, 10**6) == before


def test_scenarios_lie_within_their_ranges_and_reach_the_ends() -> None:
    scenarios = [drawn(number, timing_only=0.5) for number in range(400)]
    assert {scenario.workload for scenario in scenarios} == set(WORKLOADS)
    assert {d.kind for scenario in scenarios for d in scenario.disturbances} == set(KINDS)
    assert {scenario.numerics for scenario in scenarios} == {"off", "deferred", "eager", "loop", "replay"}
    assert all(1 <= scenario.workers <= WORKLOADS[scenario.workload].most_workers for scenario in scenarios)
    assert max(scenario.workers for scenario in scenarios) > 5
    assert all(scenario.reads == () for scenario in scenarios if not scenario.has_numbers)
    crashes = [d for scenario in scenarios for d in scenario.disturbances if d.kind == "crash"]
    assert {d.figures["restart_after"] is None for d in crashes} == {True, False}
    assert any(d.at_s == 0.0 for d in crashes) and any(d.after_steps for d in crashes) and any(d.when for d in crashes)


def test_a_crash_falls_into_the_very_moment_of_a_restart_now_and_then() -> None:
    def hits(scenario: Scenario) -> bool:
        crashes = [d for d in scenario.disturbances if d.kind == "crash" and d.at_s is not None]
        ends = {(d.at_s or 0.0) + d.figures["restart_after"] for d in crashes if d.figures["restart_after"]}
        return any(d.at_s in ends for d in crashes)

    assert sum(hits(drawn(number)) for number in range(400)) > 5


def test_silences_last_a_moment_a_while_and_for_ever_between_one_and_many_with_and_without_the_chief() -> None:
    silences = [d for number in range(400) for d in drawn(number).disturbances if d.kind in ("pause", "partition")]
    lasts_s = [d.figures["until"] - (d.at_s or 0.0) for d in silences if d.figures["until"] is not None]
    assert min(lasts_s) < 1e-4 and max(lasts_s) > 25.0 and len(lasts_s) < len(silences)
    cuts = [d.figures for d in silences if d.kind == "partition"]
    assert {(len(cut["a"]) > 1, len(cut["b"]) > 1, cut["one_way"]) for cut in cuts} >= {
        (False, True, True),
        (True, False, True),
        (False, False, False),
    }
    assert {"chief:0" in (*cut["a"], *cut["b"]) for cut in cuts} == {True, False}
    assert all(d.task != "chief:0" for d in silences if d.kind == "pause")


def test_timing_only_says_how_many_compute_numbers() -> None:
    assert not any(calm(5, number, timing_only=1.0).has_numbers for number in range(100))
    assert 10 < sum(calm(5, number, timing_only=0.8).has_numbers for number in range(100)) < 35


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_runs_to_its_end_when_nothing_goes_wrong(name: str) -> None:
    scenario = next(
        s for s in (calm(1, number, name, timing_only=0.0) for number in range(20)) if s.options.get("script", "s").strip("spzb") == ""
    )
    done = run(scenario)
    done.close()
    assert done.error is None and done.end_s > 0.0
    assert done.stage.observations or done.workload.name == "mains"
    assert Scenario.from_json(scenario.to_json()) == scenario


def test_some_closures_take_and_give_more_bytes_than_a_packet_has() -> None:
    letters = "".join(calm(1, number, "coordinator").options["script"] for number in range(30))
    assert letters.count("b") > 4 and letters.count("s") > letters.count("b")


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_smaller_options_are_other_options_of_the_same_workload(name: str) -> None:
    scenario = calm(2, 3, name)
    for options in WORKLOADS[name].smaller(scenario):
        assert options != scenario.options and options.keys() == scenario.options.keys()


def test_all_routes_for_gradients_and_all_algorithms_are_drawn() -> None:
    drawn = [calm(3, number, "multi-worker").options for number in range(150)]
    assert {options.get("route") for options in drawn} == {None, "packs", *COMPRESSORS}
    assert {options.get("algorithm") for options in drawn} == {None, *ALL_REDUCE}
    assert {calm(3, number, "multi-worker-fit").options.get("dropout") for number in range(30)} == {None, True}


@pytest.mark.parametrize("route", ["packs", *COMPRESSORS])
def test_gradients_may_travel_by_every_route(route: str) -> None:
    options = {"steps": 2, "batch": 6, "momentum": False, "route": route, "algorithm": "ring"}
    assert examine(Scenario("multi-worker", options, workers=2, numerics="deferred"), again=False, forgotten=False) == []
