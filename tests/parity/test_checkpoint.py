"""Checkpoints, their managers and backups of trainings (CONFORMANCE B207 to B213, B219 to B235; C42, C44, C46, C47)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled
from simdist import keras
from simdist.errors import InvalidArgumentError, NotFoundError
from tests.checkpoint.kept import Kept

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras' own
variable: Any = sd.Variable
STEPS = 3
X = np.linspace(0, 1, 6, dtype=np.float32)[:, None]


class Interrupted(Exception):
    """Ends a training, as a crash would."""


def names(paths: Any) -> list[str]:
    return [Path(path).name for path in paths]


def manager(directory: Path, max_to_keep: int | None = 5, **options: Any) -> sd.CheckpointManager:
    return sd.CheckpointManager(sd.Checkpoint(v=variable(1.0)), directory, max_to_keep, **options)


# -- backups --------------------------------------------------------------------------------------------------------------


def fit(strategy: Any, backup: Any, epochs: int = 4, stop_before: int | None = None) -> tuple[list[tuple[int, int]], int]:
    """Train on a new model: the epochs and batches that ran, and the optimizer's count; a batch is made to fail."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    ran: list[tuple[int, int]] = []
    epoch_now = [0]

    def begin(batch: int, logs: Any) -> None:
        if len(ran) == stop_before:
            raise Interrupted
        ran.append((epoch_now[0], batch))

    def begin_epoch(epoch: int, logs: Any) -> None:
        epoch_now[0] = epoch

    watch = keras.callbacks.LambdaCallback(on_train_batch_begin=begin, on_epoch_begin=begin_epoch)
    with suppress(Interrupted):
        model.fit(X, X, batch_size=2, epochs=epochs, verbose=0, callbacks=[backup, watch])
    return ran, int(model.optimizer.iterations)


def servers() -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}))


def test_b207_a_training_under_parameter_servers_goes_on_with_the_epoch_that_was_interrupted(tmp_path: Path) -> None:
    fit(servers(), keras.callbacks.BackupAndRestore(tmp_path), stop_before=2 * STEPS)
    assert sorted(names(tmp_path.iterdir())) == ["backup-2", "backup.index.json"]
    ran, iterations = fit(servers(), keras.callbacks.BackupAndRestore(tmp_path))
    assert [epoch for epoch, _ in ran] == [2] * STEPS + [3] * STEPS and iterations == 4 * STEPS


GOES_ON = [(1, 6, (2, 0)), (4, 2, (0, 0)), (3, 9, (3, 0)), (4, 5, (1, 1))]


@pytest.mark.parametrize(
    ("save_freq", "stop_before", "first"),
    sampled(GOES_ON, [GOES_ON[0], GOES_ON[-1]]),
)
def test_b209_a_training_goes_on_with_the_step_after_its_last_backup(
    save_freq: int, stop_before: int, first: tuple[int, int], tmp_path: Path
) -> None:
    fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path, save_freq), stop_before=stop_before)
    ran, iterations = fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path, save_freq))
    assert ran[0] == first and iterations == 4 * STEPS and len(ran) == 4 * STEPS - (first[0] * STEPS + first[1])


def test_b210_the_backup_goes_with_the_training_and_the_directory_stays(tmp_path: Path) -> None:
    (tmp_path / "backups of mine").mkdir()
    fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path), epochs=2)
    assert names(tmp_path.iterdir()) == ["backups of mine"]
    fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path, delete_checkpoint=False), epochs=2)
    assert sorted(names(tmp_path.iterdir())) == ["backup-2", "backup.index.json", "backups of mine"]
    ran, iterations = fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path), epochs=2)
    assert ran == [] and iterations == 2 * STEPS, "the backup is of a training that has ended"


def test_b211_c42_a_backup_that_never_saves_is_refused_and_every_strategy_can_save(tmp_path: Path) -> None:
    for save_freq in (0, None, ""):
        with pytest.raises(ValueError, match="saves nothing"):
            keras.callbacks.BackupAndRestore(tmp_path, save_freq)
    for save_freq in (-1, 1.5, "batch", True):
        with pytest.raises((ValueError, TypeError)):
            keras.callbacks.BackupAndRestore(tmp_path, save_freq)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Empty `backup_dir`"):
        keras.callbacks.BackupAndRestore("")
    for number, strategy in enumerate((sd.CentralStorageStrategy(["gpu:0", "gpu:1"]), sd.OneDeviceStrategy("cpu:0"))):
        backup = keras.callbacks.BackupAndRestore(tmp_path / str(number))
        fit(strategy, backup, stop_before=STEPS)
        ran, iterations = fit(strategy, backup)
        assert ran[0] == (1, 0) and iterations == 4 * STEPS


