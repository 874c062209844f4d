"""Device and network models."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from simdist import hardware
from simdist.errors import InvalidArgumentError
from simdist.hardware import Device, Link, Network, device_for

DEVICES = [value for value in vars(hardware).values() if isinstance(value, Device)]
NETWORKS = [value for value in vars(hardware).values() if isinstance(value, Network)]
SLOW = Device(flops=100.0, memory_bandwidth=10.0, memory=1.0, launch_overhead=0.5)


def test_time_is_arithmetic_where_arithmetic_is_slower() -> None:
    assert SLOW.seconds(flops=200.0, bytes=10.0) == 2.5


def test_time_is_memory_where_memory_is_slower() -> None:
    assert SLOW.seconds(flops=100.0, bytes=40.0) == 4.5


def test_empty_program_costs_the_overhead() -> None:
    assert SLOW.seconds(0, 0) == 0.5


def test_overhead_and_latency_may_be_zero() -> None:
    assert Device(flops=1, memory_bandwidth=1, memory=1, launch_overhead=0).seconds(1, 1) == 1.0
    assert Network(bandwidth=1, latency=0, intra_host_latency=0).latency == 0


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


@pytest.mark.parametrize("field", ["bandwidth", "intra_host_bandwidth", "latency", "intra_host_latency"])
def test_network_figure_that_cannot_be_is_named(field: str) -> None:
    figures: dict[str, Any] = {field: -1e-9}
    with pytest.raises(InvalidArgumentError, match=f"Network: {field}"):
        Network(**figures)


@pytest.mark.parametrize("value", ["1e9", None, True])
def test_figure_that_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="flops must be a number"):
        Device(flops=value)


def test_figure_may_be_a_numpy_number() -> None:
    assert Device(flops=np.float32(2.0), memory_bandwidth=np.int64(1)).seconds(0, 0) >= 0  # pyright: ignore


def test_models_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        SLOW.flops = 1.0  # pyright: ignore


def test_defaults_are_the_default_presets() -> None:
    assert dataclasses.replace(Device(), name="laptop_cpu") == hardware.laptop_cpu
    assert dataclasses.replace(Network(), name="ethernet_10g") == hardware.ethernet_10g
    assert Network().within_host(hardware.pcie4) == Network()


def test_presets_are_named_after_themselves_and_exported() -> None:
    for model in (*DEVICES, *NETWORKS, hardware.pcie4, hardware.nvlink3):
        assert getattr(hardware, model.name) is model
        assert model.name in hardware.__all__
    assert (len(DEVICES), len(NETWORKS)) == (6, 5)


def test_faster_generations_are_faster() -> None:
    chain = [hardware.laptop_cpu, hardware.server_cpu, hardware.v100, hardware.a100, hardware.h100]
    times = [device.seconds(1e12, 1e9) for device in chain]
    assert times == sorted(times, reverse=True)
    assert hardware.ethernet_1g.bandwidth * 8 == 1e9
    assert hardware.infiniband_hdr.bandwidth * 8 == 200e9


def test_within_host_changes_only_the_inside() -> None:
    network = hardware.ethernet_25g.within_host(Link(bandwidth=7.0, latency=3.0))
    assert (network.intra_host_bandwidth, network.intra_host_latency) == (7.0, 3.0)
    assert (network.bandwidth, network.latency) == (hardware.ethernet_25g.bandwidth, hardware.ethernet_25g.latency)


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


def test_import_does_not_load_jax() -> None:
    # The file alone: the package around it may well import JAX.
    program = (
        "import sys, types; package = types.ModuleType('simdist'); "
        f"package.__path__ = [{str(hardware.__file__).rsplit('/', 1)[0]!r}]; sys.modules['simdist'] = package; "
        "import simdist.hardware; sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
