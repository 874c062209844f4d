"""Pauses and partitions that are longer than anybody is patient by himself: where their end is known, rounds wait for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import TimedOutError

STEPS = 12
SECONDS = 1_000.0


def trained(mode: str, plan: Any, tolerated_time_outs: int = 5, **options: Any) -> tuple[list[float], float]:
    """The values after some steps of three workers, and the second."""
    cluster = sd.Cluster({"worker": 3, "ps": 2}, seed=0)
    strategy = sd.ParameterServerStrategy(cluster, mode=mode, **({"staleness": 1} if mode == "bounded" else {}), **options)  # pyright: ignore
    coordinator = sd.ClusterCoordinator(strategy, tolerated_time_outs=tolerated_time_outs)
    with strategy.scope():
        variables: list[Any] = [sd.Variable(np.zeros(2, np.float32)) for _ in range(2)]

    @sd.function
    def step() -> None:
        for number, variable in enumerate(variables):
            variable.assign_add(np.full(2, 1.0 + number, np.float32))

    plan(cluster.faults)
    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    return [float(variable.numpy()[0]) for variable in variables], cluster.now


SILENCES: dict[str, Any] = {
    "the chief from a server": lambda faults: faults.partition("ps:0", "chief", at=0.0005, until=SECONDS),
    "a server from all": lambda faults: faults.partition("ps:1", ["chief", "worker:0", "worker:1", "worker:2"], at=0.0005, until=SECONDS),
    "a worker from a server": lambda faults: faults.partition("ps:0", "worker:1", at=0.0005, until=SECONDS),
    "a server that is paused": lambda faults: faults.pause("ps:0", at=0.0005, until=SECONDS),
}


@pytest.mark.parametrize("mode", ["sync", "bounded"])
@pytest.mark.parametrize("silence", SILENCES)
def test_a_round_waits_for_the_end_of_a_long_silence(mode: str, silence: str) -> None:
    undisturbed, _ = trained(mode, lambda faults: None)
    found, seconds = trained(mode, SILENCES[silence], tolerated_time_outs=50)
    assert found == undisturbed == [STEPS * 1.0, STEPS * 2.0]
    assert SECONDS <= seconds < SECONDS + 60


def test_with_a_recovery_the_calls_of_workers_wait_too() -> None:
    found, seconds = trained("sync", SILENCES["a worker from a server"], recovery="replica")
    assert found == [STEPS * 1.0, STEPS * 2.0]
    assert SECONDS <= seconds < SECONDS + 60


def test_a_silence_without_an_end_ends_the_round_as_before_whatever_is_planned_for_later() -> None:
    def plan(faults: Any) -> None:
        faults.partition("ps:0", "chief", at=0.0005)
        faults.pause("worker:2", at=5_000.0, until=9_000.0)

    with pytest.raises(TimedOutError, match="ps:0 did not answer chief:0"):
        trained("sync", plan)


def test_a_closure_that_is_given_up_says_how_to_be_more_patient() -> None:
    with pytest.raises(TimedOutError, match=r"run again 5 times after such an error; ClusterCoordinator\(..., tolerated_time_outs=n\)"):
        trained("sync", SILENCES["a server that is paused"])


def test_a_server_whose_restart_is_planned_anew_is_called_when_it_is_back() -> None:
    def plan(faults: Any) -> None:
        faults.crash("ps:0", at=0.0005, restart_after=100_000.0)
        faults.crash("ps:0", at=400.0, restart_after=1.0)

    found, seconds = trained("async", plan, recovery="replica", exactly_once=True)
    assert found == [STEPS * 1.0, STEPS * 2.0]
    assert 401.0 < seconds < 1_000.0
