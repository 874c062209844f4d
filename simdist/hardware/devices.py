"""What one processor can do, and which processor the tasks of a job have.

Computing takes ``max(flops / device.flops, bytes / device.memory_bandwidth) + device.launch_overhead`` seconds: a
program is limited either by arithmetic or by moving data (the roofline model: Williams, Waterman and Patterson,
Communications of the ACM 52(4), 2009). `Device.jitter` is a random factor on that time, drawn by the engine that runs the
program; `Device.seconds` itself draws nothing.

Invariants: every figure is in base units, frozen, and positive; the overhead may be 0. Not modelled: caches, clock
changes under load, overlap of copies with arithmetic.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from simdist.arguments import number
from simdist.errors import InvalidArgumentError, did_you_mean
from simdist.hardware.figures import check_name, keep_figures
from simdist.hardware.jitter import NO_JITTER, Jitter

__all__ = ["GIB", "Device", "Hardware", "device_for"]

GIB = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Device:
    """One processor: how fast it computes, how fast it reaches its memory, how much memory it has.

    The defaults are those of `laptop_cpu`.

    Args:
        flops: floating-point operations per second, at peak.
        memory_bandwidth: bytes per second between processor and memory.
        memory: bytes of memory.
        launch_overhead: seconds that starting one program costs, whatever its size.
        jitter: distribution of a factor on the time of every program; default none.
        name: what pictures and messages call it.

    Raises:
        TypeError: if a figure is no number, or `jitter` no distribution of this package.
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
    jitter: Jitter = NO_JITTER
    name: str = "device"

    def __post_init__(self) -> None:
        check_name(self)
        keep_figures(self, "flops", "memory_bandwidth", "memory")
        keep_figures(self, "launch_overhead", may_be_zero=True)
        if not isinstance(cast("object", self.jitter), Jitter):
            raise TypeError(f"Device: jitter must be a distribution such as LogNormal(0.1); got {self.jitter!r}.")

    def seconds(self, flops: float, bytes: float) -> float:
        """How long one program takes, without jitter: the slower of arithmetic and memory, and the overhead.

        Args:
            flops: floating-point operations of the program.
            bytes: bytes that it moves between processor and memory.

        Returns:
            Seconds.

        Example:
            >>> Device(flops=1e9, memory_bandwidth=1e9, launch_overhead=0.5).seconds(flops=1e9, bytes=2e9)
            2.5
        """
        if not (type(flops) is type(bytes) is float):  # as the engine has them
            flops, bytes = number(flops, "flops"), number(bytes, "bytes")
        return max(flops / self.flops, bytes / self.memory_bandwidth) + self.launch_overhead


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
        >>> from simdist.hardware import laptop_cpu, server_cpu, v100
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
