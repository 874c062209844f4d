"""Pauses and partitions of launched mains that train together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.hardware import Network
from tests.strategies.silent_training import SLOW, TIMEOUT_S, Plan, build, close


def launched(plan: Plan | None = None, restart: str = "always", steps: int = 6, network: Network | None = None) -> tuple[sd.Cluster, Any]:
    cluster = sd.Cluster({"worker": 3}, seed=0, network=network)

    def main() -> np.ndarray:
        w, step = build(sd.MultiWorkerMirroredStrategy())
        for _ in range(steps):
            step()
        return w.numpy()

    if plan is not None:
        plan(cluster)
    return cluster, cluster.launch(main, restart=restart)


def joined(cluster: sd.Cluster, run: Any, steps: int = 6) -> set[int]:
    run.join()
    for result in run.results.values():
        close(result, steps)
    assert len(run.results) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.close()
    return set(run.restarts.values())


@pytest.mark.parametrize("restart", ["never", "always"])
def test_a_short_pause_of_a_main_is_waited_out(restart: str) -> None:
    cluster, run = launched(lambda cluster: cluster.faults.pause("worker:1", at=0.12, until=20.0), restart)
    assert joined(cluster, run) == {0}
    assert 20.0 < cluster.now < 20.5


def test_a_long_pause_of_a_main_makes_the_others_start_again_and_wait_for_it() -> None:
    cluster, run = launched(lambda cluster: cluster.faults.pause("worker:1", at=0.12, until=50.0))
    assert joined(cluster, run) == {1}
    assert 51.0 < cluster.now < 52.0


@pytest.mark.parametrize(
    "silence",
    [
        lambda cluster: cluster.faults.pause("worker:1", at=0.12, until=50.0),
        lambda cluster: cluster.faults.partition("worker:1", ["worker:0", "worker:2"], at=0.12, until=0.3),
    ],
)
def test_without_restarts_a_silence_of_a_main_is_a_time_out(silence: Plan) -> None:
    cluster, run = launched(silence, "never")
    with pytest.raises(sd.errors.TimedOutError):
        run.join()
    assert TIMEOUT_S < cluster.now < 51.0


@pytest.mark.parametrize("at", [0.0, 0.5, 2.5])
def test_a_partition_that_heals_while_initial_values_are_shared_costs_a_restart(at: float) -> None:
    plan = lambda cluster: cluster.faults.partition("worker:0", ["worker:1", "worker:2"], at=at, until=at + 0.2)  # noqa: E731
    cluster, run = launched(plan, network=SLOW, steps=2)
    assert joined(cluster, run, 2) == {1}
    assert cluster.now > TIMEOUT_S


@pytest.mark.parametrize("restart", ["never", "always"])
@pytest.mark.parametrize("part", [0.1, 0.6])
@pytest.mark.sample
def test_a_main_that_is_paused_while_bytes_travel_is_a_time_out_for_the_others(restart: str, part: float) -> None:
    cluster, run = launched(network=SLOW, steps=2)
    run.join()
    meeting = next(span for span in cluster.trace.spans.where(lane="worker:1", category="collective") if "reduce" in span.name)
    at = meeting.start_s + part * (meeting.end_s - meeting.start_s)
    cluster, run = launched(lambda cluster: cluster.faults.pause("worker:1", at=at, until=100.0), restart, network=SLOW, steps=2)
    if restart == "always":
        assert joined(cluster, run, 2) == {1, 3}  # the others wait for it three times
        assert 100.0 < cluster.now < 110.0
        return
    with pytest.raises(sd.errors.TimedOutError, match="worker:1 did not go on"):
        run.join()


def test_a_host_that_is_lost_for_good_is_named_with_what_to_do() -> None:
    cluster, run = launched(lambda cluster: cluster.faults.lose_host("worker:1", at=0.12))
    with pytest.raises(sd.errors.TimedOutError, match=r"worker:1 did not come.*lost hosts.*lose_host a restart_after="):
        run.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster.close()
