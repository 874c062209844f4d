"""What a disk can do: bytes a second, seconds of waiting, and bytes of room.

Invariants as for devices: base units, frozen, positive; waits may be 0. Not modelled: seeks that depend on where a file
lies, and caches of the controller.
"""

from __future__ import annotations

from dataclasses import dataclass

from simdist.hardware.figures import check_name, keep_figures

__all__ = ["DiskModel", "hdd", "nvme", "ssd"]


@dataclass(frozen=True, kw_only=True)
class DiskModel:
    """One disk.

    Args:
        read_bandwidth: bytes per second.
        write_bandwidth: bytes per second.
        latency: seconds before an operation's first byte.
        fsync: seconds that making data durable costs beside writing it.
        capacity: bytes.
        name: what pictures and messages call it.

    Raises:
        TypeError: a figure is no number.
        InvalidArgumentError: a figure is not positive (a wait may be 0).

    Example:
        >>> DiskModel(write_bandwidth=1e9, latency=0.0).write_seconds(2e9)
        2.0
    """

    read_bandwidth: float = 3.5e9
    write_bandwidth: float = 2.5e9
    latency: float = 100e-6
    fsync: float = 1e-3
    capacity: float = 1e12
    name: str = "disk"

    def __post_init__(self) -> None:
        check_name(self)
        keep_figures(self, "read_bandwidth", "write_bandwidth", "capacity")
        keep_figures(self, "latency", "fsync", may_be_zero=True)

    def read_seconds(self, size_bytes: float) -> float:
        """How long reading so many bytes takes."""
        return self.latency + size_bytes / self.read_bandwidth

    def write_seconds(self, size_bytes: float) -> float:
        """How long writing so many bytes takes, until they are with the operating system's cache and on their way."""
        return self.latency + size_bytes / self.write_bandwidth


nvme = DiskModel(name="nvme")
"""A solid-state disk on PCI Express 3.0 with four lanes (3.94 GB/s at most: 8 GT/s x 4 x 128/130 bits). Bandwidths, latency
and fsync are round figures of a consumer's disk; the default."""

ssd = DiskModel(name="ssd", read_bandwidth=550e6, write_bandwidth=500e6, latency=150e-6, fsync=3e-3)
"""A solid-state disk on SATA, whose 6 Gbit/s carry 600 MB/s at most (8b/10b code: Serial ATA Revision 3.0, 2009). The others
are round figures."""

hdd = DiskModel(name="hdd", read_bandwidth=180e6, write_bandwidth=180e6, latency=8e-3, fsync=12e-3, capacity=4e12)
"""A hard disk with 7,200 revolutions a minute: half a revolution takes 4.17 ms, and a seek about as long again. Bandwidths are
round figures."""
