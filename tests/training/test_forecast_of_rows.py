"""steps_per_execution="auto": the forecast of a step counts rows of tables and copies of servers, and is what one worker takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError
from simdist.program.row_numbers import spread_out
from simdist.training import bundling

NUM_ROWS, NUM_IDS, BATCH, STEPS = 5000, 40, 16, 4
EVEN = np.random.default_rng(0).integers(0, NUM_ROWS, (BATCH, NUM_IDS)).astype(np.int32)
LOW = EVEN % 50  # all of them in the first shard, many of them twice


def forecast_and_taken(
    monkeypatch: pytest.MonkeyPatch, model: Callable[[], Any], x: Any, optimizer: Any, servers: int = 2, **options: Any
) -> tuple[float, float]:
    """Seconds of a step: as forecast, and as they are between the second and the third step of a closure."""
    forecasts: list[float] = []

    def steps_for(step_s: float, overhead_s: float, most: int) -> int:
        forecasts.append(step_s)
        return STEPS

    monkeypatch.setattr(bundling, "steps_for", steps_for)
    cluster = sd.Cluster({"worker": 1, "ps": servers}, numerics="off", network=sd.hardware.Network(bandwidth=1e9, latency=2e-5))
    with sd.ParameterServerStrategy(cluster, **options).scope():
        net = model()
        net.compile(optimizer, "mse", steps_per_execution="auto")
    y = np.zeros((BATCH, 1), np.float32)
    net.fit(
        sd.DatasetCreator(lambda _: sd.Dataset.from_tensor_slices((x, y)).repeat().batch(BATCH)), epochs=1, steps_per_epoch=STEPS, verbose=0
    )
    first, second, third, _ = cluster.trace.steps["worker:0"]
    assert third - second == pytest.approx(second - first)
    (forecast,) = forecasts
    return forecast, third - second


def embedded(rows: int = NUM_ROWS) -> Any:
    layers = [keras.layers.Embedding(rows, 64), keras.layers.Flatten(), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((NUM_IDS,), dtype="int32"), *layers])


def two_tables() -> Any:
    ids = keras.Input((NUM_IDS,), dtype="int32")
    rows = [keras.layers.Flatten()(keras.layers.Embedding(NUM_ROWS, size)(ids)) for size in (8, 64)]
    return keras.Model(ids, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))


def dense() -> Any:
    return keras.Sequential([keras.Input((NUM_IDS,)), keras.layers.Dense(500), keras.layers.Dense(300), keras.layers.Dense(1)])


@pytest.mark.sample(at_most=2)
@pytest.mark.parametrize("ids", [EVEN, LOW], ids=["even", "low"])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad"])
def test_rows_of_a_table_travel_in_the_forecast_too(monkeypatch: pytest.MonkeyPatch, ids: Any, shards: int, optimizer: str) -> None:
    partitioner = sd.FixedShardsPartitioner(shards) if shards > 1 else None
    forecast, taken = forecast_and_taken(monkeypatch, embedded, ids, optimizer, 3, variable_partitioner=partitioner)
    assert forecast == pytest.approx(taken, rel=1e-6)


def test_tables_of_several_sizes_travel_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast, taken = forecast_and_taken(monkeypatch, two_tables, EVEN, "sgd")
    assert forecast == pytest.approx(taken, rel=1e-6)


@pytest.mark.sample
@pytest.mark.parametrize("servers", [2, 3])
@pytest.mark.parametrize("model", [dense, embedded])
def test_updates_are_confirmed_when_the_next_server_has_them(monkeypatch: pytest.MonkeyPatch, model: Any, servers: int) -> None:
    x = EVEN if model is embedded else EVEN.astype(np.float32)
    forecast, taken = forecast_and_taken(monkeypatch, model, x, "adam", servers, recovery="replica")
    assert forecast == pytest.approx(taken, rel=1e-6)
    plain, _ = forecast_and_taken(monkeypatch, model, x, "adam", servers)
    assert plain < forecast


def test_snapshots_keep_no_update_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast, taken = forecast_and_taken(monkeypatch, dense, EVEN.astype(np.float32), "sgd", recovery="checkpoint")
    assert forecast == pytest.approx(taken, rel=1e-6)


def test_id_that_is_no_row_is_refused_as_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgumentError, match="the table has 4000 rows"):
        forecast_and_taken(monkeypatch, lambda: embedded(4000), EVEN, "sgd")


def test_what_is_known_of_no_batch_is_as_many_rows_as_ids() -> None:
    numbers = spread_out(100, 1000)
    assert numbers.counts_in([(0, 500), (500, 750), (750, 1000)]) == [50, 25, 25]
    assert spread_out(100, 7).unique.tolist() == list(range(7)) and spread_out(0, 7).count == 0
