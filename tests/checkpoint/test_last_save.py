"""A save of launched mains that fails at the chief is counted by none of them, and they go on together."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import ResourceExhaustedError

variable: Any = sd.Variable
Report = tuple[str | None, int, list[str]]


def name_of(path: str | None) -> str | None:
    return None if path is None else Path(path).name


def saving(directory: Path, options: sd.CheckpointOptions | None, interval: int | None) -> Any:
    """A main that saves after each of eight steps, a second apart: what came of each save, the counter, and the list."""

    def main() -> list[Report]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v, steps = variable(0.0), variable(np.int32(0))
        counted: dict[str, Any] = {} if interval is None else {"step_counter": steps, "checkpoint_interval": interval}
        manager = sd.CheckpointManager(sd.Checkpoint(v=v, steps=steps), directory, 2, **counted)

        def step() -> None:
            context: Any = sd.get_replica_context()
            v.assign_add(context.all_reduce("SUM", 1.0))

        reports: list[Report] = []
        for number in range(8):
            strategy.run(step)
            steps.assign(np.int32(number + 1))
            sd.sleep(1.0)
            try:
                saved = name_of(manager.save(options=options))
            except ResourceExhaustedError:
                saved = "full"
            reports.append((saved, manager.checkpoint.save_counter, [Path(path).name for path in manager.checkpoints]))
        manager.sync()
        manager.restore_or_initialize()
        assert float(v.numpy()) == 2.0 * int(steps.numpy())
        reports.append((name_of(manager.latest_checkpoint), manager.checkpoint.save_counter, []))
        return reports

    return main


def reports(main: Any, full_until: float) -> list[list[Report]]:
    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.disk_full("worker:0", at=0.5, until=full_until)
        run = cluster.launch(main)
        run.join()
        return [run.results["worker:0"], run.results["worker:1"]]


def test_mains_save_again_at_the_same_step_where_the_disk_of_the_chief_was_full(tmp_path: Path) -> None:
    chief, other = reports(saving(tmp_path, None, 3), 3.5)
    assert [saved for saved, _, _ in chief] == ["full", "full", "full", "ckpt-1", None, None, "ckpt-2", None, "ckpt-2"]
    assert [saved for saved, _, _ in other] == ["ckpt-1", "ckpt-1", "ckpt-1", "ckpt-1", None, None, "ckpt-2", None, "ckpt-2"]
    assert chief[3:] == other[3:]
    assert chief[-1][1] == 2


@pytest.mark.parametrize("interval", [None, 3])
def test_an_asynchronous_save_that_fails_is_an_error_of_the_next_call_of_all_mains(interval: int | None, tmp_path: Path) -> None:
    chief, other = reports(saving(tmp_path, sd.CheckpointOptions(enable_async=True), interval), 2.5)
    assert [one[:2] for one in chief] == [one[:2] for one in other]
    assert [one[:2] for one in chief[:4]] == [("ckpt-1", 1), ("full", 0), ("ckpt-1", 1), ("ckpt-2", 2) if interval is None else (None, 1)]
    assert other[1][2] == []
    assert chief[-1] == other[-1]


def test_a_list_that_was_removed_does_not_come_back(tmp_path: Path) -> None:
    def main() -> list[str]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            v = variable(0.0)
        manager = sd.CheckpointManager(sd.Checkpoint(v=v), tmp_path, 2)
        manager.save()
        sd.sleep(1.0)
        with contextlib.suppress(ResourceExhaustedError):
            manager.save()
        manager.remove_all()
        sd.sleep(5.0)
        manager.save()
        return [Path(path).name for path in manager.checkpoints]

    with sd.Cluster({"worker": 2}) as cluster:
        cluster.faults.disk_full("worker:0", at=0.5, until=3.0)
        run = cluster.launch(main)
        run.join()
        assert run.results["worker:0"] == run.results["worker:1"] == ["ckpt-2"]
