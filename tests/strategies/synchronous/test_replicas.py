"""Replicas of one program, and those of launched mains: who drives what."""

from __future__ import annotations

from typing import Any

import simdist as sd
from simdist.strategies.synchronous.replicas import DrivenReplicas, LaunchedReplicas


def facts(strategy: sd.MultiWorkerMirroredStrategy) -> tuple[Any, ...]:
    local = [member.device for member in strategy.local_members]
    return type(strategy.replicas), strategy.launched, strategy.worker_index, strategy.is_chief, len(strategy.members), local


def test_one_program_drives_the_replicas_of_all_workers() -> None:
    found = facts(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2})))
    assert found == (DrivenReplicas, False, 0, True, 2, ["worker:0", "worker:1"])


def test_each_main_drives_the_replicas_of_its_worker() -> None:
    run = sd.Cluster({"worker": 2}).launch(lambda: facts(sd.MultiWorkerMirroredStrategy(devices_per_worker=2)))
    run.join()
    assert run.results == {
        "worker:0": (LaunchedReplicas, True, 0, True, 4, ["worker:0/gpu:0", "worker:0/gpu:1"]),
        "worker:1": (LaunchedReplicas, True, 1, False, 4, ["worker:1/gpu:0", "worker:1/gpu:1"]),
    }


def test_strategy_on_a_cluster_in_a_main_drives_that_cluster_alone() -> None:
    run = sd.Cluster({"worker": 2}).launch(lambda: facts(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})))[:5])
    run.join()
    assert set(run.results.values()) == {(DrivenReplicas, False, 0, True, 3)}


def test_main_alone_reads_and_reduces_by_itself() -> None:
    def main() -> Any:
        strategy = sd.MultiWorkerMirroredStrategy()
        replicas = strategy.replicas
        assert isinstance(replicas, LaunchedReplicas)
        return replicas.read_across, strategy.observe(lambda: "read"), strategy.reduce("sum", 3.0, axis=None)

    run = sd.Cluster({"worker": 1}).launch(main)
    run.join()
    assert run.results == {"worker:0": (None, "read", 3.0)}
