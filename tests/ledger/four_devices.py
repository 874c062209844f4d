"""What test_sharded.py asks of a process whose JAX has four devices: runs of one small MLP, printed as JSON.

Run as a script, with XLA_FLAGS=--xla_force_host_platform_device_count=4; with the names of runs; with the word "once", one run alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import simdist as sd
from simdist.errors import InvalidArgumentError
from simdist.ledger.sharded import ShardedBatches
from simdist.ledger.stack_lanes import LaneStack

STEPS = 20
ROWS, BATCH = 35, 16  # the last batch of each pass has 3 rows: not every replica gets one
OPTIMIZERS: dict[str, Callable[[], Any]] = {"sgd": lambda: optax.sgd(0.05), "adam": lambda: optax.adam(0.01)}


def on_cluster(replicas: int, **options: Any) -> Any:
    return sd.MirroredStrategy(replicas, cluster=sd.Cluster({"worker": 1}, numerics="shard_map", **options))


def on_all() -> Any:
    return sd.MirroredStrategy(devices=jax.devices())


def as_accelerators(strategy: Any) -> Any:
    """Lanes are put together and cut apart as on devices whose memory is not the host's."""
    strategy.cluster.world.ledger.plans.batches.on_host = False
    return strategy


RUNS: dict[str, tuple[Callable[[], Any], str]] = {
    "one device, sgd": (sd.OneDeviceStrategy, "sgd"),
    "one device, adam": (sd.OneDeviceStrategy, "adam"),
    "a replica a device, sgd": (on_all, "sgd"),
    "a replica a device, adam": (on_all, "adam"),
    "two lanes a device, sgd": (lambda: on_cluster(8), "sgd"),
    "a device to spare, adam": (lambda: on_cluster(3), "adam"),
    "lanes on accelerators, adam": (lambda: as_accelerators(on_cluster(7)), "adam"),
    "seven lanes on three devices, adam": (lambda: on_cluster(7, jax_devices=jax.devices()[1:]), "adam"),
    "a TPU slice, adam": (lambda: sd.TPUStrategy(sd.TPUClusterResolver("v4-8"), numerics="shard_map"), "adam"),
    "two workers, sgd": (
        lambda: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": 2}, numerics="shard_map"), devices_per_worker=2),
        "sgd",
    ),
}


def data() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(7).normal(size=(ROWS, 5)).astype(np.float32)
    return x, np.tanh(x.sum(1, keepdims=True))


def watch(strategy: Any) -> list[tuple[int, list[int]]]:
    """For each batched call from now on: how many lanes, and on which devices its first result lies."""
    calls: list[tuple[int, list[int]]] = []
    batches = strategy.cluster.world.ledger.plans.batches
    call = batches._call

    def watched(branch: Any, given: Any) -> Any:
        made = call(branch, given)
        if isinstance(made[0], LaneStack):
            calls.append((len(made[0]), sorted(shard.device.id for shard in made[0].leaves[0].addressable_shards)))
        return made

    batches._call = watched
    return calls


def trained(strategy: Any, optimizer: str) -> dict[str, Any]:
    """Losses and weights of an MLP after STEPS steps of a custom loop."""
    calls = watch(strategy)
    rng = np.random.default_rng(3)
    with strategy.scope():
        weights = [sd.Variable(rng.normal(size=shape).astype(np.float32) * 0.5) for shape in [(5, 8), (8,), (8, 1)]]
        update = sd.Optimizer(OPTIMIZERS[optimizer]())
    iterator = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(data()).batch(BATCH).repeat()))

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            def loss() -> Any:
                inner, bias, outer = (w.value for w in weights)
                return sd.compute_average_loss(((jnp.tanh(x @ inner + bias) @ outer - y) ** 2).mean(-1))

            value, gradients = sd.value_and_grad(loss, weights)()
            update.apply_gradients(zip(gradients, weights, strict=True))
            return value

        return strategy.reduce("sum", strategy.run(replica, args=next(iterator)), axis=None)

    losses = [float(step(iterator)) for _ in range(STEPS)]
    return {"losses": losses, "weights": [w.numpy().tobytes().hex() for w in weights], "calls": calls}


def fitted(strategy: Any) -> list[float]:
    """Losses of epochs of `fit`."""
    from simdist import keras  # its import takes longer than the one run that two processes are compared by

    with strategy.scope():
        init = keras.initializers.GlorotUniform(seed=1)
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh", kernel_initializer=init)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
    x, y = data()
    return model.fit(x, y, batch_size=BATCH, epochs=5, shuffle=False, verbose=0).history["loss"]


def assigned_from_elsewhere() -> list[float]:
    """A value that lies on one device alone goes into an update on another."""
    strategy = on_cluster(2, jax_devices=jax.devices()[:2])
    with strategy.scope():
        v = sd.Variable(np.zeros(2, np.float32))
    v.assign(jax.device_put(jnp.ones(2), jax.devices()[3]))
    strategy.run(lambda: v.assign(v.value + sd.get_replica_context().all_reduce("sum", v.value)))
    return np.asarray(v.numpy()).tolist()


def apart() -> list[list[float]]:
    """Each replica goes on with a value of its own, which an entry of its own has computed on the first device."""
    strategy = on_cluster(2)
    with strategy.scope():
        v, w = sd.Variable(np.zeros(2, np.float32)), sd.Variable(np.ones(2, np.float32))

    def change() -> None:
        v.assign(v.value * 2 + sd.get_replica_context().replica_id_in_sync_group)

    found: list[list[float]] = []
    for _ in range(2):
        strategy.run(change)
        strategy.local_results(v)
        found += [np.asarray(value).tolist() for value in strategy.local_results(strategy.run(lambda: v.value * 2 + w.value))]
    return found


def refused(make: Callable[[], Any]) -> str:
    try:
        make()
    except InvalidArgumentError as error:
        return str(error)
    return ""


def everything(names: list[str]) -> dict[str, Any]:
    devices = jax.devices()
    with sd.debug():
        debugged = on_all()
    fresh = on_cluster(2, jax_devices=devices[:2]).cluster.fresh().world.ledger.plans.batches
    return {
        "runs": {
            name: trained(make(), optimizer) for name, (make, optimizer) in RUNS.items() if name in names or name.startswith("one device")
        },
        "fit": [fitted(on_all()), fitted(sd.OneDeviceStrategy())],
        "elsewhere": assigned_from_elsewhere(),
        "apart": apart(),
        "alone": sd.MirroredStrategy(devices=devices[2:3]).cluster.numerics,
        "debugged": debugged.cluster.numerics,
        "fresh": [device.id for device in fresh.devices] if isinstance(fresh, ShardedBatches) else None,
        "twice": refused(lambda: sd.MirroredStrategy(devices=[*devices, devices[1]])),
        "mixed": refused(lambda: sd.MirroredStrategy(devices=[devices[0], "gpu:1"])),
    }


if __name__ == "__main__":
    print(json.dumps(trained(on_all(), "adam") if "once" in sys.argv else everything(sys.argv[1:])))