def test_b212_c42_steps_are_saved_under_parameter_servers_too(tmp_path: Path) -> None:
    fit(servers(), keras.callbacks.BackupAndRestore(tmp_path, save_freq=2), stop_before=5)
    ran, iterations = fit(servers(), keras.callbacks.BackupAndRestore(tmp_path, save_freq=2))
    assert ran[0] == (1, 1) and iterations == 4 * STEPS


def test_a_backup_directory_that_is_a_file_is_refused_when_the_training_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        fit(sd.MirroredStrategy(2), keras.callbacks.BackupAndRestore(tmp_path / "file"))


# -- managers -------------------------------------------------------------------------------------------------------------


def test_b219_how_many_stay_and_which_number_the_next_one_has(tmp_path: Path) -> None:
    for none in (0, -1):
        with pytest.raises(ValueError, match="max_to_keep"):
            manager(tmp_path, none)
    all_of_them = manager(tmp_path, None)
    for _ in range(7):
        all_of_them.save()
    assert len(all_of_them.checkpoints) == 7
    assert all_of_them.save(checkpoint_number=100) == str(tmp_path / "ckpt-100") and all_of_them.checkpoint.save_counter == 8


def test_b220_an_interval_of_steps(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a step_counter"):
        manager(tmp_path, checkpoint_interval=3)
    step = variable(0)
    found = manager(tmp_path, step_counter=step, checkpoint_interval=3)
    saved = []
    for number in range(8):
        step.assign(number)
        if found.save() is not None:
            saved.append(number)
    assert saved == [0, 3, 6]
    assert found.save(check_interval=False) is not None and found.save(check_interval=False) is None


def test_b221_restore_or_initialize(tmp_path: Path) -> None:
    called: list[int] = []
    found = manager(tmp_path, init_fn=lambda: called.append(1))
    assert found.restore_or_initialize() is None and called == [1]
    path = found.save()
    assert found.restore_or_initialize() == path and called == [1]


def test_b222_c44_a_new_manager_goes_on_with_the_numbers_though_nothing_was_restored(tmp_path: Path) -> None:
    first = manager(tmp_path)
    for _ in range(4):
        first.save()
    second = manager(tmp_path)
    second.save()
    assert names(second.checkpoints) == ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-4", "ckpt-5"]


def test_b223_old_ones_that_stay_leave_the_list(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1})
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        v = variable(1.0)
    found = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 1, keep_checkpoint_every_n_hours=1.0)
    for _ in range(4):
        cluster.world.clock.sleep(1900.0)
        found.save()
    assert names(found.checkpoints) == ["ckpt-4"] and (tmp_path / "ckpt-2").is_dir() and not (tmp_path / "ckpt-3").exists()


# -- checkpoints ----------------------------------------------------------------------------------------------------------


def test_b224_save_counts_and_write_does_not(tmp_path: Path) -> None:
    v = variable(1.0)
    checkpoint = sd.Checkpoint(v=v)
    assert checkpoint.save(tmp_path / "p") == str(tmp_path / "p-1") and checkpoint.save_counter == 1
    assert checkpoint.write(tmp_path / "p") == str(tmp_path / "p") and checkpoint.save_counter == 1
    status = checkpoint.restore(None)
    with pytest.raises(AssertionError):
        status.assert_consumed()


def test_b225_what_a_status_asserts(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    a, b = variable(1.0), variable(2.0)
    path = sd.Checkpoint(a=a, b=b).save(tmp_path / "p")
    more_in_the_file = sd.Checkpoint(a=a).restore(path)
    more_in_the_file.assert_existing_objects_matched()
    with pytest.raises(AssertionError, match="nothing has taken: b"):
        more_in_the_file.assert_consumed()
    more_here = sd.Checkpoint(a=a, c=variable(1.0)).restore(path)
    with pytest.raises(AssertionError, match="no value for c"):
        more_here.assert_existing_objects_matched()
    sd.Checkpoint(a=a).restore(path).expect_partial()
    del more_in_the_file, more_here
    assert not recwarn.list


def test_b226_what_is_refused_and_values_that_come_later(tmp_path: Path) -> None:
    path = sd.Checkpoint(v=variable([1.0, 2.0])).save(tmp_path / "p")
    with pytest.raises(NotFoundError):
        sd.Checkpoint(v=variable([1.0, 2.0])).restore(tmp_path / "nothing")
    with pytest.raises(ValueError, match="shape"):
        sd.Checkpoint(v=variable([1.0])).restore(path)
    with pytest.raises(InvalidArgumentError, match="dtype"):
        sd.Checkpoint(v=variable([1, 2])).restore(path)
    with pytest.raises(ValueError, match="cannot save"):
        sd.Checkpoint(v=3)
    layer, later = keras.layers.Dense(1), keras.layers.Dense(1)
    layer.build((1, 2))
    path = sd.Checkpoint(layer=layer).save(tmp_path / "layer")
    status = sd.Checkpoint(layer=later).restore(path)
    later.build((1, 2))
    status.assert_consumed()
    assert np.array_equal(np.asarray(later.kernel), np.asarray(layer.kernel))


def sharded(array: Any, shards: int) -> Any:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(shards))
    with strategy.scope():
        return variable(array)


