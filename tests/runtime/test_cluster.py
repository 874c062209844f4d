"""`Cluster`: what it is made of, who is the chief, and its disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ({"network": 3}, TypeError, "expected a Network"),
        ({"hardware": 3}, TypeError, "must be a Device or a dict"),
        ({"hardware": {"wrker": sd.hardware.v100}}, InvalidArgumentError, "Did you mean 'worker'"),
        (
            {"hardware": {"worker": sd.hardware.v100, "gpu": sd.hardware.v100}},
            InvalidArgumentError,
            "'gpu'.*Known: 'worker', 'ps', 'chief'",
        ),
        ({"seed": 1.5}, TypeError, "seed is 1.5"),
        ({"seed": "a"}, TypeError, "seed is 'a'"),
        ({"seed": True}, TypeError, "seed is True"),
    ],
    ids=str,
)
def test_argument_that_means_nothing_is_refused(argument: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sd.Cluster({"worker": 2, "ps": 1}, **argument)


def test_hardware_may_be_that_of_the_chief_who_is_always_there() -> None:
    cluster = sd.Cluster({"worker": 1}, hardware={"chief": sd.hardware.v100}, seed=-3)
    assert cluster.fresh().seed == -3


@pytest.mark.parametrize("name", ["../elsewhere", "a/../../elsewhere", "inside/link/elsewhere"])
def test_directory_outside_of_the_disk_is_refused_and_not_made(name: str, tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        inside = Path(cluster.directory("inside"))
        (inside / "link").symlink_to(tmp_path)
        with pytest.raises(InvalidArgumentError, match="outside of the cluster's disk"):
            cluster.directory(name)
        assert not (inside.parent.parent / "elsewhere").exists() and not list(tmp_path.iterdir())


def test_absolute_directory_is_refused_and_not_made(tmp_path: Path) -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        with pytest.raises(InvalidArgumentError, match="relative name"):
            cluster.directory(str(tmp_path / "x"))
        with pytest.raises(TypeError, match="expected text"):
            cluster.directory(3)  # pyright: ignore[reportArgumentType]
        assert Path(cluster.directory("logs/worker-0")).is_dir()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("jobs", [{"worker": 0}, {"ps": 1}, {}], ids=str)
def test_cluster_without_workers_does_not_train_together(jobs: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError, match="no task of the job worker or chief"):
        sd.MultiWorkerMirroredStrategy(sd.Cluster(jobs))


@pytest.mark.parametrize("jobs", [["worker", "ps", "chief"], ["chief", "worker", "ps"], ["worker", "ps"]])
def test_the_chief_is_the_job_of_that_name_wherever_it_stands(jobs: list[str]) -> None:
    cluster = sd.Cluster({job: 2 if job == "worker" else 1 for job in jobs})
    assert cluster.world.chief.name == "chief:0"
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


def test_a_launched_main_cannot_close_its_cluster() -> None:
    cluster = sd.Cluster({"worker": 2})
    with pytest.raises(sd.errors.FailedPreconditionError, match=r"cluster\.close\(\) was called in the main of worker:0"):
        cluster.launch(cluster.close).join()
    cluster.close()
