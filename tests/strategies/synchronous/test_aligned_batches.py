"""The parts of a step are those of one global batch, also after steps that some replicas have missed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd

ROWS, BATCH = np.arange(240, dtype=np.float32), 8
PARTS = [[first, first + 3, first + 6] for first in range(0, 240, BATCH)]  # the first row of each replica's part, by batch


def first_rows(strategy: Any, paused: int, until: float) -> tuple[list[Any], list[int], Any]:
    """The first rows of the parts that count, step by step, the steps that failed, and the iterator; one worker is paused from 19 s on."""
    cluster = strategy.cluster
    cluster.faults.pause(f"worker:{paused}", at=19.0, until=until)
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(ROWS).batch(BATCH)))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(part: Any) -> Any:
            context = sd.get_replica_context()
            assert context is not None
            return part * (1.0 + 0.0 * context.all_reduce("sum", part.sum()))

        return strategy.run(replica, args=(next(iterator),))

    found: list[Any] = []
    failed: list[int] = []
    for number in range(9):
        if number in (2, 5):
            sd.sleep(20.0 if number == 2 else until + 5.0, cluster)  # it begins no step from 2 on, and goes on before 5
        try:
            found.append([int(np.asarray(part)[0]) for part in strategy.local_results(step(iterator))])
        except sd.errors.UnavailableError:
            failed.append(number)
            sd.sleep(until, cluster)
    return found, failed, iterator


@pytest.mark.parametrize(("on_failure", "paused"), [("raise", 0), ("raise", 1), ("continue", 2)])
def test_a_replica_that_was_dropped_does_not_take_its_parts_later(on_failure: str, paused: int) -> None:
    jitter = sd.hardware.Device(jitter=sd.hardware.Exponential())  # or always the same one would be dropped
    cluster = sd.Cluster({"worker": 3}, hardware=jitter)
    found, failed, iterator = first_rows(sd.MultiWorkerMirroredStrategy(cluster, backup_workers=1, on_failure=on_failure), paused, 22.0)
    assert not failed and all(set(rows) < set(parts) for rows, parts in zip(found, PARTS, strict=False))
    assert any(PARTS[number][paused] in found[number] for number in range(5, 9))
    assert next(iterator).values[0].tolist() == ROWS[9 * BATCH : 9 * BATCH + 3].tolist()
    assert iterator.state_dict()["sources"][0]["consumed"] == 10


@pytest.mark.parametrize("paused", range(3))
def test_after_a_step_that_failed_all_replicas_take_the_next_batch(paused: int) -> None:
    found, failed, _ = first_rows(sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 3})), paused, 30.0)
    assert failed == [2] and found == [parts for number, parts in enumerate(PARTS[:9]) if number != 2]
