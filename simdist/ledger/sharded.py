"""Waves whose lanes are spread over several JAX devices: the replicas of a synchronous step really run side by side.

The devices make up a mesh of one axis. What a lane needs is sent to the lane's device, one call of a jitted ``shard_map`` computes
all lanes, each device its own (several, where there are more lanes than devices), and the results are brought to the first device.
That is home: an entry that is alone in its wave (an all-reduce, an update) is computed there. Lanes that nobody needs repeat
the last one, so that each device has equally many, and few sizes are compiled.

Numbers: class E2, as of all waves. Equal devices give equal bits in any process (class E0).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from simdist.errors import InvalidArgumentError
from simdist.ledger.batched import Batches, LaneFunction
from simdist.program.kernels import Kernel, compiler_options

__all__ = ["ShardedBatches", "is_jax_device", "mesh_devices"]

AXIS = "lane"
HOW_TO = "Give some of jax.devices(), each once."


def is_jax_device(device: Any) -> bool:
    """Whether something is a device of JAX, and no name of one."""
    return hasattr(device, "platform") and hasattr(device, "id") and hasattr(device, "process_index")


def mesh_devices(devices: Sequence[Any] | None) -> tuple[Any, ...]:
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
        raise InvalidArgumentError(f"{given}, but the lanes of a wave are computed on some. {HOW_TO}")
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
    """Computes entries wave by wave, the lanes of a wave side by side on several devices.

    Args:
        devices: as `mesh_devices` gives them.
    """

    def __init__(self, devices: Sequence[Any]) -> None:
        super().__init__()
        self.devices = list(devices)
        self.first_device = self.devices[0]
        self.sharding = NamedSharding(Mesh(np.array(self.devices), (AXIS,)), PartitionSpec(AXIS))

    def single(self, kernel: Kernel, arguments: list[Any]) -> tuple[Any, ...]:
        # Somebody may have assigned an array that lies elsewhere, and JAX computes nothing from arrays of two devices.
        return kernel(*jax.device_put(arguments, self.first_device))

    def lanes(self, count: int) -> int:
        return len(self.devices) * super().lanes(-(-count // len(self.devices)))

    def batched(self, function: LaneFunction) -> LaneFunction:
        spec = self.sharding.spec
        # check_vma=False: a kernel knows of no mesh, and nothing in it passes from lane to lane.
        sharded = jax.shard_map(function, mesh=self.sharding.mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return jax.jit(sharded, compiler_options=compiler_options(self.first_device.platform))

    def stacked(self, columns: list[tuple[Any, ...]]) -> list[jax.Array]:
        """Each lane goes to its device and is stacked there: the whole never lies on one device, which need not have room for it."""
        each = len(columns[0]) // len(self.devices)
        # What several lanes of a device share (variables, as a rule) is sent to it once.
        wanted = {(id(array), lane // each): array for column in columns for lane, array in enumerate(column)}
        found = jax.device_put(list(wanted.values()), [self.devices[row] for _, row in wanted])
        sent = dict(zip(wanted, found, strict=True))
        lanes = [[sent[id(array), lane // each] for lane, array in enumerate(column)] for column in columns]
        return [self._joined([jnp.stack(column[start : start + each]) for start in range(0, len(column), each)]) for column in lanes]

    def _joined(self, shards: list[jax.Array]) -> jax.Array:
        first = shards[0].shape
        return jax.make_array_from_single_device_arrays((first[0] * len(shards), *first[1:]), self.sharding, shards)

    def cut(self, results: Sequence[jax.Array], count: int) -> list[tuple[Any, ...]]:
        each = results[0].shape[0] // len(self.devices) if results else 1
        pieces = [[shard.data for shard in _in_order(result)[: -(-count // each)]] for result in results]
        brought = jax.device_put(pieces, self.first_device)
        return [tuple(shards[lane // each][lane % each] for shards in brought) for lane in range(count)]


def _in_order(array: jax.Array) -> list[Any]:
    return sorted(array.addressable_shards, key=lambda shard: shard.index[0].start or 0)
