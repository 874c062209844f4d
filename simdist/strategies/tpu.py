"""`TPUStrategy`: every core of a TPU slice computes a part of the batch; the chips are nodes of a torus.

Taught in lesson 02.
"""

from __future__ import annotations

from typing import Any, cast

from simdist.cluster.tpu import CORES_PER_CHIP, TPUClusterResolver
from simdist.errors import InvalidArgumentError
from simdist.hardware import Link, presets
from simdist.runtime.cluster import Cluster
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["TPUStrategy"]

# The two cores of a chip reach each other through the chip's memory.
WITHIN_CHIP = Link(name="within_chip", bandwidth=1200e9, latency=0.5e-6)


class TPUStrategy(SynchronousStrategy):
    """Synchronous training on the cores of a TPU slice.

    Args:
        tpu_cluster_resolver: which slice; None: "v4-8".
        experimental_device_assignment, experimental_spmd_xla_partitioning: accepted for tf.distribute's sake; without effect.
        numerics: as for `Cluster`.

    Raises:
        InvalidArgumentError: no `TPUClusterResolver`.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.TPUStrategy(sd.TPUClusterResolver("v4-8"))
        >>> strategy.num_replicas_in_sync, strategy.extended.worker_devices[:3]
        (8, ('worker:0/tpu:0', 'worker:0/tpu:1', 'worker:1/tpu:0'))
    """

    def __init__(
        self,
        tpu_cluster_resolver: TPUClusterResolver | None = None,
        experimental_device_assignment: Any = None,
        experimental_spmd_xla_partitioning: bool = False,
        numerics: str = "deferred",
    ) -> None:
        resolver = tpu_cluster_resolver if tpu_cluster_resolver is not None else TPUClusterResolver()
        if not isinstance(cast(Any, resolver), TPUClusterResolver):
            raise InvalidArgumentError(
                f'TPUStrategy needs an sd.TPUClusterResolver, for example sd.TPUClusterResolver("v4-8"); got {resolver!r}.'
            )
        self.cluster_resolver = resolver
        if resolver.cluster is None:
            network = presets.tpu_v4_slice.as_torus(resolver.shape).within_host(WITHIN_CHIP)
            hardware = {"worker": presets.tpu_v4_core, "chief": presets.server_cpu}
            resolver.cluster = Cluster(resolver.cluster_spec(), hardware=hardware, network=network, numerics=numerics)
        super().__init__(resolver.cluster)

    def replica_places(self) -> list[str]:
        chips = self.cluster.spec.num_tasks("worker")
        return [f"worker:{chip}/tpu:{core}" for chip in range(chips) for core in range(CORES_PER_CHIP)]
