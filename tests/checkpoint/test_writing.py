"""Checkpoints in virtual time: how long saving and restoring take, what is seen when, and what a death in the middle leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.checkpoint import files
from simdist.errors import AbortedError, FailedPreconditionError, ResourceExhaustedError, UnavailableError
from simdist.hardware import DiskModel, Network
from tests.checkpoint.kept import Kept
from tests.checkpoint.test_files import fail_at_the_end, listed

variable: Any = sd.Variable
READ, WRITE, LATENCY_S, FSYNC_S = 4000.0, 2000.0, 0.01, 0.1
DISK = DiskModel(read_bandwidth=READ, write_bandwidth=WRITE, latency=LATENCY_S, fsync=FSYNC_S)
BANDWIDTH, TRAVEL_S = 1000.0, 0.5
OWN_BYTES = 4
"""What a checkpoint holds beside the variables: its number of saves."""
OWNERS = sd.CheckpointOptions(writers="owners")
ASYNC = sd.CheckpointOptions(enable_async=True)


def written_s(size_bytes: int) -> float:
    """A temporary file, fsync, reading it back, rename, fsync of the directory."""
    return LATENCY_S + size_bytes / WRITE + FSYNC_S + LATENCY_S + size_bytes / READ + LATENCY_S + FSYNC_S


def read_s(size_bytes: int) -> float:
    return LATENCY_S + size_bytes / READ


class Scene:
    """Variables of 1,000 floats on two servers, and their checkpoint."""

    def __init__(self, directory: Path, sizes: tuple[int, ...] = (1000, 1000), **options: Any) -> None:
        self.cluster = sd.Cluster({"worker": 1, "ps": 2}, disks=DISK, network=Network(bandwidth=BANDWIDTH, latency=TRAVEL_S), **options)
        with sd.ParameterServerStrategy(self.cluster).scope():
            self.variables = [variable(np.full(size, 1.0, np.float32)) for size in sizes]
        self.kept = Kept("first")
        self.checkpoint = sd.Checkpoint(variables=self.variables, kept=self.kept)
        self.directory = directory

    @property
    def now(self) -> float:
        return self.cluster.now

    def sleep(self, seconds: float) -> None:
        self.cluster.world.clock.sleep(seconds)

    def save(self, options: sd.CheckpointOptions | None = None) -> float:
        """The virtual seconds that a save takes."""
        began_s = self.now
        self.checkpoint.save(self.directory / "ckpt", options)
        return self.now - began_s

    def used_bytes(self) -> dict[str, int]:
        found = {task: self.cluster.engine.disk(task).used_bytes for task in self.cluster.engine.task_names}
        return {task: size for task, size in found.items() if size}


def test_a_save_takes_the_travel_of_the_values_and_the_time_of_the_disk(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    # Both servers send at once, and share the port of the chief.
    assert scene.save() == pytest.approx(TRAVEL_S + 8000 / BANDWIDTH + written_s(8000 + OWN_BYTES))
    assert scene.used_bytes() == {scene.cluster.engine.chief: 8000 + OWN_BYTES}


def test_owners_write_side_by_side(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000, 250))
    assert scene.save(OWNERS) == pytest.approx(written_s(4000))
    assert scene.used_bytes() == {scene.cluster.engine.chief: OWN_BYTES, "ps:0": 4000, "ps:1": 1000}
    assert scene.save() > 2.5 * scene.save(OWNERS)


def test_a_restore_takes_the_time_of_the_disk_and_of_the_travel(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000, 250))
    scene.save()
    began_s = scene.now
    scene.checkpoint.restore(tmp_path / "ckpt-1").assert_consumed()
    travel_s = TRAVEL_S + (4000 + 1000) / BANDWIDTH  # to both servers side by side, over the port of the chief
    assert scene.now - began_s == pytest.approx(read_s(5000 + OWN_BYTES) + travel_s)


def test_owners_read_their_parts_side_by_side_and_send_nothing(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000, 250))
    scene.save(OWNERS)
    for one in scene.variables:
        one.assign(np.zeros(one.shape, np.float32))
    began_s = scene.now
    scene.checkpoint.restore(tmp_path / "ckpt-1").assert_consumed()
    assert scene.now - began_s == pytest.approx(read_s(4000))
    spans = [span for span in scene.cluster.trace.spans.where(category="checkpoint") if span.start_s >= began_s]
    assert [span.lane for span in sorted(spans, key=lambda span: span.lane)] == ["chief:0", "ps:0", "ps:1"]
    assert all(one.numpy().all() for one in scene.variables)


def test_parts_travel_where_other_tasks_get_the_values(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000, 250))
    scene.save(OWNERS)
    with sd.ParameterServerStrategy(scene.cluster).scope():
        swapped = [variable(np.zeros(size, np.float32)) for size in (250, 1000)]
    assert [one.device for one in swapped] == ["ps:0", "ps:1"]
    began_s = scene.now
    sd.Checkpoint(variables=swapped[::-1], kept=Kept("")).restore(tmp_path / "ckpt-1").expect_partial()
    to_the_program_s = TRAVEL_S + (4000 + 1000) / BANDWIDTH
    assert scene.now - began_s == pytest.approx(read_s(4000) + 2 * to_the_program_s)


def test_the_disk_of_an_owner_that_is_down_cannot_be_read(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000, 250))
    scene.save(OWNERS)
    scene.cluster.faults.crash("ps:1", at=scene.now + 1.0)
    scene.sleep(2.0)
    with pytest.raises(UnavailableError, match="ps:1"):
        scene.checkpoint.restore(tmp_path / "ckpt-1")


def test_what_belongs_to_no_strategy_takes_no_time(tmp_path: Path) -> None:
    scene = Scene(tmp_path, ())
    assert scene.save() == 0.0


def test_a_mirrored_variable_is_written_once(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 3}, disks=DISK, network=Network(bandwidth=BANDWIDTH, latency=TRAVEL_S))
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        v = variable(np.zeros(1000, np.float32))
    sd.Checkpoint(v=v).save(tmp_path / "ckpt", OWNERS)
    assert sum(cluster.engine.disk(task).used_bytes for task in cluster.engine.task_names) == 4000 + OWN_BYTES
    assert sd.Checkpoint(v=v).restore(tmp_path / "ckpt-1").assert_consumed()


@pytest.mark.parametrize("options", [sd.CheckpointOptions(), OWNERS, ASYNC])
def test_an_engine_without_time_saves_and_restores(options: sd.CheckpointOptions, tmp_path: Path) -> None:
    with sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}, engine="in_process")).scope():
        v = variable([1.0, 2.0])
    checkpoint = sd.Checkpoint(v=v)
    path = checkpoint.save(tmp_path / "ckpt", options)
    v.assign([0.0, 0.0])
    checkpoint.restore(path).assert_consumed()
    assert v.numpy().tolist() == [1.0, 2.0] and listed(tmp_path) == ["ckpt-1"]


# -- side by side with the training ---------------------------------------------------------------------------------------


def test_an_asynchronous_save_takes_no_time_of_the_program_and_saves_what_was_there(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    took_s = Scene(tmp_path / "other").save()
    assert scene.save(ASYNC) == 0.0
    scene.variables[0].assign(np.zeros(1000, np.float32))
    scene.kept.state = "second"
    scene.sleep(took_s - 1e-6)
    assert sd.latest_checkpoint(tmp_path) is None and not [name for name in listed(tmp_path) if not name.startswith((".", "other"))]
    scene.sleep(2e-6)
    assert sd.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")
    began_s = scene.now
    scene.checkpoint.sync()
    assert scene.now == began_s
    scene.checkpoint.restore(tmp_path / "ckpt-1").assert_consumed()
    assert scene.variables[0].numpy().all() and scene.kept.state == "first"


@pytest.mark.parametrize("call", ["save", "write", "restore", "sync"])
def test_the_next_call_waits_for_a_save_that_is_under_way(call: str, tmp_path: Path) -> None:
    took_s = Scene(tmp_path / "other").save()
    scene = Scene(tmp_path)
    scene.save(ASYNC)
    scene.sleep(1.0)
    if call == "sync":
        scene.checkpoint.sync()
    elif call == "restore":
        scene.checkpoint.restore(tmp_path / "ckpt-1").assert_consumed()
    else:
        getattr(scene.checkpoint, call)(tmp_path / "ckpt", ASYNC)
    restored_s = read_s(8000 + OWN_BYTES) + TRAVEL_S + 8000 / BANDWIDTH if call == "restore" else 0.0
    assert scene.now == pytest.approx(took_s + restored_s)
    assert sd.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")
    scene.checkpoint.sync()


def test_two_checkpoints_are_written_by_one_disk_one_after_the_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000,))
    other = sd.Checkpoint(variables=scene.variables)
    scene.checkpoint.save(tmp_path / "a", OWNERS)
    began_s = scene.now
    both = sd.CheckpointOptions(enable_async=True, writers="owners")
    scene.checkpoint.save(tmp_path / "b", both)
    other.save(tmp_path / "c", both)
    scene.checkpoint.sync()
    other.sync()
    assert scene.now - began_s == pytest.approx(2 * written_s(4000))
    assert listed(tmp_path) == ["a-1", "b-2", "c-1"]


def test_two_checkpoints_of_one_path_at_once_leave_the_one_that_ended_last(tmp_path: Path) -> None:
    scene = Scene(tmp_path, (1000,))
    other = sd.Checkpoint(variables=scene.variables, kept=Kept("other"))
    scene.checkpoint.write(tmp_path / "best", ASYNC)
    other.write(tmp_path / "best", ASYNC)
    scene.checkpoint.sync()
    other.sync()
    scene.checkpoint.restore(tmp_path / "best").assert_consumed()
    assert scene.kept.state == "other" and listed(tmp_path) == ["best"]


def test_a_manager_removes_the_old_one_when_the_new_one_is_there(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    manager = sd.CheckpointManager(scene.checkpoint, tmp_path, 1)
    manager.save(options=OWNERS)
    manager.save(options=ASYNC)
    assert [Path(path).name for path in manager.checkpoints] == ["ckpt-1"] and (tmp_path / "ckpt-1").is_dir()
    manager.sync()
    assert [Path(path).name for path in manager.checkpoints] == ["ckpt-2"]
    assert listed(tmp_path) == ["ckpt-2", "ckpt.index.json"]
    assert scene.used_bytes() == {scene.cluster.engine.chief: 8000 + OWN_BYTES}, "nothing is left of what the owners wrote"
    manager.save(options=ASYNC)
    scene.kept.state = "changed"
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-3") and scene.kept.state == "first"
    manager.remove_all()
    assert scene.used_bytes() == {} and listed(tmp_path) == []


# -- what goes wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [sd.CheckpointOptions(), OWNERS])
def test_a_full_disk_ends_the_save_and_leaves_the_old_one(options: sd.CheckpointOptions, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    manager = sd.CheckpointManager(scene.checkpoint, tmp_path, 1)
    manager.save(options=options)
    before = scene.used_bytes()
    scene.kept.state = "second"
    task = scene.cluster.engine.chief if options.writers == "chief" else "ps:1"
    scene.cluster.faults.disk_full(task, at=scene.now + 0.1, until=scene.now + 100.0)
    scene.sleep(0.2)
    with pytest.raises(ResourceExhaustedError, match=f"disk of {task} is full"):
        manager.save(options=options)
    assert listed(tmp_path) == ["ckpt-1", "ckpt.index.json"] and scene.used_bytes() == before
    scene.sleep(200.0)
    assert manager.save(options=options) == str(tmp_path / "ckpt-2")
    manager.restore_or_initialize()
    assert scene.kept.state == "second"


def test_what_an_asynchronous_save_ran_into_is_raised_once_by_the_next_call(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    manager = sd.CheckpointManager(scene.checkpoint, tmp_path, 1)
    manager.save()
    for call in (manager.sync, lambda: scene.checkpoint.write(tmp_path / "x"), manager.restore_or_initialize):
        scene.cluster.faults.disk_full(scene.cluster.engine.chief, at=scene.now + 0.1, until=scene.now + 100.0)
        manager.save(options=ASYNC)
        scene.sleep(200.0)
        with pytest.raises(ResourceExhaustedError, match="is full"):
            call()
        manager.sync()
        assert listed(tmp_path) == ["ckpt-1", "ckpt.index.json"]


def test_a_disk_that_tears_all_writes_ends_the_save(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.cluster.world.disk(scene.cluster.engine.chief).disk.torn_writes = 3
    with pytest.raises(AbortedError, match="torn"):
        scene.save()
    assert listed(tmp_path) == [] and scene.used_bytes() == {} and scene.checkpoint.save_counter == 0
    scene.cluster.world.disk(scene.cluster.engine.chief).disk.torn_writes = 2
    scene.save()
    assert listed(tmp_path) == ["ckpt-1"]


def test_what_lies_on_the_disk_of_another_task_is_written_by_that_disk(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.directory = Path(scene.cluster.directory("saved", task="ps:0"))
    # The number of saves and the values of the other server share its port.
    assert scene.save() == pytest.approx(TRAVEL_S + (4000 + OWN_BYTES) / BANDWIDTH + written_s(8000 + OWN_BYTES))
    assert scene.used_bytes() == {"ps:0": 8000 + OWN_BYTES}
    scene.directory = Path(scene.cluster.directory("saved"))
    scene.save()
    assert scene.used_bytes() == {"ps:0": 8000 + OWN_BYTES, scene.cluster.engine.chief: 8000 + OWN_BYTES}, "shared storage"


@pytest.mark.parametrize("what", ["checkpoint", "model", "weights"])
def test_what_befalls_a_disk_befalls_what_is_saved_there(what: str) -> None:
    with sd.Cluster({"worker": 2}) as cluster:
        with sd.MultiWorkerMirroredStrategy(cluster).scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        directory = cluster.directory("saved", task="worker:1")
        save = {
            "checkpoint": lambda: sd.Checkpoint(model=model).save(f"{directory}/ckpt"),
            "model": lambda: model.save(f"{directory}/all.keras"),
            "weights": lambda: model.save_weights(f"{directory}/some.weights.h5"),
        }[what]
        cluster.faults.disk_full("worker:1", at=0.0, until=1.0)
        cluster.faults.torn_write("worker:1", writes=3, at=2.0)
        for second, error in ((0.5, ResourceExhaustedError), (2.5, AbortedError)):
            sd.sleep(second - cluster.now)
            with pytest.raises(error):
                save()
            assert listed(Path(directory)) == []
        save()
        assert len(listed(Path(directory))) == 1


def test_owners_save_nothing_where_the_disk_is_lost_meanwhile_on_which_the_checkpoint_lies(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.directory = Path(scene.cluster.directory("saved", task="worker:0"))  # which holds nothing, and writes nothing
    scene.cluster.faults.crash("worker:0", at=1.0, restart_after=0.1, keep_disk=False)
    with pytest.raises(UnavailableError, match=r"lost while it was written.*disk"):
        scene.save(OWNERS)
    assert listed(scene.directory) == [] and scene.used_bytes() == {}, "the parts of the owners are gone, too"
    scene.save(OWNERS)
    assert listed(scene.directory) == ["ckpt-1"]


@pytest.mark.parametrize("options", [sd.CheckpointOptions(), OWNERS])
def test_a_server_that_dies_in_the_middle_leaves_no_checkpoint(options: sd.CheckpointOptions, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.cluster.faults.crash("ps:1", at=1.0)
    with pytest.raises(UnavailableError, match="ps:1 died"):
        scene.save(options)
    scene.sleep(100.0)
    assert scene.now < 200.0 and listed(tmp_path) == [] and scene.used_bytes() == {}


@pytest.mark.parametrize("part", sampled([0.05, 0.5, 0.95], [0.5]))
def test_a_main_that_dies_while_it_writes_leaves_the_checkpoint_before(part: float, tmp_path: Path) -> None:
    """The chief of two mains is killed at each of some moments of its third save; both start again, and go on from what there is."""
    second_s = {}

    def main() -> Any:
        with sd.MultiWorkerMirroredStrategy().scope():
            v = variable(np.zeros(1000, np.float32))
        manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 2)
        restored = manager.restore_or_initialize()
        began = [] if restored is None else [int(v.numpy()[0])]
        for number in range(int(v.numpy()[0]) + 1, 5):
            v.assign(np.full(1000, number, np.float32))
            second_s[number] = cluster.now
            manager.save()
        return began, [Path(path).name for path in manager.checkpoints]

    def run(crash_at_s: float | None) -> Any:
        nonlocal cluster
        for path in tmp_path.iterdir():
            files.remove(path) if path.is_dir() else path.unlink()
        cluster = sd.Cluster({"worker": 2}, disks=DISK, network=Network(bandwidth=1e6, latency=0.001))
        if crash_at_s is not None:
            cluster.faults.crash("worker:0", at=crash_at_s, restart_after=1.0)
        launched = cluster.launch(main, restart="always")
        launched.join()
        return launched.results["worker:0"]

    cluster: Any = None
    assert run(None) == ([], ["ckpt-3", "ckpt-4"])
    third_s, fourth_s = second_s[3], second_s[4]
    assert run(third_s + part * (fourth_s - third_s)) == ([2], ["ckpt-3", "ckpt-4"])
    assert listed(tmp_path) == ["ckpt-3", "ckpt-4", "ckpt.index.json"]


def test_a_checkpoint_that_cannot_take_its_name_is_an_error_of_the_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(tmp_path)
    scene.save(ASYNC)
    with monkeypatch.context() as patched:
        fail_at_the_end(patched)
        scene.sleep(100.0)
    with pytest.raises(ResourceExhaustedError, match="disk is full"):
        scene.checkpoint.sync()
    assert listed(tmp_path) == []


def test_a_server_that_is_down_cannot_be_saved(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.save()
    scene.cluster.faults.crash("ps:1", at=scene.now + 1.0)
    scene.sleep(2.0)
    with pytest.raises(UnavailableError, match="ps:1 has lost its variables"):
        scene.save()
    assert listed(tmp_path) == ["ckpt-1"] and scene.checkpoint.save_counter == 1


def test_values_that_are_not_computed_cannot_be_saved(tmp_path: Path) -> None:
    scene = Scene(tmp_path, numerics="off")

    @sd.function
    def step() -> None:
        scene.variables[0].assign_add(np.ones(1000, np.float32))

    coordinator = sd.ClusterCoordinator(scene.variables[0].placement.store.strategy)
    coordinator.schedule(step)
    coordinator.join()
    with pytest.raises(FailedPreconditionError, match='numerics="off"'):
        scene.save()
    assert listed(tmp_path) == [] and scene.checkpoint.save_counter == 0
