"""How long clients wait for servers that will be back."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import simdist as sd
from simdist.errors import TimedOutError
from tests.coordinator.rounds_of_training import Trained, trained

CLOSURES = 24
AWAY_S = 1000.0  # longer than clients go on calling servers that may be there, and longer than all tries of a closure together

MODES: list[dict[str, Any]] = [{"mode": "sync"}, {"mode": "bounded", "staleness": 1}, {"mode": "async", "exactly_once": True}]


@functools.cache
def undisturbed() -> Trained:
    return trained(CLOSURES, recovery="replica", mode="sync")


@pytest.mark.parametrize("kind", ["crash", "lose_host"])
@pytest.mark.parametrize("options", MODES, ids=lambda options: options["mode"])
@pytest.mark.parametrize("part", [0.3, 0.7])
@pytest.mark.sample
def test_a_server_that_is_started_again_much_later_is_waited_for(options: dict[str, Any], kind: str, part: float) -> None:
    at = part * undisturbed().cluster.now

    def plan(cluster: sd.Cluster) -> None:
        getattr(cluster.faults, kind)("ps:1", at=at, restart_after=AWAY_S)

    result = trained(CLOSURES, plan, recovery="replica", **options)
    assert AWAY_S < result.cluster.now < AWAY_S + 2.0
    assert float(result.weights["count"]) == CLOSURES
    if options["mode"] == "sync":
        assert result.bits() == undisturbed().bits()


def test_a_copy_that_fails_at_a_late_restart_is_tried_again() -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:1", at=0.003, restart_after=AWAY_S)
        cluster.faults.partition("ps:0", "ps:1", at=AWAY_S - 1.0, until=AWAY_S + 10.0)

    result = trained(CLOSURES, plan, recovery="replica", mode="sync")
    assert result.bits() == undisturbed().bits()


@pytest.mark.parametrize("options", MODES[:2], ids=lambda options: options["mode"])
def test_the_wait_for_one_server_leaves_others_their_time_to_answer(options: dict[str, Any]) -> None:
    def plan(cluster: sd.Cluster) -> None:
        cluster.faults.crash("ps:0", at=0.05, restart_after=AWAY_S)  # when there is a snapshot
        cluster.faults.pause("ps:1", at=AWAY_S - 10.0, until=AWAY_S + 60.0)

    result = trained(600, plan, recovery="checkpoint", **options)
    assert AWAY_S + 60.0 < result.cluster.now < AWAY_S + 62.0


def test_a_server_behind_a_partition_is_given_up() -> None:
    with pytest.raises(TimedOutError, match="ps:1 did not answer chief:0"):
        trained(CLOSURES, lambda cluster: cluster.faults.partition("chief:0", "ps:1", at=0.003), recovery="replica", mode="sync")
