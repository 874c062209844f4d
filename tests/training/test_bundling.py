"""steps_per_execution="auto": how many steps a closure takes, from a forecast of the step and of the messages of its closure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.coordinator.closure import new_closure
from simdist.coordinator.remote_value import Result
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, Network
from simdist.training.bundling import LARGEST_SHARE, steps_for

X = np.random.default_rng(0).normal(size=(96, 3)).astype(np.float32)
Y = X @ np.float32([[1.0], [2.0], [3.0]])


def data() -> sd.Dataset:
    """Anew for each run, because a dataset counts how often it was shuffled."""
    return sd.Dataset.from_tensor_slices((X, Y)).shuffle(96, seed=1).batch(4)


def fitted(steps_per_execution: Any, epochs: int = 2, latency: float = 1e-3, **options: Any) -> tuple[sd.Cluster, Any, Any]:
    engine = options.pop("engine", "simulated")
    network = Network(bandwidth=1e9, latency=latency)
    cluster = sd.Cluster({"worker": 2, "ps": 1}, network=network, engine=engine)
    with sd.ParameterServerStrategy(cluster, **options).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dropout(0.1, seed=3), keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.05), "mse", steps_per_execution=steps_per_execution)
    history = model.fit(data().repeat(), epochs=epochs, steps_per_epoch=48, verbose=0)
    return cluster, model, history.history["loss"]


def chosen(cluster: sd.Cluster) -> int:
    (mark,) = cluster.trace.instants.where(category="bundle")
    return mark.facts["steps"]


@pytest.mark.parametrize("latency", [1e-4, 1e-2])
@pytest.mark.sample(2)
def test_auto_gives_the_bits_of_the_number_that_it_chooses(latency: float) -> None:
    cluster, model, losses = fitted("auto", latency=latency)
    count = chosen(cluster)
    again, other, expected = fitted(count, latency=latency)
    assert losses == expected and cluster.now == again.now
    assert [weights.tolist() for weights in model.get_weights()] == [weights.tolist() for weights in other.get_weights()]
    assert chosen(fitted("auto", latency=latency)[0]) == count


def test_the_messages_of_closures_take_a_small_part_of_the_time() -> None:
    def share(steps_per_execution: Any) -> float:
        cluster, _, _ = fitted(steps_per_execution, epochs=1)
        closures = list(cluster.trace.spans.where(category="closure", lane="worker:0"))
        busy_s = sum(span.end_s - span.start_s for span in closures)
        return 1.0 - busy_s / (closures[-1].end_s - closures[0].start_s)

    assert share(1) > LARGEST_SHARE > share("auto") > 0.0


def test_a_slow_step_needs_no_bundle_and_a_fast_one_no_more_than_its_share() -> None:
    assert steps_for(step_s=1.0, overhead_s=1e-3, most=100) == 1
    assert steps_for(step_s=1e-9, overhead_s=1e-3, most=24) == 24
    assert steps_for(step_s=0.0, overhead_s=0.0, most=24) == 1
    assert steps_for(step_s=0.0, overhead_s=1.0, most=0) == 1


@pytest.mark.parametrize("step_s", np.geomspace(1e-6, 1.0, 13).tolist())
def test_it_is_the_smallest_number_that_will_do(step_s: float) -> None:
    def share(count: int) -> float:
        return 1e-3 / (1e-3 + count * step_s)

    count = steps_for(step_s, 1e-3, 10**9)
    assert share(count) <= LARGEST_SHARE * (1 + 1e-9) and (count == 1 or share(count - 1) > LARGEST_SHARE * (1 - 1e-9))


def forecast_and_taken(network: Network, sizes: tuple[int, ...]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Seconds of a step and between two closures, as forecast and as they were, where each server has a variable of one of these sizes."""
    device = Device(flops=1e9, memory_bandwidth=1e9, launch_overhead=1e-3)
    cluster = sd.Cluster({"worker": 1, "ps": len(sizes)}, hardware=device, network=network)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(np.zeros(size, np.float32)) for size in sizes]
    step: Any = sd.function(lambda: [variable.assign_add(variable.value * 2.0 + 1.0) for variable in variables])
    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(2):
        coordinator.schedule(step)
    coordinator.join()
    linked: Any = new_closure(strategy, step, (), {}, Result(strategy.engine, -1), 1, 0).linked(step.bind((), {}), "worker:0")
    one, other = cluster.trace.spans.where(category="closure")
    return strategy.engine.closure_figures(linked, "worker:0"), (other.end_s - other.start_s, other.start_s - one.end_s)


@pytest.mark.parametrize("sizes", [(1000, 10), (1000, 1000), (500, 1000, 1000, 250), (400,) * 8])
def test_the_forecast_is_what_a_quiet_cluster_does(sizes: tuple[int, ...]) -> None:
    """All that servers send comes over the one port of the worker."""
    forecast, taken = forecast_and_taken(Network(bandwidth=1e6, latency=1e-3), sizes)
    assert taken[0] == pytest.approx(forecast[0], rel=0.02)
    assert taken[1] == pytest.approx(forecast[1])


@pytest.mark.parametrize("link", ["worker:0/in", "worker:0/out", "ps:0/in", "ps:0/out"])
def test_the_forecast_knows_which_way_bytes_go(link: str) -> None:
    forecast, taken = forecast_and_taken(Network(bandwidth=1e6, latency=1e-3).with_link(link, bandwidth=1e5), (1000,))
    assert taken[0] == pytest.approx(forecast[0], rel=0.02)


def test_workers_in_rounds_take_one_step_a_closure() -> None:
    cluster, _, losses = fitted("auto", mode="sync")
    assert losses == fitted(1, mode="sync")[2] and not cluster.trace.instants.where(category="bundle")


def test_without_time_a_closure_takes_one_step() -> None:
    cluster, _, losses = fitted("auto", engine="in_process")
    assert chosen(cluster) == 1 and losses == fitted(1, engine="in_process")[2]


def test_evaluation_goes_batch_by_batch() -> None:
    cluster, model, _ = fitted("auto", epochs=1)
    other = fitted(chosen(cluster), epochs=1)[1]
    assert model.evaluate(data(), verbose=0) == pytest.approx(other.evaluate(data(), verbose=0))
    assert model.predict(X, batch_size=32, verbose=0).shape == (96, 1)


def test_another_word_and_another_strategy_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"steps_per_execution='many' .* or 'auto'"):
        fitted("many")
    with sd.MirroredStrategy(2).scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        with pytest.raises(InvalidArgumentError, match="this strategy sends none"):
            model.compile("sgd", "mse", steps_per_execution="auto")
