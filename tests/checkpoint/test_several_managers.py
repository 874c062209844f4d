"""Several managers of one directory and one name: none loses sight of what the others have done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import simdist as sd


def manager_of(directory: Path, value: float = 0.0, max_to_keep: int = 2, **options: Any) -> tuple[Any, sd.CheckpointManager]:
    variable: Any = sd.Variable(value)
    return variable, sd.CheckpointManager(sd.Checkpoint(v=variable), directory, max_to_keep, **options)


def there(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_dir())


def test_a_restore_takes_the_newest_whichever_manager_has_saved_it(tmp_path: Path) -> None:
    first, writer = manager_of(tmp_path, 1.0)
    writer.save()
    second, reader = manager_of(tmp_path)
    for value in (2.0, 3.0, 4.0):
        first.assign(value)
        writer.save()
    assert there(tmp_path) == ["ckpt-3", "ckpt-4"], "what the reader has found is gone"
    assert reader.restore_or_initialize() == writer.latest_checkpoint == reader.latest_checkpoint
    assert float(second.numpy()) == 4.0


def test_a_restore_by_a_manager_that_has_found_nothing_does_not_begin_anew(tmp_path: Path) -> None:
    begun: list[str] = []
    second, reader = manager_of(tmp_path, init_fn=lambda: begun.append("anew"))
    assert reader.restore_or_initialize() is None and begun == ["anew"]
    _, writer = manager_of(tmp_path, 5.0)
    writer.save()
    assert reader.restore_or_initialize() is not None and begun == ["anew"]
    assert float(second.numpy()) == 5.0


def test_a_later_manager_has_what_each_of_several_has_left_and_removes_it_in_turn(tmp_path: Path) -> None:
    managers = [manager_of(tmp_path)[1] for _ in range(2)]
    for _ in range(3):
        for manager in managers:
            manager.save()
    assert there(tmp_path) == ["ckpt-3", "ckpt-4", "ckpt-5", "ckpt-6"], "each keeps its own two"
    _, later = manager_of(tmp_path)
    assert [Path(path).name for path in later.checkpoints] == there(tmp_path)
    later.save()
    assert there(tmp_path) == ["ckpt-6", "ckpt-7"]


def test_what_stays_for_ever_is_not_managed_again_as_another_manager_writes(tmp_path: Path) -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        variable: Any = sd.Variable(0.0)
    keeper = sd.CheckpointManager(sd.Checkpoint(v=variable), tmp_path, 1, keep_checkpoint_every_n_hours=1.0)
    _, other = manager_of(tmp_path, max_to_keep=1)
    sd.sleep(2 * 3600.0)
    keeper.save()
    keeper.save()
    other.save()
    keeper.save()
    assert there(tmp_path) == ["ckpt-1", "ckpt-3", "ckpt-4"]
    assert [Path(path).name for path in manager_of(tmp_path)[1].checkpoints] == ["ckpt-3", "ckpt-4"]
