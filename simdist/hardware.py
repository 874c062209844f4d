"""What computers and networks can do: operations a second, bytes a second, seconds of waiting.

A device is four numbers, a network is four more, and the time of everything that the cluster simulates follows from
them. Computing takes ``max(flops / device.flops, bytes / device.memory_bandwidth) + device.launch_overhead``
seconds (the roofline model): a program is either limited by arithmetic or by moving data.

Invariants: every figure is in base units (operations per second, bytes, bytes per second, seconds), frozen, and
positive; overheads and latencies may be 0. Presets hold the peak that a maker states; real programs
reach a part of it. Not modelled: caches, clock changes under load, overlap of copies with arithmetic.

Taught in lesson 02.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TypeAlias, cast

from simdist.errors import InvalidArgumentError, did_you_mean

__all__ = [
    "Device",
    "Hardware",
    "Link",
    "Network",
    "a100",
    "device_for",
    "ethernet_1g",
    "ethernet_10g",
    "ethernet_25g",
    "ethernet_100g",
    "h100",
    "infiniband_hdr",
    "laptop_cpu",
    "nvlink3",
    "pcie4",
    "server_cpu",
    "tpu_v4_core",
    "v100",
]

GIB = 1 << 30
MAY_BE_ZERO = ("launch_overhead", "latency", "intra_host_latency")


@dataclass(frozen=True, kw_only=True)
class Device:
    """One processor: how fast it computes, how fast it reaches its memory, how much memory it has.

    The defaults are those of `laptop_cpu`.

    Args:
        flops: floating-point operations per second, at peak.
        memory_bandwidth: bytes per second between processor and memory.
        memory: bytes of memory.
        launch_overhead: seconds that starting one program costs, whatever its size.
        name: what pictures and messages call it.

    Raises:
        TypeError: if a figure is no number.
        InvalidArgumentError: if a figure is not positive (an overhead may be 0).

    Example:
        >>> device = Device(flops=1e12, memory_bandwidth=1e11, memory=8e9, launch_overhead=1e-5)
        >>> round(device.seconds(flops=2e12, bytes=1e9), 6)
        2.00001
    """

    flops: float = 384e9
    memory_bandwidth: float = 51.2e9
    memory: float = 16 * GIB
    launch_overhead: float = 20e-6
    name: str = "device"

    def __post_init__(self) -> None:
        _check_figures(self)

    def seconds(self, flops: float, bytes: float) -> float:
        """How long one program takes: the slower of arithmetic and memory, and the overhead.

        Args:
            flops: floating-point operations of the program.
            bytes: bytes that it moves between processor and memory.

        Returns:
            Seconds.

        Example:
            >>> Device(flops=1e9, memory_bandwidth=1e9, launch_overhead=0.5).seconds(flops=1e9, bytes=2e9)
            2.5
        """
        return max(flops / self.flops, bytes / self.memory_bandwidth) + self.launch_overhead


@dataclass(frozen=True, kw_only=True)
class Link:
    """A connection between two devices of one host.

    Args:
        bandwidth: bytes per second in each direction.
        latency: seconds from sending to receiving an empty message.
        name: what pictures and messages call it.

    Example:
        >>> Link(bandwidth=1e9, latency=1e-6).bandwidth
        1000000000.0
    """

    bandwidth: float
    latency: float
    name: str = "link"

    def __post_init__(self) -> None:
        _check_figures(self)


@dataclass(frozen=True, kw_only=True)
class Network:
    """What connects hosts, and what connects the devices inside each of them.

    The defaults are those of `ethernet_10g`, with `pcie4` inside a host.

    Args:
        bandwidth: bytes per second of a host's port, in each direction.
        latency: seconds from sending to receiving an empty message, one way.
        intra_host_bandwidth: bytes per second between two devices of one host, in each direction.
        intra_host_latency: seconds from sending to receiving an empty message inside a host.
        name: what pictures and messages call it.

    Raises:
        TypeError: if a figure is no number.
        InvalidArgumentError: if a figure is not positive (a latency may be 0).

    Example:
        >>> network = Network(bandwidth=1e9, latency=1e-4).within_host(nvlink3)
        >>> network.intra_host_bandwidth
        300000000000.0
    """

    bandwidth: float = 1.25e9
    latency: float = 50e-6
    intra_host_bandwidth: float = 31.5e9
    intra_host_latency: float = 2e-6
    name: str = "network"

    def __post_init__(self) -> None:
        _check_figures(self)

    def within_host(self, link: Link) -> Network:
        """The same network with another connection inside the hosts.

        Example:
            >>> ethernet_25g.within_host(pcie4).intra_host_latency
            2e-06
        """
        return replace(self, intra_host_bandwidth=link.bandwidth, intra_host_latency=link.latency)


# What a cluster takes as its hardware: one device for all tasks, or one for the tasks of each job.
Hardware: TypeAlias = Device | Mapping[str, Device]


def device_for(hardware: Hardware, job: str, default: Device | None = None) -> Device:
    """The device of the tasks of one job.

    Args:
        hardware: one `Device` for all jobs, or a mapping from job to `Device`.
        job: name of the job.
        default: the device of a job that the mapping leaves out; without it, that is an error.

    Raises:
        TypeError: if `hardware` is neither, or the mapping holds something else than devices.
        InvalidArgumentError: if the mapping has no device for `job` and there is no `default`.

    Example:
        >>> device_for({"worker": v100, "ps": server_cpu}, "worker").name
        'v100'
        >>> device_for(laptop_cpu, "ps").name
        'laptop_cpu'
    """
    if isinstance(hardware, Device):
        return hardware
    devices = _checked_mapping(hardware)
    found = devices.get(job, default)
    if found is None:
        raise InvalidArgumentError(f"hardware has no device for job {job!r}. {did_you_mean(job, devices)}")
    if not isinstance(found, Device):
        raise TypeError(f"hardware[{job!r}] must be a Device; got {found!r}.")
    return found


def _checked_mapping(hardware: object) -> Mapping[str, object]:
    if not isinstance(hardware, Mapping):
        raise TypeError(f"hardware must be a Device or a dict from job to Device; got {hardware!r}.")
    return cast("Mapping[str, object]", hardware)


def _check_figures(model: Device | Link | Network) -> None:
    owner = type(model).__name__
    for field in fields(model):
        value = getattr(model, field.name)
        if field.name == "name":
            continue
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{owner}: {field.name} must be a number; got {value!r}.")
        zero_is_fine = field.name in MAY_BE_ZERO
        if math.isnan(value) or float(value) < 0 or (value == 0 and not zero_is_fine):
            expected = "0 or more" if zero_is_fine else "more than 0"
            raise InvalidArgumentError(f"{owner}: {field.name} must be {expected}; got {value!r}.")


laptop_cpu = Device(name="laptop_cpu")
"""A laptop's processor, the default: 4 cores at 3 GHz with two 8-lane float32 multiply-add units each
(4 x 3e9 x 32 operations), two channels of DDR4-3200 (2 x 25.6 GB/s: JEDEC JESD79-4), 16 GiB.
The overhead is a round figure for starting a compiled program from Python."""

server_cpu = Device(name="server_cpu", flops=5.02e12, memory_bandwidth=204.8e9, memory=256 * GIB, launch_overhead=20e-6)
"""A server's processor: AMD EPYC 7763, 64 cores at a base clock of 2.45 GHz, 32 float32 operations each per cycle;
eight channels of DDR4-3200 give 204.8 GB/s (AMD EPYC 7003 series data sheet, 2021). The memory is a usual
configuration; the overhead is a round figure."""

v100 = Device(name="v100", flops=15.7e12, memory_bandwidth=900e9, memory=32e9, launch_overhead=10e-6)
"""NVIDIA V100 SXM2: float32 15.7 Tflop/s, 900 GB/s, 32 GB (NVIDIA V100 Tensor Core GPU data sheet, 2020).
The overhead is a round figure for starting a kernel."""

a100 = Device(name="a100", flops=156e12, memory_bandwidth=2039e9, memory=80e9, launch_overhead=10e-6)
"""NVIDIA A100 80 GB SXM: TF32, without sparsity, 156 Tflop/s (plain float32 has 19.5), 2,039 GB/s, 80 GB
(NVIDIA A100 Tensor Core GPU data sheet, 2021). TF32 is what JAX uses there for float32 matrix products by default.
The overhead is a round figure for starting a kernel."""

h100 = Device(name="h100", flops=494.5e12, memory_bandwidth=3.35e12, memory=80e9, launch_overhead=10e-6)
"""NVIDIA H100 SXM: TF32 494.5 Tflop/s without sparsity (the sheet states 989 with it; plain float32 has 67),
3.35 TB/s, 80 GB (NVIDIA H100 Tensor Core GPU data sheet, 2023). The overhead is a round figure."""

tpu_v4_core = Device(name="tpu_v4_core", flops=137.5e12, memory_bandwidth=600e9, memory=16 * GIB, launch_overhead=10e-6)
"""One of the two cores of a TPU v4 chip, which has bfloat16 275 Tflop/s, 1,200 GB/s and 32 GiB (Google Cloud
documentation of TPU v4; N. Jouppi et al., ISCA 2023): half of each. The overhead is a round figure."""

pcie4 = Link(name="pcie4", bandwidth=31.5e9, latency=2e-6)
"""PCI Express 4.0 with 16 lanes: 16 GT/s x 16 lanes x 128/130 bits, 31.5 GB/s in each direction (PCI-SIG, PCI Express
Base Specification 4.0, 2017). The latency is a round figure."""

nvlink3 = Link(name="nvlink3", bandwidth=300e9, latency=2e-6)
"""Third-generation NVLink of an A100: 12 links of 25 GB/s in each direction, 300 GB/s (NVIDIA A100 Tensor Core GPU
Architecture, 2020). The latency is a round figure."""

ethernet_1g = Network(name="ethernet_1g", bandwidth=0.125e9, latency=100e-6)
"""Gigabit Ethernet (IEEE 802.3ab, 1999). The latency, of TCP through one switch, is a round figure."""

ethernet_10g = Network(name="ethernet_10g")
"""10 gigabit Ethernet (IEEE 802.3ae, 2002), the default. The latency, of TCP through one switch, is a round figure."""

ethernet_25g = Network(name="ethernet_25g", bandwidth=3.125e9, latency=30e-6)
"""25 gigabit Ethernet (IEEE 802.3by, 2016). The latency, of TCP through one switch, is a round figure."""

ethernet_100g = Network(name="ethernet_100g", bandwidth=12.5e9, latency=20e-6)
"""100 gigabit Ethernet (IEEE 802.3ba, 2010). The latency, of TCP through one switch, is a round figure."""

infiniband_hdr = Network(name="infiniband_hdr", bandwidth=25e9, latency=1.5e-6)
"""InfiniBand HDR, 4 lanes of 50 Gbit/s: 200 Gbit/s (InfiniBand Trade Association, HDR, 2017). The latency, of
remote memory access through one switch, is a round figure."""
