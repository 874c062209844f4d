"""`CentralStorageStrategy`: variables are on one device of a machine, and every device computes a part of the batch.

A step fetches the variables to each device that computes; their gradients are added on the device that holds the variables,
which updates them once. Compared with mirroring, this needs less memory on the devices and more traffic to the one.

Taught in lesson 02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.errors import InvalidArgumentError
from simdist.runtime.cluster import Cluster
from simdist.strategies.devices import device_names
from simdist.strategies.synchronous import SynchronousStrategy
from simdist.variables.variable import Variable

__all__ = ["CentralStorageStrategy"]


class CentralStorageStrategy(SynchronousStrategy):
    """Synchronous training on several devices of one machine, with variables on one of them.

    Args:
        compute_devices: their number, or their names; None: one CPU.
        parameter_device: the device that holds the variables; default the machine's processor, "cpu:0".
        cluster: its first worker is the machine; None: a laptop.

    Raises:
        InvalidArgumentError: no device, or one that is named twice.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.CentralStorageStrategy(2)
        >>> with strategy.scope():
        ...     v = sd.Variable(1.0, aggregation=sd.VariableAggregation.SUM)
        >>> strategy.run(lambda: v.assign_add(sd.get_replica_context().replica_id_in_sync_group + v.value * 1.0))
        >>> v.device, float(v)
        ('worker:0/cpu:0', 4.0)
    """

    cluster_resolver = None  # as of all strategies of one machine

    def __init__(
        self, compute_devices: int | Sequence[Any] | None = None, parameter_device: str | None = None, cluster: Cluster | None = None
    ) -> None:
        self.device_names = device_names(compute_devices)
        self.parameter_name = device_names(["cpu:0" if parameter_device is None else parameter_device])[0]
        super().__init__(cluster)

    def replica_devices(self) -> list[str]:
        return [f"{self.default_device}/{name}" for name in self.device_names]

    @property
    def reducer_device(self) -> str:
        """The device that holds the variables."""
        device = f"{self.default_device}/{self.parameter_name}"
        self.engine.add_device(device)
        return device

    @property
    def parameter_devices(self) -> list[str]:
        return [self.reducer_device]

    def variable_devices(self, devices: tuple[str, ...]) -> tuple[str, ...]:
        return (self.reducer_device,)

    def require_copies(self, variable: Variable) -> None:
        if len(self.members) > 1:
            raise InvalidArgumentError(
                f"extended.update of {variable.name} was given a PerReplica, {len(self.members)} values for as many copies. There is one "
                f"copy, on {self.reducer_device}: combine them first, args=(strategy.reduce('sum', value, axis=None),)."
            )

    def separate(self, variable: Variable) -> None:
        if len(self.members) > 1:
            raise InvalidArgumentError(
                f"{variable.name} lies on one device ({self.reducer_device}) and has aggregation NONE, so a replica cannot change it for "
                "itself. Make it with aggregation=SUM, MEAN or ONLY_FIRST_REPLICA, or change it outside strategy.run."
            )
