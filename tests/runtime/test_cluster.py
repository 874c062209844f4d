"""`Cluster`: what it is made of, who is the chief, and its disk."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import simdist as sd
from simdist.errors import FailedPreconditionError, InvalidArgumentError


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        ({"network": 3}, TypeError, "expected a Network"),
        ({"hardware": 3}, TypeError, "must be a Device or a dict"),
        ({"disks": 3}, TypeError, "expected a DiskModel"),
        ({"disks": {"worker": sd.hardware.v100}}, TypeError, "expected a DiskModel"),
        ({"disks": {"wrker": sd.hardware.ssd}}, InvalidArgumentError, "disks names the job 'wrker'.*Did you mean 'worker'"),
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


@pytest.mark.parametrize("spec", [{"worker": ["a:1", "a:1"]}, sd.SimpleClusterResolver(sd.ClusterSpec({"chief": ["a:1"], "ps": ["a:1"]}))])
def test_two_tasks_with_one_address_make_no_cluster(spec: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"have the same address, 'a:1'"):
        sd.Cluster(spec)


def test_cluster_of_a_resolver_has_its_tasks() -> None:
    assert sd.Cluster(sd.SimpleClusterResolver(sd.ClusterSpec({"worker": 2, "ps": 1}))).tasks == ["chief:0", "worker:0", "worker:1", "ps:0"]


def test_tables_of_hardware_and_disks_that_are_changed_later_change_no_fresh_cluster() -> None:
    hardware, disks = {"worker": sd.hardware.a100}, {"worker": sd.hardware.hdd}
    cluster = sd.Cluster({"worker": 1}, hardware=hardware, disks=disks)
    hardware["worker"], disks["worker"] = sd.hardware.laptop_cpu, sd.hardware.ssd
    again = cluster.fresh()
    assert again.hardware == {"worker": sd.hardware.a100} and again.disks == {"worker": sd.hardware.hdd}
    assert again.world.task("worker:0").device == sd.hardware.a100


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
        for name in ("", ".", "logs/.."):
            for task in (None, "worker:0"):
                with pytest.raises(InvalidArgumentError, match="the whole disk"):
                    cluster.directory(name, task)
        with pytest.raises(TypeError, match="expected text"):
            cluster.directory(3)  # pyright: ignore[reportArgumentType]
        assert Path(cluster.directory("logs/worker-0")).is_dir()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("disks", [sd.hardware.hdd, {"worker": sd.hardware.ssd, "chief": sd.hardware.hdd}], ids=["one", "by job"])
def test_disks_are_those_of_the_tasks_and_of_every_fresh_cluster(disks: Any) -> None:
    for cluster in (made := sd.Cluster({"worker": 2, "ps": 1}, disks=disks), made.fresh(seed=3)):
        by_job = dict.fromkeys(["worker", "chief", "ps"], disks) if isinstance(disks, sd.hardware.DiskModel) else disks
        for task in ("worker:1", "chief:0", "ps:0"):
            assert cluster.engine.disk(task).model == by_job.get(task[:-2], sd.hardware.nvme)
    assert cluster.disks == disks and sd.Cluster({"worker": 1}).disks == sd.hardware.nvme


def test_a_worker_that_joins_has_the_disk_of_the_workers() -> None:
    cluster = sd.Cluster({"worker": 1}, disks={"worker": sd.hardware.hdd})
    assert cluster.engine.disk(cluster.engine.add_task("worker")).model == sd.hardware.hdd


@pytest.mark.parametrize("isolated", [False, True])
def test_disks_are_refused_where_nothing_takes_time(isolated: bool) -> None:
    with pytest.raises(FailedPreconditionError, match="disks= would have no effect"):
        sd.Cluster({"worker": 1}, engine="in_process", isolated=isolated, disks=sd.hardware.ssd)


LOSSES: dict[str, Callable[[sd.Cluster], Any]] = {
    "crash": lambda cluster: cluster.faults.crash("worker:0", at=1.0, restart_after=0.5, keep_disk=False),
    "lost host": lambda cluster: cluster.faults.lose_host("worker:0", at=1.0, restart_after=0.5),
    "preemption": lambda cluster: cluster.faults.preempt("worker:0", notice=0.4, at=0.6, restart_after=0.5),
    "lost host of a dead process": lambda cluster: (
        cluster.faults.crash("worker:0", at=0.9),
        cluster.faults.lose_host("worker:0", at=1.0, restart_after=0.5),
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_directories_on_a_disk_are_empty_when_it_is_lost_and_others_are_not(loss: str) -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        LOSSES[loss](cluster)
        outer, inner = Path(cluster.directory("run", "worker:0")), Path(cluster.directory("run/logs", task="worker:0"))
        others = [Path(cluster.directory("run")), Path(cluster.directory("run", task="worker:1"))]
        assert len({outer, *others}) == 3
        for directory in (outer, inner, outer / "deeper", *others):
            directory.mkdir(exist_ok=True)
            (directory / "model").write_text("weights")
        sd.sleep(0.95, cluster)
        assert (inner / "model").exists() and (outer / "deeper" / "model").exists()
        sd.sleep(1.0, cluster)
        assert list(outer.iterdir()) == [inner] and not list(inner.iterdir())
        assert all((directory / "model").exists() for directory in others)
        (inner / "model").write_text("of the next machine")
        assert cluster.directory("run", "worker:0") == str(outer)
    assert not any(directory.exists() for directory in (outer, *others))


def test_a_crash_leaves_what_is_on_the_disk() -> None:
    with sd.Cluster({"worker": 1}) as cluster:
        path = Path(cluster.directory("run", "worker:0")) / "model"
        path.write_text("weights")
        cluster.faults.crash("worker:0", at=1.0, restart_after=0.5)
        sd.sleep(2.0, cluster)
        assert path.read_text() == "weights"


def test_directory_of_a_cluster_that_nobody_closes_goes_with_it_and_without_a_warning() -> None:
    path = Path(sd.Cluster({"worker": 1}).directory("logs"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gc.collect()
    assert not path.exists()


def test_a_directory_on_the_disk_of_no_task_is_refused() -> None:
    with sd.Cluster({"worker": 1}) as cluster, pytest.raises(InvalidArgumentError, match="Did you mean 'worker:0'"):
        cluster.directory("run", "worker:9")
    with sd.Cluster({"worker": 1}, engine="in_process") as cluster:
        assert Path(cluster.directory("run", "worker:0")).is_dir()
        with pytest.raises(InvalidArgumentError, match="Did you mean 'worker:0'"):
            cluster.directory("run", "worker:9")


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
