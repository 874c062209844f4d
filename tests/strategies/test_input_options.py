"""`InputOptions` mean the same under every strategy, wherever they are given: to a strategy, or to a `DatasetCreator`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

PER_REPLICA = sd.InputOptions(experimental_replication_mode=sd.InputReplicationMode.PER_REPLICA)
ON_DEVICE = sd.InputOptions(True, sd.InputReplicationMode.PER_REPLICA, experimental_place_dataset_on_device=True)


def servers(devices: int) -> Any:
    return sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), devices_per_worker=devices)


STRATEGIES: dict[str, tuple[Callable[[], Any], int]] = {
    "mirrored": (lambda: sd.MirroredStrategy(2), 2),
    "workers": (lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}), devices_per_worker=2), 4),
    "servers": (lambda: servers(1), 2),
    "servers with devices": (lambda: servers(2), 4),
}
CALLS = {
    "dataset": lambda strategy, options: strategy.distribute_dataset(sd.Dataset.range(8).batch(4), options),
    "function": lambda strategy, options: strategy.distribute_datasets_from_function(lambda _: sd.Dataset.range(8).batch(4), options),
}
GIVEN: dict[str, Callable[[Any, Any, Any], Any]] = {
    "creator": lambda strategy, dataset_fn, options: sd.DatasetCreator(dataset_fn, options),
    "distributed": lambda strategy, dataset_fn, options: strategy.distribute_datasets_from_function(dataset_fn, options),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_options_without_a_meaning_are_refused(name: str, call: str) -> None:
    strategy = STRATEGIES[name][0]()
    with pytest.raises(TypeError, match=r"options is 'junk'; expected sd\.InputOptions"):
        CALLS[call](strategy, "junk")
    with pytest.raises(InvalidArgumentError, match="place_dataset_on_device=True is not simulated"):
        CALLS[call](strategy, ON_DEVICE)


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_dataset_has_no_pipeline_for_each_replica(name: str) -> None:
    with pytest.raises(NotImplementedError, match="distribute_datasets_from_function"):
        CALLS["dataset"](STRATEGIES[name][0](), PER_REPLICA)


def test_a_creator_refuses_what_no_strategy_does() -> None:
    with pytest.raises(InvalidArgumentError, match="place_dataset_on_device=True is not simulated"):
        sd.DatasetCreator(lambda _: sd.Dataset.range(8), ON_DEVICE)
    with pytest.raises(TypeError, match="input_options is 'junk'"):
        sd.DatasetCreator(lambda _: sd.Dataset.range(8), "junk")  # pyright: ignore[reportArgumentType]


def fitted(name: str, given: str, options: sd.InputOptions | None) -> tuple[list[tuple[int, int, int]], float]:
    """The pipelines that `fit` asks a function for, and the weight that comes of one step of each replica."""
    strategy = STRATEGIES[name][0]()
    asked: list[tuple[int, int, int]] = []

    def dataset_fn(context: sd.InputContext) -> sd.Dataset:
        asked.append((context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync))
        x = np.full((4, 1), 2.0**context.input_pipeline_id, np.float32)
        return sd.Dataset.from_tensor_slices((x, 0 * x)).batch(2).repeat()

    with strategy.scope():
        model: Any = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(1.0), lambda y, prediction: keras.ops.mean(prediction + 0.0 * y))
    is_served = isinstance(strategy, sd.ParameterServerStrategy)
    model.fit(GIVEN[given](strategy, dataset_fn, options), steps_per_epoch=2 if is_served else 1, verbose=0)
    return asked, float(np.asarray(model.weights[0]).ravel()[0])


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", STRATEGIES)
def test_fit_asks_for_a_pipeline_of_each_replica(name: str, given: str) -> None:
    """The gradient of a replica is the mean of its rows, so that the weight says which rows each has had."""
    pipelines = STRATEGIES[name][1]
    asked, weight = fitted(name, given, PER_REPLICA)
    replicas = 1 if name == "servers" else 2 if "servers" in name else pipelines
    assert set(asked) == {(pipelines, number, replicas) for number in range(pipelines)}
    rows = 2.0 ** np.arange(pipelines)
    assert weight == -rows.sum() / replicas


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", STRATEGIES)
def test_fit_asks_for_a_pipeline_of_each_worker_where_nothing_is_said(name: str, given: str) -> None:
    workers = 1 if name == "mirrored" else 2
    asked, weight = fitted(name, given, None)
    assert {(count, number) for count, number, _ in asked} == {(workers, number) for number in range(workers)}
    steps = 2 if "servers" in name else 1
    assert weight == -(2.0 ** np.arange(workers)).sum() / workers * steps
