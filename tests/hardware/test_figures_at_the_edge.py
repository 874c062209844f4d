"""Figures next to 0 and beyond all floats, names that are no text: refused where they are given, or as good as their neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist import hardware
from simdist.errors import DeadlineExceededError, InvalidArgumentError

MODELS: dict[str, Callable[..., Any]] = {
    "Device": hardware.Device,
    "Network": hardware.Network,
    "Link": lambda **given: hardware.LinkModel(**{"bandwidth": 1.0, "latency": 0.0, **given}),
    "Disk": hardware.DiskModel,
}
RATES = [("Device", "flops"), ("Device", "memory"), ("Network", "bandwidth"), ("Link", "bandwidth"), ("Disk", "write_bandwidth")]


@pytest.mark.parametrize(("model", "figure"), RATES)
@pytest.mark.parametrize("value", [1e-320, 1e-300, 9e-16])
def test_rates_next_to_zero_are_refused(model: str, figure: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{figure} must be more than 0, 1e-15 or more; got {value}"):
        MODELS[model](**{figure: value})


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", [None, 7, True, float("nan"), b"name"])
def test_a_name_that_is_no_text_is_refused(model: str, name: object) -> None:
    with pytest.raises(TypeError, match="name must be text; got"):
        MODELS[model](name=name)


def worker_steps(**given: Any) -> float:
    cluster = sd.Cluster({"worker": 2, "ps": 1}, numerics="off", **given)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        total = sd.Variable(np.zeros(1000, np.float32))
    coordinator = sd.ClusterCoordinator(strategy)

    @sd.function
    def step() -> None:
        total.assign_add(total * 0 + 1.0)

    for _ in range(4):
        coordinator.schedule(step)
    coordinator.join()
    return cluster.now


def test_a_zero_with_a_sign_is_zero() -> None:
    signed, plain = (hardware.Device(jitter=hardware.LogNormal(zero), launch_overhead=zero) for zero in (-0.0, 0.0))
    assert worker_steps(hardware=signed) == worker_steps(hardware=plain)


def test_racks_may_be_larger_than_all_floats() -> None:
    network = hardware.ethernet_10g
    assert worker_steps(network=network.in_racks(10**400)) == worker_steps(network=network.in_racks(10**300))


def test_a_bandwidth_that_lets_a_message_take_for_ever_is_named() -> None:
    with pytest.raises(DeadlineExceededError, match="Look for a bandwidth, a device or a factor that makes something take for ever"):
        worker_steps(network=hardware.Network(bandwidth=1e-12))
