"""Cross-device operations: the reductions among the devices of one machine that tf.distribute has names for.

TensorFlow's NCCL has no kernels for CPUs, and its hierarchical copy adds wrongly on three devices; here all of them work on
every device and any number of them.
"""

from __future__ import annotations

from typing import Any

from simdist.arguments import whole_number
from simdist.errors import InvalidArgumentError
from simdist.program.per_replica import PerReplica, on_each_replica
from simdist.strategies import reduction
from simdist.strategies.communication import CommunicationImplementation, CommunicationOptions

__all__ = ["CrossDeviceOps", "HierarchicalCopyAllReduce", "NcclAllReduce", "ReductionToOneDevice"]


class CrossDeviceOps:
    """The base class of cross-device operations."""

    algorithm: str | None = None
    implementation = CommunicationImplementation.AUTO
    num_packs = 1

    @staticmethod
    def options_of(operations: Any) -> CommunicationOptions:
        """The communication options of a strategy with these operations.

        Raises:
            InvalidArgumentError: it is something else.
        """
        if operations is None:
            return CommunicationOptions()
        if not isinstance(operations, CrossDeviceOps):
            raise InvalidArgumentError(
                f"cross_device_ops={operations!r} must be NcclAllReduce(), HierarchicalCopyAllReduce() or ReductionToOneDevice()."
            )
        return CommunicationOptions(
            implementation=operations.implementation, algorithm=operations.algorithm, num_packs=operations.num_packs
        )

    def reduce(self, reduce_op: Any, per_replica_value: Any, destinations: Any = None, options: Any = None) -> Any:
        """The combined value of a `PerReplica`; in a step, by a collective with these `CommunicationOptions`.

        Raises:
            InvalidArgumentError: other options, or such that concern gradients alone.
        """
        count = per_replica_value.num_replicas if isinstance(per_replica_value, PerReplica) else 1
        return reduction.reduce(reduction.reduce_op_of(reduce_op), per_replica_value, None, count, CommunicationOptions.of_call(options))

    def batch_reduce(self, reduce_op: Any, value_destination_pairs: Any, options: Any = None) -> list[Any]:
        """`reduce` for several (value, destinations)."""
        return [self.reduce(reduce_op, value, destinations, options) for value, destinations in value_destination_pairs]

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """The value at each of several devices, as a `PerReplica`; at a single one, the value itself.

        Raises:
            InvalidArgumentError: the value is a `PerReplica`.
        """
        if isinstance(destinations, PerReplica):
            count = destinations.num_replicas
        else:
            count = 1 if isinstance(destinations, str) else len(destinations)
        return on_each_replica(tensor, count)


class _Packed(CrossDeviceOps):
    """Operations that cut what they reduce into packs."""

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = max(1, whole_number(num_packs, "num_packs", 0))


class NcclAllReduce(_Packed):
    """All-reduce as NCCL does it: a ring or a double tree, whichever is predicted to be faster.

    Args:
        num_packs: into how many packs gradients are cut, each of which is reduced by itself; default 1, and 0 is 1.

    Raises:
        InvalidArgumentError: a negative number.
        TypeError: no whole number.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(2, cross_device_ops=sd.NcclAllReduce(num_packs=2))
        >>> strategy.run(lambda: sd.get_replica_context().all_reduce("sum", 1.0)).values[0].item()
        2.0
    """

    implementation = CommunicationImplementation.NCCL


class HierarchicalCopyAllReduce(_Packed):
    """Reduce inside groups of devices first, then among the groups, then copy back.

    Args:
        num_packs: into how many packs gradients are cut, each of which is reduced by itself; default 1, and 0 is 1.

    Raises:
        InvalidArgumentError: a negative number.
        TypeError: no whole number.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(4, cross_device_ops=sd.HierarchicalCopyAllReduce())
        >>> strategy.run(lambda: sd.get_replica_context().all_reduce("sum", 1.0)).values[0].item()
        4.0
    """

    algorithm = "hierarchical copy"


class ReductionToOneDevice(CrossDeviceOps):
    """Copy all values to one device, add them there, and copy the result back.

    Args:
        reduce_to_device, accumulation_fn: only None: it is the first replica's device, and values are added.

    Raises:
        InvalidArgumentError: another device or function was asked for.

    Example:
        >>> import simdist as sd
        >>> strategy = sd.MirroredStrategy(3, cross_device_ops=sd.ReductionToOneDevice())
        >>> strategy.run(lambda: sd.get_replica_context().all_reduce("sum", 1.0)).values[0].item()
        3.0
    """

    algorithm = "reduction to one"

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        for name, given in (("reduce_to_device", reduce_to_device), ("accumulation_fn", accumulation_fn)):
            if given is not None:
                raise InvalidArgumentError(
                    f"{name}={given!r}: the values are added on the first replica's device. Leave it out; sd.CentralStorageStrategy has a "
                    "device of its own for it."
                )
