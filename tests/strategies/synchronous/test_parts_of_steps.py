"""Steps whose replicas are computed in parts, side by side: the same bits as on one core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.ledger import call_by_call, equal_calls, side_by_side

Story = Callable[[int], list[Any]]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[int]]:
    """Cores that are used, all kernels being worth it; gives the list to which the number of calls side by side will be added."""
    groups: list[int] = []
    original = side_by_side.called
    monkeypatch.setattr(equal_calls, "HEAVY_BYTES", 1)
    monkeypatch.setattr(call_by_call, "HEAVY_BYTES", 1)
    monkeypatch.setattr(side_by_side, "called", lambda calls: [groups.append(len(calls)), original(calls)][1])

    def use(cores: int) -> list[int]:
        monkeypatch.setattr(side_by_side, "num_cores", lambda: cores)
        groups.clear()
        return groups

    return use


def fit(replicas: int) -> list[Any]:
    """Dropout, batch statistics, a metric, and clipping."""
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((replicas * 24, 6)).astype(np.float32), rng.integers(0, 3, replicas * 24)
    with sd.MirroredStrategy(devices=replicas).scope():
        model = keras.Sequential(
            [
                keras.Input((6,)),
                keras.layers.Dense(8, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.3),
                keras.layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(0.01, clipnorm=1.0), loss, metrics=["accuracy"])
    history = model.fit(x, y, batch_size=replicas * 4, epochs=2, verbose=0, shuffle=False).history
    return [history, *[np.asarray(weight) for weight in model.get_weights()]]


def rows(replicas: int) -> list[Any]:
    """A table of which rows are read, under a custom loop."""
    rng = np.random.default_rng(1)
    ids, targets = rng.integers(0, 50, (replicas * 24, 3)), rng.standard_normal((replicas * 24, 1)).astype(np.float32)
    strategy = sd.MirroredStrategy(devices=replicas)
    with strategy.scope():
        table = sd.Variable(rng.standard_normal((50, 4)).astype(np.float32))
        optimizer = sd.Optimizer(keras.optimizers.Adagrad(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(batch: Any) -> Any:
            numbers, y = batch

            def loss() -> Any:
                return sd.compute_average_loss((sd.embedding_lookup(table, numbers).sum((1, 2))[:, None] - y) ** 2)

            value, gradients = sd.value_and_grad(loss, [table])()
            optimizer.apply_gradients(zip(gradients, [table], strict=True))
            return value

        return strategy.run(replica, args=(next(iterator),))

    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices((ids, targets)).batch(replicas * 4)))
    values = [np.asarray(strategy.local_results(step(iterator))) for _ in range(6)]
    return [*values, table.numpy()]


@pytest.mark.sample
@pytest.mark.parametrize("story", [fit, rows], ids=["fit", "rows"])
@pytest.mark.parametrize(("replicas", "cores"), [(4, 2), (6, 3)])
def test_parts_change_no_bit(story: Story, replicas: int, cores: int, on: Callable[[int], list[int]]) -> None:
    assert on(1) == []
    expected = story(replicas)
    groups = on(cores)
    found = story(replicas)
    assert cores in groups, "all parts of a step are computed side by side"
    for one, other in zip(expected, found, strict=True):
        if isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other
