"""Whoever is slow, silent or dies, and whenever: each step that succeeds is one of one global batch, and the next batch is that behind it.

A story is drawn from a seed: workers with one or two devices, whether a step waits for all, whether survivors go on, and faults. The judge
is a list: the rows of the dataset, from which the iterator's position says what a step may have.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled

ROWS, BATCH, STEPS = np.arange(1, 301, dtype=np.float32), 10, 16


class Story:
    """A strategy, its step, and faults in the seconds in which the story is told."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        workers, self.backups = rng.choice([2, 3, 4]), rng.choice([0, 1])
        on_failure = rng.choice(["raise", "continue"])
        hardware = sd.hardware.Device(jitter=sd.hardware.Exponential())  # or the same replica would always be the last
        self.cluster = sd.Cluster({"worker": workers}, seed=seed, hardware=hardware)
        self.strategy: Any = sd.MultiWorkerMirroredStrategy(
            self.cluster, backup_workers=self.backups, on_failure=on_failure, devices_per_worker=rng.choice([1, 2])
        )
        with self.strategy.scope():
            self.total = sd.Variable(np.float32(0.0), aggregation=sd.VariableAggregation.SUM)
        for number in range(rng.choice([1, 2, 3])):
            task, at = f"worker:{rng.randrange(1, workers)}", 10.0 * number + rng.choice([1.99, 2.00003, 5.99, 6.0001])
            kind = rng.choice(["slow", "pause", "silence"] if on_failure == "raise" else ["slow", "pause", "silence", "crash"])
            if kind == "slow":
                self.cluster.faults.slow(task, 50.0, at=at, until=at + 4.0)
            elif kind == "crash":
                self.cluster.faults.crash(task, at=at, restart_after=rng.choice([1e-4, 3.0]))
            else:
                self.cluster.faults.pause(task, at=at, until=at + (4.0 if kind == "pause" else 8.0))
        data = sd.Dataset.from_tensor_slices(ROWS).batch(BATCH)
        self.iterator: Any = iter(self.strategy.distribute_dataset(data))
        self.step = sd.function(lambda iterator: self.strategy.run(self.replica, args=(next(iterator),)))

    def replica(self, part: Any) -> Any:
        self.total.assign_add(part.sum())
        return part

    @property
    def position(self) -> int:
        return self.iterator.state_dict()["sources"][0]["consumed"]

    def tell(self) -> None:
        expected = 0.0
        for number in range(STEPS):
            if self.rng.random() < 0.5:
                sd.sleep(max(0.0, 2.0 * number - self.cluster.now), self.cluster)
            before = self.position
            try:
                parts = [np.asarray(part) for part in self.strategy.local_results(self.step(self.iterator))]
            except sd.errors.UnavailableError:
                assert self.position in (before, before + 1)
                sd.sleep(10.0, self.cluster)
                continue
            assert self.position == before + 1
            rows = np.sort(np.concatenate(parts))
            batch = ROWS[before * BATCH : (before + 1) * BATCH]
            least = BATCH - self.backups * -(-BATCH // len(parts))
            assert set(rows) <= set(batch) and least <= len(rows) == len(set(rows)), (number, parts)
            expected += float(rows.sum())
            assert float(self.total.numpy()) == expected


@pytest.mark.filterwarnings("ignore:.*never fired")
@pytest.mark.parametrize("seed", sampled(range(100), (0, 5, 8, 13, 19, 33)))
def test_the_parts_of_a_step_are_those_of_one_batch(seed: int) -> None:
    Story(seed).tell()