def test_b228_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    path = sd.Checkpoint(v=sharded(np.ones((4, 2)), 2)).save(tmp_path / "p")
    with pytest.raises(ValueError, match="shape"):
        sd.Checkpoint(v=variable(np.ones((5, 2), np.float32))).restore(path)
    with pytest.raises(InvalidArgumentError, match="shape"):
        sd.Checkpoint(v=sharded(np.ones((5, 2)), 3)).restore(path)


@pytest.mark.parametrize(("kind", "shards"), sampled([("SGD", 1), ("SGD", 3), ("RMSprop", 1), ("RMSprop", 3)], [("RMSprop", 3)]))
def test_b230_c12_slots_that_do_not_exist_yet_are_restored_exactly_into_any_number_of_shards(
    kind: str, shards: int, tmp_path: Path
) -> None:
    def training(number: int) -> tuple[Any, Any, sd.Checkpoint]:
        v = sharded(np.ones(3, np.float32), number)
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer: Any = sd.Optimizer(getattr(keras.optimizers, kind)(0.1, **options))
        return v, optimizer, sd.Checkpoint(v=v, optimizer=optimizer)

    def step(v: Any, optimizer: Any) -> None:
        coordinator = sd.ClusterCoordinator(v.placement.store.strategy)
        coordinator.schedule(sd.function(lambda: optimizer.apply_gradients([(np.ones(3, np.float32), v)])))
        coordinator.join()

    v, optimizer, checkpoint = training(2)
    step(v, optimizer)
    path = checkpoint.save(tmp_path / "p")
    step(v, optimizer)
    other, other_optimizer, other_checkpoint = training(shards)
    status = other_checkpoint.restore(path)
    step(other, other_optimizer)
    status.assert_consumed()
    assert other.numpy().tolist() == v.numpy().tolist()


def test_b231_c14_a_model_with_sharded_variables_is_saved_and_loads_as_a_whole(tmp_path: Path) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [np.asarray(a).tolist() for a in loaded.weights] == [np.asarray(b).tolist() for b in model.weights]


def test_b232_a_directory_without_checkpoints(tmp_path: Path) -> None:
    assert sd.latest_checkpoint(tmp_path) is None and sd.latest_checkpoint(tmp_path / "nothing") is None


def test_b233_a_checkpoint_that_is_half_written_is_not_seen(tmp_path: Path) -> None:
    cluster = sd.Cluster({"worker": 1})
    with sd.MultiWorkerMirroredStrategy(cluster).scope():
        v = variable(1.0)
    checkpoint = sd.Checkpoint(v=v)
    first = checkpoint.save(tmp_path / "p")
    checkpoint.save(tmp_path / "p", sd.CheckpointOptions(enable_async=True))
    assert sd.latest_checkpoint(tmp_path) == first
    checkpoint.sync()
    assert sd.latest_checkpoint(tmp_path) == str(tmp_path / "p-2")


def iterated(directory: Path, **options: Any) -> list[str]:
    with sd.Cluster({"worker": 1}):
        found = []
        for path in sd.checkpoints_iterator(directory, **options):
            found.append(path)
            if len(found) == 1:
                for _ in range(2):
                    sd.Checkpoint(kept=Kept(1)).save_as(directory / f"p-{len(found) + len(list(directory.iterdir()))}", 1)
        return names(found)


def test_b234_each_new_one_once_of_several_the_last(tmp_path: Path) -> None:
    sd.Checkpoint(kept=Kept(1)).save(tmp_path / "p")
    assert iterated(tmp_path, timeout=3.0) == ["p-1", "p-3"]


def test_b235_c47_the_function_is_asked_only_when_the_time_is_over(tmp_path: Path) -> None:
    sd.Checkpoint(kept=Kept(1)).save(tmp_path / "p")
    asked: list[int] = []
    assert iterated(tmp_path, timeout=3.0, timeout_fn=lambda: asked.append(1) or True) == ["p-1", "p-3"] and asked == [1]


def test_c46_a_constant_is_assigned_to_a_summed_variable_as_its_sum() -> None:
    with sd.MirroredStrategy(4).scope():
        v = variable(0.0, synchronization=sd.VariableSynchronization.ON_READ, aggregation=sd.VariableAggregation.SUM, trainable=False)
    v.assign(10.0)
    assert float(v) == 10.0
