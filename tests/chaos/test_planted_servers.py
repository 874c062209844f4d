"""Defects of parameter servers that are put back: a campaign finds most by itself, a directed search those with narrow windows."""

from __future__ import annotations

import pytest

import simdist as sd
from chaos import planted_servers
from simdist.chaos import examine
from simdist.chaos.block import Examined, Request, examined
from simdist.errors import SimdistError
from tests.coordinator.rounds_of_training import trained

SEED = 7
WITH_NUMBERS = 0.5  # half of the scenarios compute numbers
CLOSURES = 12


def found(name: str, at_most: int) -> Examined | None:
    """The first scenario of a campaign in which anything is wrong with a defect."""
    with pytest.MonkeyPatch.context() as patch:
        planted_servers.PLANTED[name](patch)
        return next((one for one in examined(Request(SEED, tuple(range(at_most)), "servers", WITH_NUMBERS)) if one.findings), None)


# Those that the first few scenarios show.
QUICK = ("closures_of_dead_workers_are_forgotten", "reads_do_not_wait_for_their_round", "the_last_update_of_a_round_is_left_out")


@pytest.mark.parametrize("name", QUICK)
def test_a_few_scenarios_find_a_planted_defect(name: str) -> None:
    one = found(name, 12)
    assert one is not None
    assert examine(one.scenario, again=False, forgotten=False) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", planted_servers.PLANTED)
def test_a_campaign_finds_each_planted_defect(name: str) -> None:
    one = found(name, 300)
    assert one is not None
    assert examine(one.scenario) == []


def wrong_moments() -> list[float]:
    """Moments at which the death of a server, just after it has applied an update, makes a closure count twice or not at all."""
    asked = {"recovery": "replica", "exactly_once": True, "workers": 2}
    undisturbed = trained(CLOSURES, **asked)
    moments = sorted({span.end_s + 2e-5 for span in undisturbed.applied if span.lane == "ps:0"})
    assert len(moments) > CLOSURES
    wrong: list[float] = []
    for at in moments:

        def plan(cluster: sd.Cluster, at: float = at) -> None:
            cluster.faults.crash("ps:0", at=at)

        try:
            if trained(CLOSURES, plan, **asked).weights["count"] != CLOSURES:
                wrong.append(at)
        except SimdistError:
            wrong.append(at)
    return wrong


def test_a_server_may_die_just_after_it_has_applied_an_update() -> None:
    assert wrong_moments() == []


@pytest.mark.parametrize("name", planted_servers.NARROW)
def test_the_directed_search_finds_defects_with_narrow_windows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted_servers.NARROW[name](monkeypatch)
    assert wrong_moments()
