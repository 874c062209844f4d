"""`MirroredStrategy`: every device of one machine computes a part of the batch, and an all-reduce keeps their variables equal.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.runtime.cluster import Cluster
from simdist.strategies.cross_device import CrossDeviceOps
from simdist.strategies.devices import device_names
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["MirroredStrategy"]


class MirroredStrategy(SynchronousStrategy):
    """Synchronous training on several devices of one machine.

    Args:
        devices: how many, their names ("gpu:0"), or JAX devices, on which the replicas then really run; None: one.
        cross_device_ops: how they reduce: `NcclAllReduce`, `HierarchicalCopyAllReduce`, `ReductionToOneDevice`; None chooses by
            size and links.
        cluster: whose first worker the machine is, with its hardware and network; None: a laptop.

    Raises:
        InvalidArgumentError: no device, or one that is named twice.

    Example:
        >>> import simdist as sd
        >>> sd.MirroredStrategy(devices=["gpu:0", "gpu:1"]).num_replicas_in_sync
        2
    """

    def __init__(
        self, devices: int | Sequence[Any] | None = None, cross_device_ops: CrossDeviceOps | None = None, cluster: Cluster | None = None
    ) -> None:
        self.device_names = device_names(devices)
        super().__init__(cluster, CrossDeviceOps.options_of(cross_device_ops))

    def replica_places(self) -> list[str]:
        return [f"{self.home}/{name}" for name in self.device_names]
