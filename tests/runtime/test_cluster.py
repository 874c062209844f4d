"""A cluster's tasks and their order."""

from __future__ import annotations

import pytest

import simdist as sd


@pytest.mark.parametrize("jobs", [["worker", "ps", "chief"], ["chief", "worker", "ps"], ["worker", "ps"]])
def test_the_chief_is_the_job_of_that_name_wherever_it_stands(jobs: list[str]) -> None:
    cluster = sd.Cluster({job: 2 if job == "worker" else 1 for job in jobs})
    assert cluster.runtime.chief.name == "chief:0"
    assert cluster.tasks[0] == cluster.trace.lanes[0] == "chief:0"
    assert cluster.tasks.count("chief:0") == 1


def test_a_crash_of_the_first_worker_does_not_end_the_program_of_the_chief() -> None:
    cluster = sd.Cluster({"worker": 2, "ps": 1, "chief": 1})
    coordinator = sd.ClusterCoordinator(sd.ParameterServerStrategy(cluster))
    cluster.faults.crash("worker:0", at=0.5)
    for _ in range(2):
        coordinator.schedule(sd.sleep, args=(1.0,))
    coordinator.join()
    assert cluster.now > 2.0
