"""Rounds of workers: gradients are clipped when they are averaged, as those of one global batch are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.errors import InvalidArgumentError

GRADIENTS = [np.array([10.0, -0.5], np.float32), np.array([0.0, 0.3], np.float32)]
MODES: dict[str, dict[str, Any]] = {"sync": {"mode": "sync"}, "bounded": {"mode": "bounded", "staleness": 0}}
CLIPPED: dict[str, dict[str, Any]] = {
    "norms": {"clipnorm": 1.0},
    "numbers": {"clipvalue": 0.05},
    "all together": {"global_clipnorm": 1.0},
    "nothing": {},
}


def optimizer_of(how: str, scaled: bool) -> Any:
    optimizer = keras.optimizers.SGD(1.0, **CLIPPED[how])
    return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=4.0) if scaled else optimizer


def rounds(how: str, mode: str, servers: int, scaled: bool = False, partitioner: Any = None) -> list[np.ndarray]:
    """Two variables after a round of two workers."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": servers}), partitioner, **MODES[mode])
    with strategy.scope():
        v, w, optimizer = sd.Variable([0.0, 0.0]), sd.Variable([0.0, 0.0]), sd.Optimizer(optimizer_of(how, scaled))
    factor = 4.0 if scaled else 1.0
    if scaled:
        optimizer.build([v, w])
    step = sd.function(lambda g: optimizer.apply_gradients([(g * factor, v), (-g * factor, w)]))
    coordinator = sd.ClusterCoordinator(strategy)
    for gradient in GRADIENTS:
        coordinator.schedule(step, args=(gradient,))
    coordinator.join()
    return [v.numpy(), w.numpy()]


def alone(how: str) -> list[np.ndarray]:
    variables, optimizer, mean = [keras.Variable([0.0, 0.0]), keras.Variable([0.0, 0.0])], optimizer_of(how, False), sum(GRADIENTS) / 2
    optimizer.build(variables)
    optimizer.apply([mean, -mean], variables)
    return [np.asarray(variable.value) for variable in variables]


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", CLIPPED)
@pytest.mark.sample
def test_the_mean_of_a_round_is_clipped(how: str, mode: str, scaled: bool) -> None:
    np.testing.assert_allclose(rounds(how, mode, 1, scaled), alone(how), rtol=1e-6)


@pytest.mark.parametrize("how", ["norms", "numbers"])
def test_the_mean_of_a_round_is_clipped_on_each_server(how: str) -> None:
    np.testing.assert_allclose(rounds(how, "sync", 2), alone(how), rtol=1e-6)


def test_numbers_of_shards_are_clipped_in_rounds() -> None:
    np.testing.assert_allclose(rounds("numbers", "sync", 2, partitioner=sd.FixedShardsPartitioner(2)), alone("numbers"), rtol=1e-6)


def test_a_norm_over_several_servers_is_refused_in_rounds() -> None:
    with pytest.raises(InvalidArgumentError, match="different servers"):
        rounds("all together", "sync", 2)


@pytest.mark.parametrize("how", ["norms", "all together"])
def test_norms_of_shards_are_refused_in_rounds(how: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"mode='sync'.*needs whole variables"):
        rounds(how, "sync", 2, partitioner=sd.FixedShardsPartitioner(2))
