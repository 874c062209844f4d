"""`MirroredStrategy`: every device of one machine computes a part of the batch, and an all-reduce keeps their variables equal.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist import debugging
from simdist.runtime.cluster import Cluster
from simdist.strategies.cross_device import CrossDeviceOps
from simdist.strategies.devices import device_names, jax_devices, require_task
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["MirroredStrategy"]


class MirroredStrategy(SynchronousStrategy):
    """Synchronous training on several devices of one machine.

    Args:
        devices: their number, their names ("gpu:0"), or JAX devices (``jax.devices()``); None: one. Where several JAX devices are given
            and no cluster, the replicas really run on them in parallel (``numerics="shard_map"``, class E2); not under `sd.debug`.
        cross_device_ops: the reduction: `NcclAllReduce`, `HierarchicalCopyAllReduce`, `ReductionToOneDevice`; None chooses by
            size and links.
        cluster: its first worker is the machine, with its hardware and network; None: a laptop. Its `numerics` and `jax_devices`
            decide where numbers are computed.

    Raises:
        InvalidArgumentError: no device, one that is given twice, names among JAX devices, or JAX devices of several platforms.

    Example:
        >>> import simdist as sd
        >>> sd.MirroredStrategy(devices=["gpu:0", "gpu:1"]).num_replicas_in_sync
        2
    """

    cluster_resolver = None  # as of all strategies of one machine

    def __init__(
        self, devices: int | Sequence[Any] | None = None, cross_device_ops: CrossDeviceOps | None = None, cluster: Cluster | None = None
    ) -> None:
        self.device_names = device_names(devices)
        self.jax_devices = jax_devices(devices)
        super().__init__(cluster, CrossDeviceOps.options_of(cross_device_ops))
        require_task(devices, self.default_device)

    def own_cluster(self) -> Cluster:
        if len(self.jax_devices) < 2 or debugging.is_on():
            return super().own_cluster()
        return Cluster({"worker": 1}, numerics="shard_map", jax_devices=self.jax_devices)

    def replica_devices(self) -> list[str]:
        return [f"{self.default_device}/{name}" for name in self.device_names]
