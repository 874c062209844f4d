"""Launched mains that share data without a seed: each row once in an epoch, in the order of a notebook."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras

ROWS = 8
X = np.ones((ROWS, 1), np.float32)
BITS = (2.0 ** np.arange(ROWS))[:, None].astype(np.float32)


def bits(y: Any, y_pred: Any) -> Any:
    """Each row is a bit; where every row counts once, their sum has all of them."""
    return y[:, 0]


def data_of(kind: str) -> Any:
    rows = sd.Dataset.from_tensor_slices((X, BITS))
    return {"shuffled": rows.shuffle(ROWS).batch(4), "before a cache": rows.shuffle(ROWS).cache().shuffle(ROWS).batch(4)}[kind]


def fitted(kind: str, cluster: sd.Cluster | None = None) -> list[float]:
    strategy = sd.MultiWorkerMirroredStrategy(cluster) if cluster else sd.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(1e-5), "mse", metrics=[bits])
    arrays = {"x": X, "y": BITS, "batch_size": 4}
    history = model.fit(**(arrays if kind == "arrays" else {"x": data_of(kind)}), epochs=3, verbose=0).history
    return [round(value * ROWS) for value in history["bits"]] + history["loss"]


def launched(main: Any, workers: int = 2, seed: int = 0) -> list[Any]:
    run = sd.Cluster({"worker": workers}, seed=seed).launch(main)
    run.join()
    return [run.results[f"worker:{number}"] for number in range(workers)]


@pytest.mark.parametrize("kind", ["arrays", "shuffled", "before a cache"])
@pytest.mark.sample(2)
def test_each_row_counts_once_in_an_epoch_and_the_order_is_that_of_a_notebook(kind: str) -> None:
    expected = fitted(kind, sd.Cluster({"worker": 2}))
    assert expected[:3] == [255, 255, 255]
    for found in launched(lambda: fitted(kind), seed=3):
        assert found == pytest.approx(expected, rel=1e-5)


def test_each_main_may_read_all_rows_in_an_order_of_its_own() -> None:
    def main() -> list[int]:
        options = sd.Options()
        options.auto_shard_policy = sd.AutoShardPolicy.OFF
        dataset = sd.Dataset.range(ROWS).shuffle(ROWS).batch(ROWS).with_options(options)
        strategy = sd.MultiWorkerMirroredStrategy()
        elements = strategy.distribute_dataset(dataset)
        return [int(row) for element in elements for part in strategy.local_results(element) for row in np.asarray(part).ravel()]

    first, second = launched(main)
    assert first != second
    assert sorted(first) == sorted(second) == list(range(ROWS))


@pytest.mark.parametrize("workers", [2, 3])
def test_whole_numbers_that_are_a_sum_are_assigned_once(workers: int) -> None:
    def main() -> list[int]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            counter: Any = sd.Variable(np.zeros(2, np.int32), synchronization="on_read", aggregation="sum")
        counter.assign(np.array([7, 1], np.int32))
        at_once = counter.numpy().tolist()
        sd.function(lambda: counter.assign(np.array([8, 5], np.int32)))()
        return [*at_once, *counter.numpy().tolist()]

    assert launched(main, workers) == [[7, 1, 8, 5]] * workers


def test_the_global_generators_of_mains_are_their_own_and_seeded_by_the_cluster() -> None:
    legacy: Any = np.random

    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy()
        unseeded = [random.random(), legacy.rand()]
        random.seed(0)
        legacy.seed(0)
        strategy.reduce("sum", strategy.run(lambda: np.ones(1, np.float32)), axis=None)  # the other main runs here
        return [*unseeded, random.random(), float(legacy.rand())]

    random.seed(0)
    legacy.seed(0)
    expected = [random.random(), float(legacy.rand())]
    first, second = launched(main)
    assert first[2:] == second[2:] == expected
    assert first[:2] != second[:2]
    assert launched(main) == [first, second]


def test_rows_are_shared_although_the_data_were_looked_at_before_the_mains_had_one_order() -> None:
    def main() -> list[int]:
        rows = sd.Dataset.range(ROWS)
        data = sd.Dataset.zip((rows.shuffle(ROWS, reshuffle_each_iteration=False), rows)).map(lambda a, b: a + 0 * b)
        assert data.element_spec.shape == ()  # asking must not decide the order
        strategy = sd.MultiWorkerMirroredStrategy()
        elements = strategy.distribute_dataset(data.batch(4))
        return [int(row) for element in elements for part in strategy.local_results(element) for row in np.asarray(part).ravel()]

    first, second = launched(main, seed=3)
    assert sorted(first + second) == list(range(ROWS))
