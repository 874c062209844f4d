"""Devices: the roofline model, and which job has which."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from simdist import hardware
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, LogNormal, NoJitter, device_for

SLOW = Device(flops=100.0, memory_bandwidth=10.0, memory=1.0, launch_overhead=0.5)


def test_time_is_arithmetic_where_arithmetic_is_slower() -> None:
    assert SLOW.seconds(flops=200.0, bytes=10.0) == 2.5


def test_time_is_memory_where_memory_is_slower() -> None:
    assert SLOW.seconds(flops=100.0, bytes=40.0) == 4.5


def test_empty_program_costs_the_overhead() -> None:
    assert SLOW.seconds(0, 0) == 0.5


def test_overhead_may_be_zero() -> None:
    assert Device(flops=1, memory_bandwidth=1, memory=1, launch_overhead=0).seconds(1, 1) == 1.0


def test_infinite_figures_cost_nothing() -> None:
    assert Device(flops=math.inf, memory_bandwidth=math.inf, launch_overhead=0).seconds(1e9, 1e9) == 0.0


@pytest.mark.parametrize("field", ["flops", "memory_bandwidth", "memory", "launch_overhead"])
@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_device_figure_that_cannot_be_is_named(field: str, value: float) -> None:
    figures: dict[str, Any] = {field: value}
    with pytest.raises(InvalidArgumentError, match=f"Device: {field}"):
        Device(**figures)


@pytest.mark.parametrize("field", ["flops", "memory_bandwidth", "memory"])
def test_device_figure_of_zero_is_refused(field: str) -> None:
    figures: dict[str, Any] = {field: 0.0}
    with pytest.raises(InvalidArgumentError, match=f"{field} must be more than 0"):
        Device(**figures)


@pytest.mark.parametrize("value", ["1e9", None, True])
def test_figure_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="flops must be a number"):
        Device(flops=value)


def test_figure_may_be_a_numpy_number() -> None:
    assert Device(flops=np.float32(2.0), memory_bandwidth=np.int64(1)).seconds(0, 0) >= 0  # pyright: ignore


def test_models_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SLOW.flops = 1.0  # pyright: ignore


def test_one_device_serves_every_job() -> None:
    assert device_for(SLOW, "ps") is SLOW


def test_mapping_gives_each_job_its_device() -> None:
    assert device_for({"worker": SLOW, "ps": hardware.v100}, "ps") is hardware.v100


def test_missing_job_suggests_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'worker'.*Did you mean 'wroker'"):
        device_for({"wroker": SLOW}, "worker")


def test_missing_job_takes_the_default() -> None:
    assert device_for({"worker": SLOW}, "chief", default=hardware.laptop_cpu) is hardware.laptop_cpu


@pytest.mark.parametrize("value", ["v100", 5, None, {"worker": "v100"}])
def test_what_is_no_hardware_raises(value: Any) -> None:
    with pytest.raises(TypeError, match="Device"):
        device_for(value, "worker")


def test_jitter_is_data_that_seconds_does_not_draw_from() -> None:
    device = Device(jitter=LogNormal(0.3))
    assert device.jitter == LogNormal(0.3) and Device().jitter == NoJitter()
    assert device.seconds(1e9, 1e9) == Device().seconds(1e9, 1e9)
    assert hash(device) != hash(Device())


@pytest.mark.parametrize("value", [0.1, None, "lognormal", LogNormal])
def test_jitter_that_is_no_distribution_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"jitter must be a distribution such as LogNormal\(0.1\)"):
        Device(jitter=value)
