"""Levels of links against an independent fluid model, and what they promise between two changes."""

from __future__ import annotations

import pytest

from fluid_model import Simulation, assert_like_the_fluid_model, broken_invariants, random_story
from simdist.errors import DeadlineExceededError
from simdist.simulation import settlement
from simdist.simulation.balance import Balance


@pytest.mark.parametrize("seeds", [range(first, first + 50) for first in range(0, 700, 50)], ids=str)
@pytest.mark.sample(2)
def test_random_flows_end_when_the_fluid_model_says(seeds: range) -> None:
    for seed in seeds:
        simulation = Simulation(random_story(seed)).run()
        assert_like_the_fluid_model(simulation)
        assert simulation.shared.refills == 0


def test_random_flows_end_alike_when_every_change_fills_anew() -> None:
    refills = 0
    for seed in range(150):
        simulation = Simulation(random_story(seed), patience=-100_000).run()
        assert_like_the_fluid_model(simulation)
        refills += simulation.shared.refills
    assert refills > 1_000


def test_random_flows_end_alike_whatever_comes_first_in_a_moment() -> None:
    for seed in range(100):
        assert_like_the_fluid_model(Simulation(random_story(seed), tie_seed=seed).run())


def test_random_flows_end_alike_when_queues_often_count_from_zero_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "RESTART_BYTES", 3.0)
    for seed in range(150):
        assert_like_the_fluid_model(Simulation(random_story(seed)).run())


@pytest.mark.parametrize("patience", [400, -100_000])
def test_links_without_a_limit_are_like_links_that_are_wide_enough(patience: int) -> None:
    for seed in range(80):
        story = random_story(seed)
        wide = range(seed % 2, len(story.capacities), 2)
        story.happenings = [each for each in story.happenings if each[1] != "bandwidth" or each[2][0] not in wide]
        found: list[dict[int, float]] = []
        for capacity in (1e15, float("inf")):
            for link in wide:
                story.capacities[link] = capacity
            simulation = Simulation(story, patience).run()
            found.append(simulation.ends | {-link: simulation.shared.bytes_carried(simulation.links[link - 1]) for link in wide if link})
        assert found[1] == pytest.approx(found[0], rel=1e-9)


# -- invariants ---------------------------------------------------------------------------------------------------


def watched(seed: int) -> tuple[Simulation, list[str]]:
    """A random story in which the invariants are looked at after every settlement."""
    simulation, broken = Simulation(random_story(seed)), list[str]()
    settle = simulation.shared._balance.settle

    def settle_and_look(now: float) -> None:
        settle(now)
        broken.extend(broken_invariants(simulation.shared, simulation.links))

    simulation.shared._balance.settle = settle_and_look
    return simulation, broken


def test_invariants_hold_after_every_settlement() -> None:
    for seed in range(120):
        simulation, broken = watched(seed)
        simulation.run()
        assert broken == []


@pytest.mark.parametrize("sabotaged", ["narrow", "find_ceiling", "_pull", "_set_level", "rest"])
def test_invariants_break_without_one_of_the_rules(sabotaged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Balance, sabotaged, lambda *_: None)
    found: list[str] = []
    for seed in range(40):
        simulation, broken = watched(seed)
        try:
            simulation.run()
        except (AssertionError, DeadlineExceededError, LookupError, ZeroDivisionError) as error:
            broken.append(str(error))
        found += broken
        if found:
            return
    pytest.fail(f"Nothing broke without {sabotaged}.")
