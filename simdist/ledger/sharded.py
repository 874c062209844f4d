"""The plan `shard_map`: a batch's lanes on several JAX devices, so that the replicas of a synchronous step really run in parallel.

The devices make up a mesh of one axis. What a lane needs is sent to the lane's device, one call of a jitted ``shard_map`` computes
all lanes, each device its own (several, where there are more lanes than devices), and the results are brought to the first device.
An entry that is alone in its batch (an all-reduce, an update) is computed on the first device. Lanes that are not needed repeat
the last one, so that each device has equally many, and few sizes are compiled.

Numbers: class E2, as of all batches. Equal devices give equal bits in any process (class E0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard, runtime_checkable

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from simdist.errors import InvalidArgumentError
from simdist.ledger.batched import BatchedFunction, Batches, LaneFunction
from simdist.ledger.stack_lanes import on_host_alone, put_together_on_device, rows_of
from simdist.program.arrays import Array, Arrays, HostArray
from simdist.program.kernels import Kernel, compiler_options

__all__ = ["JaxDevice", "ShardedBatches", "is_jax_device", "mesh_devices"]

AXIS = "lane"
HOW_TO = "Give some of jax.devices(), each once."


@runtime_checkable
class JaxDevice(Protocol):
    """A device of JAX, as far as batched calls must know it."""

    @property
    def platform(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def process_index(self) -> int: ...


def is_jax_device(device: object) -> TypeGuard[JaxDevice]:
    """Whether something is a device of JAX, and no name of one."""
    return isinstance(device, JaxDevice)


def mesh_devices(devices: Sequence[JaxDevice] | None) -> tuple[JaxDevice, ...]:
    """Devices that can make up a mesh.

    Args:
        devices: JAX devices; None: all that this process has of JAX's default platform.

    Returns:
        The same, in order; the first is home.

    Raises:
        InvalidArgumentError: none, one twice, of several platforms, of another process, or what is no JAX device.

    Example:
        >>> [device.id for device in mesh_devices(jax.devices()[:1])]
        [0]
    """
    if devices is None:
        return tuple(jax.local_devices())
    strange = [device for device in devices if not is_jax_device(device)]
    if strange or not devices:
        given = f"{strange[0]!r} is no JAX device" if strange else "An empty list of JAX devices was given"
        raise InvalidArgumentError(f"{given}, but the lanes of a batch are computed on some. {HOW_TO}")
    names = [f"{device.platform}:{device.id}" for device in devices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgumentError(f"{', '.join(twice)} is given twice in a list of {len(names)} JAX devices. {HOW_TO}")
    platforms = sorted({device.platform for device in devices})
    if len(platforms) > 1:
        raise InvalidArgumentError(
            f"One program runs on all devices, so they must be of one platform; got {', '.join(names)}. "
            f"Give those of {' or of '.join(platforms)}, for example jax.devices({platforms[0]!r})."
        )
    far = [name for name, device in zip(names, devices, strict=True) if device.process_index != jax.process_index()]
    if far:
        raise InvalidArgumentError(f"{', '.join(far)} belongs to another process of this JAX cluster. Give some of jax.local_devices().")
    return tuple(devices)


class ShardedBatches(Batches):
    """Computes entries level by level, the lanes of a batch in parallel on several devices.

    Args:
        devices: as `mesh_devices` gives them.
    """

    def __init__(self, devices: Sequence[JaxDevice]) -> None:
        super().__init__()
        self.devices = list(devices)
        self.first_device = self.devices[0]
        self.on_host = self.first_device.platform == "cpu"
        self.finds_rows = False  # the columns lie on all devices
        self.sharding = NamedSharding(Mesh(np.array(self.devices), (AXIS,)), PartitionSpec(AXIS))
        self._gathered = jax.jit(rows_of, out_shardings=self.sharding)

    def single(self, kernel: Kernel, arguments: list[Array]) -> Arrays:
        # A user may have assigned an array that lies elsewhere, and JAX computes nothing from arrays of two devices.
        return kernel(*jax.device_put(arguments, self.first_device))

    def lanes(self, count: int) -> int:
        return len(self.devices) * super().lanes(-(-count // len(self.devices)))

    def batched(self, function: LaneFunction) -> BatchedFunction:
        spec = self.sharding.spec
        lanes = jax.vmap(function, in_axes=(None, 0))
        # check_vma=False: a kernel knows of no mesh, and nothing in it passes from lane to lane.
        sharded = jax.shard_map(lanes, mesh=self.sharding.mesh, in_specs=(PartitionSpec(), spec), out_specs=spec, check_vma=False)
        return jax.jit(sharded, compiler_options=compiler_options(self.first_device.platform))

    def table(self, columns: Arrays) -> tuple[jax.Array, ...]:
        """The columns, whole on each device."""
        return tuple(map(self._everywhere, columns))

    def together(self, rows: Sequence[Arrays]) -> Sequence[Array]:
        """Each lane goes to its device and is stacked there: the whole never lies on one device, which need not have room for it."""
        if on_host_alone(rows):
            return super().together(rows)
        if self.on_host:  # whose memory all of them share
            return jax.device_put(list(self.pooled(rows)), self.sharding)
        each = len(rows) // len(self.devices)
        sent = jax.device_put(list(rows), [self.devices[lane // each] for lane in range(len(rows))])
        shards = [put_together_on_device(sent[start : start + each]) for start in range(0, len(rows), each)]
        return [self._joined(list(leaves)) for leaves in zip(*shards, strict=True)]

    def _joined(self, shards: list[jax.Array]) -> jax.Array:
        first = shards[0].shape
        return jax.make_array_from_single_device_arrays((first[0] * len(shards), *first[1:]), self.sharding, shards)

    def pooled(self, rows: Sequence[Arrays]) -> Sequence[Array]:
        # A user may have assigned arrays that lie on several devices.
        return super().pooled(rows if on_host_alone(rows) else jax.device_put(list(rows), self.first_device))

    def gathered(self, stack: Sequence[Array], rows: HostArray) -> Sequence[jax.Array]:
        """Some rows of each leaf, each on its lane's device."""
        spread = [leaf if isinstance(leaf, jax.Array) and leaf.sharding == self.sharding else self._everywhere(leaf) for leaf in stack]
        return self._gathered(spread, rows)

    def _everywhere(self, array: Array) -> jax.Array:
        return jax.device_put(array, NamedSharding(self.sharding.mesh, PartitionSpec()))

    def cut(self, stack: Sequence[jax.Array], lanes: Sequence[int]) -> list[Arrays]:
        """Lanes by themselves, on the first device."""
        rows = super().cut(stack, lanes)
        return rows if self.on_host else jax.device_put(rows, self.first_device)
