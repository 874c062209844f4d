"""The manager: numbers, rotation, intervals, what a new one finds, and what it does where the newest is damaged."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from simdist import keras
from simdist.checkpoint.manifest import MANIFEST
from simdist.errors import DataLossError, InvalidArgumentError, ResourceExhaustedError
from simdist.hardware import DiskModel
from tests.checkpoint.kept import Kept
from tests.checkpoint.test_files import fail_in_orbax, listed

variable: Any = sd.Variable
INDEX = "ckpt.index.json"


def managed(directory: Path, max_to_keep: int | None = 2, kept: Kept | None = None, **options: Any) -> sd.CheckpointManager:
    return sd.CheckpointManager(sd.Checkpoint(kept=kept or Kept(0)), directory, max_to_keep, **options)


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


def test_the_newest_stay_and_a_new_manager_goes_on(tmp_path: Path) -> None:
    first = managed(tmp_path)
    for _ in range(3):
        first.save()
    assert names(first.checkpoints) == ["ckpt-2", "ckpt-3"] and listed(tmp_path) == ["ckpt-2", "ckpt-3", INDEX]
    second = managed(tmp_path)
    assert second.checkpoints == first.checkpoints and second.latest_checkpoint == first.latest_checkpoint
    assert second.save() == str(tmp_path / "ckpt-4")
    assert names(second.checkpoints) == ["ckpt-3", "ckpt-4"] and listed(tmp_path) == ["ckpt-3", "ckpt-4", INDEX]


def test_fewer_are_kept_by_a_manager_that_keeps_fewer(tmp_path: Path) -> None:
    many = managed(tmp_path, None)
    for _ in range(4):
        many.save()
    few = managed(tmp_path, 1)
    assert len(few.checkpoints) == 4
    few.save()
    assert names(few.checkpoints) == ["ckpt-5"] and listed(tmp_path) == ["ckpt-5", INDEX]


def test_managers_of_two_names_share_a_directory(tmp_path: Path) -> None:
    one, other = managed(tmp_path, 1), managed(tmp_path, 1, checkpoint_name="best")
    for _ in range(2):
        one.save()
        other.save()
    assert listed(tmp_path) == ["best-2", "best.index.json", "ckpt-2", INDEX]
    one.remove_all()
    assert listed(tmp_path) == ["best-2", "best.index.json"] and one.latest_checkpoint is None
    assert one.save() == str(tmp_path / "ckpt-3")


def test_what_is_not_the_managers_stays_when_all_is_removed(tmp_path: Path) -> None:
    for name in ("ckpt-extra", "ckpt-9", "ckpt", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "precious").write_text("data")
    manager = managed(tmp_path)
    manager.save()
    manager.remove_all()
    assert listed(tmp_path) == ["ckpt", "ckpt-9", "ckpt-extra", "mine"]


def test_a_checkpoint_that_another_program_has_added_or_removed_is_noticed(tmp_path: Path) -> None:
    manager = managed(tmp_path, 5)
    for _ in range(3):
        manager.save()
    sd.Checkpoint(kept=Kept(5)).save_as(tmp_path / "ckpt-7", 7)
    shutil.rmtree(tmp_path / "ckpt-1")
    assert names(managed(tmp_path, 5).checkpoints) == ["ckpt-2", "ckpt-3", "ckpt-7"]
    assert manager.save() == str(tmp_path / "ckpt-8")


@pytest.mark.parametrize(
    "content",
    [
        '{"managed": ["../outside-1", "/etc", "ckpt-1/../../outside-1", "ckpt-1"], "last_kept_s": 0.0}',
        '{"managed": 5, "last_kept_s": "x"}',
        '{"managed": {"ckpt-1": 1}, "last_kept_s": 1e999}',
        '{"managed": [null, [], {}], "last_kept_s": null}',
        '{"last_kept_s": ' + "1" * 400 + "}",
        "[]",
        "null",
        "{",
        "[" * 100_000,
        "\0\xff",
    ],
)
@pytest.mark.sample(2)
def test_an_index_with_anything_in_it_does_no_harm(content: str, tmp_path: Path) -> None:
    directory, outside = tmp_path / "inside", tmp_path / "outside-1"
    managed(directory).save()
    sd.Checkpoint(kept=Kept(1)).save_as(outside, 1)
    (directory / INDEX).write_bytes(content.encode("latin-1"))
    manager = managed(directory, 1)
    assert names(manager.checkpoints) == ["ckpt-1"]
    manager.save()
    assert listed(directory) == ["ckpt-2", INDEX] and (outside / MANIFEST).is_file()
    assert json.loads((directory / INDEX).read_text())["managed"] == ["ckpt-2"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["ckpt-1", "ckpt-2", "../x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["managed", "last_kept_s", "x"]), inner, max_size=3),
    max_leaves=5,
)


@given(content=JSON)
def test_whatever_the_index_says_the_list_is_of_what_is_there(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    global _two
    if _two is None:
        _two = tmp_path_factory.mktemp("two")
        for _ in range(2):
            managed(_two).save()
    (_two / INDEX).write_text(json.dumps(content))
    with sd.Cluster({"worker": 1}):
        found = names(managed(_two, keep_checkpoint_every_n_hours=1.0).checkpoints)
    assert found in (["ckpt-1", "ckpt-2"], ["ckpt-2"], ["ckpt-1"]) and ("ckpt-2" in found or "ckpt-1" in str(content))


_two: Path | None = None


# -- intervals ------------------------------------------------------------------------------------------------------------


def test_the_interval_counts_from_the_checkpoint_that_was_restored(tmp_path: Path) -> None:
    step = variable(0)

    def made(**options: Any) -> sd.CheckpointManager:
        return sd.CheckpointManager(sd.Checkpoint(step=step), tmp_path, 3, step_counter=step, checkpoint_interval=4, **options)

    first, saved = made(), []
    for number in range(10):
        step.assign(number)
        if first.save():
            saved.append(number)
    assert saved == [0, 4, 8]
    step.assign(0)
    second = made()
    assert second.restore_or_initialize() == str(tmp_path / "ckpt-3") and int(step) == 8
    step.assign(11)
    assert second.save() is None and second.save(check_interval=False) == str(tmp_path / "ckpt-4")
    assert second.save(check_interval=False) is None, "no step twice"
    step.assign(14)
    assert second.save() is None
    third = made(last_checkpoint_step=11)
    assert third.save() is None
    step.assign(15)
    assert third.save() == str(tmp_path / "ckpt-5")


def test_a_damaged_newest_one_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    kept = Kept("one")
    manager = managed(tmp_path, 3, kept)
    for state in ("one", "two", "three"):
        kept.state = state
        manager.save()
    (tmp_path / "ckpt-3" / "_METADATA").write_text("{")
    with pytest.warns(UserWarning, match=r"ckpt-3' is damaged.*goes on to the one before"):
        assert manager.restore_or_initialize() == str(tmp_path / "ckpt-2")
    assert kept.state == "two" and manager.checkpoint.save_counter == 2
    assert manager.save() == str(tmp_path / "ckpt-4")
    for number in (1, 2, 4):
        (tmp_path / f"ckpt-{number}" / "_METADATA").unlink(missing_ok=True)
    with pytest.warns(UserWarning), pytest.raises(DataLossError, match="ckpt-4"):
        manager.restore_or_initialize()


def test_a_save_that_fails_removes_nothing_and_the_next_one_has_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept("old")
    manager = managed(tmp_path, 1, kept)
    manager.save()
    with monkeypatch.context() as patched:
        fail_in_orbax(patched)
        with pytest.raises(ResourceExhaustedError):
            manager.save()
    assert listed(tmp_path) == ["ckpt-1", INDEX] and names(manager.checkpoints) == ["ckpt-1"]
    kept.state = "changed"
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-1") and kept.state == "old"
    assert manager.save() == str(tmp_path / "ckpt-2") and listed(tmp_path) == ["ckpt-2", INDEX]


def test_a_number_that_is_used_again_is_replaced_and_is_the_newest(tmp_path: Path) -> None:
    kept = Kept(1)
    manager = managed(tmp_path, 2, kept)
    for number in (1, 2, 1):
        kept.state = number * 10
        manager.save(checkpoint_number=number)
    assert names(manager.checkpoints) == ["ckpt-2", "ckpt-1"] and sd.latest_checkpoint(tmp_path) == str(tmp_path / "ckpt-1")
    manager.save()
    assert listed(tmp_path) == ["ckpt-1", "ckpt-4", INDEX]


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
def test_a_variable_says_the_number_that_it_has_now(tmp_path: Path) -> None:
    manager, step, iterations = managed(tmp_path), variable(3), keras.optimizers.SGD().iterations
    assert manager.save(checkpoint_number=step) == str(tmp_path / "ckpt-3")
    step.assign_add(2)
    assert manager.save(checkpoint_number=step) == str(tmp_path / "ckpt-5") and int(step) == 5
    assert manager.save(checkpoint_number=iterations) == str(tmp_path / "ckpt-0")
    with pytest.raises(TypeError, match=r"checkpoint_number is .*1\.5"):
        manager.save(checkpoint_number=variable(1.5))


def test_the_next_number_is_after_the_largest_one_and_after_the_saves_that_were_counted(tmp_path: Path) -> None:
    kept = Kept(1)
    first = managed(tmp_path / "one", None, kept)
    for number in (10, 5):
        first.save(checkpoint_number=number)
    again = managed(tmp_path / "one", None)
    assert names(again.checkpoints) == ["ckpt-10", "ckpt-5"] and again.save() == str(tmp_path / "one" / "ckpt-11")
    checkpoint = sd.Checkpoint(kept=kept)
    for _ in range(3):
        checkpoint.save(tmp_path / "elsewhere")
    assert sd.CheckpointManager(checkpoint, tmp_path / "two", None).save() == str(tmp_path / "two" / "ckpt-4")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_to_keep": 1.5}, TypeError, "max_to_keep"),
        ({"max_to_keep": 1, "keep_checkpoint_every_n_hours": -1.0}, InvalidArgumentError, "keep_checkpoint_every_n_hours"),
        ({"max_to_keep": 1, "checkpoint_name": "a/b"}, InvalidArgumentError, "checkpoint_name='a/b'"),
        ({"max_to_keep": 1, "checkpoint_name": ""}, InvalidArgumentError, "checkpoint_name"),
        ({"max_to_keep": 1, "checkpoint_name": ".."}, InvalidArgumentError, "checkpoint_name"),
        ({"max_to_keep": 1, "checkpoint_interval": 0, "step_counter": 1}, InvalidArgumentError, "checkpoint_interval"),
        ({"max_to_keep": 1, "init_fn": 3}, TypeError, "init_fn is 3"),
        ({"max_to_keep": 1, "step_counter": 3}, TypeError, "step_counter is 3"),
        ({"max_to_keep": 1, "last_checkpoint_step": 3}, InvalidArgumentError, "needs a step_counter"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], error: type[Exception], words: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=words):
        managed(tmp_path, **options)


def test_other_things_than_a_checkpoint_and_a_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"takes an sd\.Checkpoint; got Kept"):
        sd.CheckpointManager(Kept(1), tmp_path, 1)  # type: ignore[arg-type]
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InvalidArgumentError, match="is a file, or lies below one"):
            managed(path)
    manager = managed(tmp_path / "new")
    for number in (-1, 1.5, True, "1"):
        with pytest.raises((InvalidArgumentError, TypeError), match="checkpoint_number"):
            manager.save(checkpoint_number=number)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="check_interval"):
        manager.save(check_interval=1)  # type: ignore[arg-type]
    assert listed(tmp_path / "new") == [] and manager.directory == str(tmp_path / "new")


def test_a_new_manager_does_not_begin_anew_where_manifests_are_damaged(tmp_path: Path) -> None:
    manager = managed(tmp_path, 3)
    for _ in range(2):
        manager.save()
    (tmp_path / "ckpt-2" / MANIFEST).write_text("{")
    with pytest.warns(UserWarning, match=r"ckpt-2.*is damaged.*goes on to the one before"):
        assert managed(tmp_path, 3).restore_or_initialize() == str(tmp_path / "ckpt-1")
    (tmp_path / "ckpt-1" / MANIFEST).write_text("")
    begun: list[int] = []
    another = managed(tmp_path, 3, init_fn=lambda: begun.append(1))
    with pytest.warns(UserWarning), pytest.raises(DataLossError, match="is damaged"):
        another.restore_or_initialize()
    assert not begun
    assert another.save() == str(tmp_path / "ckpt-3"), "none of them is replaced"


def test_an_asynchronous_save_that_fails_is_an_error_of_the_next_call_and_does_not_count_for_the_interval(tmp_path: Path) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        v, counter = variable(np.zeros(1000)), variable(np.int32(0))
    manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, None, step_counter=counter, checkpoint_interval=100)
    options = sd.CheckpointOptions(enable_async=True)
    strategy.cluster.faults.disk_full(strategy.program_task, at=0.0, until=2.0)
    sd.sleep(0.1)

    def save(step: int) -> str | None:
        counter.assign(np.int32(step))
        return manager.save(options=options)

    assert save(1) is not None and save(2) is None  # under way
    sd.sleep(1.0)
    with pytest.raises(ResourceExhaustedError, match="disk"):
        save(3)
    sd.sleep(2.0)
    assert manager.checkpoint.save_counter == 0
    assert names([save(4) or ""]) == ["ckpt-1"] and save(5) is None
    manager.sync()
    assert save(6) is None and names(manager.checkpoints) == ["ckpt-1"]


@pytest.mark.parametrize("reported_by", ["manager", "checkpoint", "restore"])
def test_after_a_failed_asynchronous_save_that_was_reported_the_next_call_saves(reported_by: str, tmp_path: Path) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        counter = variable(np.int32(0))
    manager = sd.CheckpointManager(sd.Checkpoint(n=counter), tmp_path, None, step_counter=counter, checkpoint_interval=100)
    assert names([manager.save() or ""]) == ["ckpt-1"]
    strategy.cluster.faults.disk_full(strategy.program_task, at=strategy.cluster.now, until=strategy.cluster.now + 2.0)
    sd.sleep(0.1)
    counter.assign(np.int32(100))
    assert manager.save(options=sd.CheckpointOptions(enable_async=True)) is not None
    reports = {"manager": manager.sync, "checkpoint": manager.checkpoint.sync, "restore": manager.restore_or_initialize}
    with pytest.raises(ResourceExhaustedError, match="disk"):
        reports[reported_by]()
    sd.sleep(3.0)
    assert manager.checkpoint.save_counter == 1
    assert names([manager.save() or ""]) == ["ckpt-2"] and manager.save() is None
    counter.assign(np.int32(0))
    manager.restore_or_initialize()
    assert int(counter.numpy()) == 100


def test_without_an_interval_every_call_saves_whatever_the_counter_says(tmp_path: Path) -> None:
    step = variable(7)
    manager = sd.CheckpointManager(sd.Checkpoint(step=step), tmp_path, 3, step_counter=step)
    assert names([manager.save() or "", manager.save() or "", manager.save(check_interval=False) or ""]) == ["ckpt-1", "ckpt-2", "ckpt-3"]
    assert manager.restore_or_initialize() and names([manager.save() or ""]) == ["ckpt-4"]
    with pytest.raises(InvalidArgumentError, match=r"last_checkpoint_step=7 needs a checkpoint_interval"):
        sd.CheckpointManager(sd.Checkpoint(step=step), tmp_path, 3, step_counter=step, last_checkpoint_step=7)


def test_two_managers_that_write_at_the_same_time_take_different_numbers(tmp_path: Path) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 1}))
    with strategy.scope():
        variables = [variable(np.float32(0.0)), variable(np.float32(0.0))]
    managers = [sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 2) for v in variables]
    saved: list[tuple[str | None, float]] = []
    for number in range(3):
        for owner, (v, manager) in enumerate(zip(variables, managers, strict=True)):
            v.assign(np.float32(10 * owner + number))
            saved.append((manager.save(options=sd.CheckpointOptions(enable_async=True)), 10.0 * owner + number))
        sd.sleep(1.0)
    assert names([path or "" for path, _ in saved]) == [f"ckpt-{number}" for number in range(1, 7)]
    assert names(managers[0].checkpoints) == ["ckpt-3", "ckpt-5"] and names(managers[1].checkpoints) == ["ckpt-4", "ckpt-6"]
    for path, value in saved[2:]:
        sd.Checkpoint(v=variables[0]).restore(path)
        assert float(variables[0].numpy()) == value


@pytest.mark.parametrize("failing", [None, sd.CheckpointOptions(enable_async=True)])
def test_a_save_that_fails_takes_back_nothing_of_the_one_that_was_still_being_written(
    failing: sd.CheckpointOptions | None, tmp_path: Path
) -> None:
    with sd.Cluster({"worker": 1}, disks=DiskModel(write_bandwidth=1e4)) as cluster:
        with sd.MultiWorkerMirroredStrategy(cluster).scope():
            variable, steps = sd.Variable(np.zeros(1000, np.float32)), sd.Variable(np.int32(0))
        manager = sd.CheckpointManager(sd.Checkpoint(v=variable, n=steps), tmp_path, 2, step_counter=steps, checkpoint_interval=1)
        for step in (1, 2):
            steps.assign(np.int32(step))
            manager.save(options=sd.CheckpointOptions(enable_async=True))
        steps.assign(np.int32(3))
        cluster.faults.disk_full("chief", at=cluster.now + 0.7)  # when the second one is written, but not the third
        with pytest.raises(ResourceExhaustedError):
            manager.save(options=failing)
            manager.sync()
        assert names(manager.checkpoints) == ["ckpt-1", "ckpt-2"]
        steps.assign(np.int32(2))
        assert manager.save() is None, "there is one of this step"


def test_a_save_that_fails_is_taken_back_also_by_the_mains_that_do_not_write(tmp_path: Path) -> None:
    def main() -> list[str]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            variable = sd.Variable(np.zeros(1000, np.float32))
        steps: Any = SimpleNamespace(numpy=lambda: min(number, 1))  # the last save is of the step whose save has failed
        manager = sd.CheckpointManager(sd.Checkpoint(v=variable), tmp_path, 2, step_counter=steps, checkpoint_interval=1)
        for number in range(3):
            sd.sleep(10.0)
            with pytest.raises(ResourceExhaustedError) if number == 1 and strategy.cluster_resolver.task_id == 0 else nullcontext():
                manager.save()
        return names(manager.checkpoints)

    cluster = sd.Cluster({"worker": 2}, disks=DiskModel(write_bandwidth=1e4))
    cluster.faults.disk_full("worker:0", at=15.0, until=25.0)
    run = cluster.launch(main)
    run.join()
    assert run.results == {f"worker:{number}": ["ckpt-1", "ckpt-2"] for number in range(2)}
