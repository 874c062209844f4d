"""`TPUStrategy`: every core of a TPU slice computes a part of the batch; the chips are nodes of a torus.

Taught in lesson 02.
"""

from __future__ import annotations

from typing import Any, cast

from simdist.arguments import flag
from simdist.cluster.tpu import GENERATIONS, TPUClusterResolver
from simdist.errors import InvalidArgumentError
from simdist.hardware import LinkModel, Torus, device_for, presets
from simdist.runtime.cluster import Cluster
from simdist.runtime.controlled import is_controlled
from simdist.strategies.synchronous import SynchronousStrategy

__all__ = ["TPUStrategy"]

HARDWARE = {
    "v3": (presets.tpu_v3_core, presets.tpu_v3_slice),
    "v4": (presets.tpu_v4_core, presets.tpu_v4_slice),
    "v5e": (presets.tpu_v5e_core, presets.tpu_v5e_slice),
    "v5p": (presets.tpu_v5p_core, presets.tpu_v5p_slice),
}
"""The core and the network of each generation."""


class TPUStrategy(SynchronousStrategy):
    """Synchronous training on the cores of a TPU slice.

    Args:
        tpu_cluster_resolver: which slice, of which generation; None: "v4-8".
        experimental_device_assignment, experimental_spmd_xla_partitioning: only their defaults: a replica is a core, in order.
        numerics: as for `Cluster`; "shard_map" spreads the replicas over the JAX devices of this machine, a real slice for example.
            Only where the resolver has no cluster yet.
        cluster: of `make_cluster`, for example that of a session; it takes the resolver's place.

    Raises:
        InvalidArgumentError: no `TPUClusterResolver`, another assignment of replicas, a cluster that is no slice, or a resolver or
            `numerics` beside a cluster that has its own.

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
        cluster: Cluster | None = None,
    ) -> None:
        resolver = _resolver(tpu_cluster_resolver, cluster)
        if not isinstance(cast(Any, resolver), TPUClusterResolver):
            raise InvalidArgumentError(
                f'TPUStrategy needs an sd.TPUClusterResolver, for example sd.TPUClusterResolver("v4-8"); got {resolver!r}.'
            )
        partitions = flag(experimental_spmd_xla_partitioning, "experimental_spmd_xla_partitioning")
        if experimental_device_assignment is not None or partitions:
            raise InvalidArgumentError(
                "experimental_device_assignment and experimental_spmd_xla_partitioning place replicas otherwise than one on each core, "
                "which is not simulated. Leave them out."
            )
        self.cluster_resolver = resolver
        if resolver.cluster is not None and numerics not in ("deferred", resolver.cluster.numerics):
            raise InvalidArgumentError(
                f"numerics={numerics!r}, but the resolver's slice is in use already, with numerics={resolver.cluster.numerics!r}. Make "
                "a new TPUClusterResolver, or leave it out."
            )
        if resolver.cluster is None and not is_controlled.get():
            resolver.cluster = self.make_cluster(resolver.tpu, numerics=numerics)
        super().__init__(resolver.cluster)

    @staticmethod
    def make_cluster(tpu: str = "v4-8", seed: int = 0, numerics: str = "deferred") -> Cluster:
        """The cluster of a slice, for a session or for several strategies.

        Args:
            tpu: the slice's name, as for `TPUClusterResolver`.
            seed, numerics: as for `Cluster`.

        Raises:
            InvalidArgumentError: no name of a slice.

        Example:
            >>> cluster = TPUStrategy.make_cluster("v4-16", seed=3)
            >>> TPUStrategy(cluster=cluster).num_replicas_in_sync
            16
        """
        resolver = TPUClusterResolver(tpu)
        core, network = HARDWARE[resolver.generation]
        # the cores of a chip reach each other through the chip's memory
        memory = core.memory_bandwidth * GENERATIONS[resolver.generation].cores_per_chip
        network = network.as_torus(resolver.shape).within_host(LinkModel(name="within_chip", bandwidth=memory, latency=0.5e-6))
        hardware = {"worker": core, "chief": presets.server_cpu}
        return Cluster(resolver.cluster_spec(), seed, hardware=hardware, network=network, numerics=numerics)

    def replica_devices(self) -> list[str]:
        chips, cores = self.cluster.spec.num_tasks("worker"), GENERATIONS[self.cluster_resolver.generation].cores_per_chip
        return [f"worker:{chip}/tpu:{core}" for chip in range(chips) for core in range(cores)]


def _resolver(given: TPUClusterResolver | None, cluster: Cluster | None) -> TPUClusterResolver:
    """The resolver of a slice; that of a cluster knows the cluster."""
    if cluster is None:
        return TPUClusterResolver() if given is None else given
    if given is not None:
        raise InvalidArgumentError(
            f"TPUStrategy was given both {given!r} and a cluster. A cluster says itself which slice it is: give one."
        )
    if not isinstance(cast("object", cluster), Cluster):
        raise TypeError(f"cluster is {cluster!r}; expected the cluster of a slice, made by sd.TPUStrategy.make_cluster('v4-8')")
    chips = cluster.spec.num_tasks("worker") if "worker" in cluster.spec else 0
    if not isinstance(cluster.network.topology, Torus) or not chips or chips % 4:
        raise InvalidArgumentError(f"{cluster!r} is no slice of TPU chips. Make one with sd.TPUStrategy.make_cluster('v4-8', seed=0).")
    device = device_for(cluster.hardware, "worker", presets.laptop_cpu)
    generation = next((name for name, (core, _) in HARDWARE.items() if core == device), "v4")
    resolver = TPUClusterResolver(f"{generation}-{GENERATIONS[generation].cores_per_chip * chips}")
    resolver.cluster = cluster
    return resolver
