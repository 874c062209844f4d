"""The cluster and the runs of lesson 06, for its exercises.

`make_cluster` and `dense_rounds` are those of the notebook, word for word.
"""

from __future__ import annotations

import numpy as np

import simdist as sd
from simdist import keras
from simdist.hardware import Device, Network

__all__ = ["dense_rounds", "ids_of_workers", "make_cluster", "skewed_steps"]


def make_cluster(workers, servers, numerics="off", network=None):
    """Make a cluster in which only bytes take time: each port sends one gigabyte in a second."""
    free = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=0.0)
    return sd.Cluster(
        {"worker": workers, "ps": servers},
        hardware=free,
        network=network or Network(bandwidth=1e9, latency=0.0),
        numerics=numerics,
    )


def dense_rounds(cluster, shapes, partitioner=None, rounds=2, **options):
    """Run synchronous rounds that read and change a whole model; return the milliseconds of a round, and the strategy."""
    strategy = sd.ParameterServerStrategy(cluster, partitioner, mode="sync", **options)
    with strategy.scope():
        model = [sd.Variable(np.zeros(shape, np.float32), name=name) for name, shape in shapes.items()]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function(seconds=0.0)
    def step():
        def loss():
            return sum(keras.ops.sum(variable.value) for variable in model)

        _, gradients = sd.value_and_grad(loss, model)()
        optimizer.apply_gradients(zip(gradients, model, strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(rounds * len(strategy.workers)):
        coordinator.schedule(step)
    coordinator.join()
    return 1e3 * cluster.now / rounds, strategy


def ids_of_workers(coordinator, batches):
    """Iterate over datasets of the workers: each has its ids of each round.

    Args:
        coordinator: of the workers.
        batches: the ids of each worker in each round [rounds, w, b].
    """

    def ids_of_worker(context):
        of_rounds = [ids[context.input_pipeline_id] for ids in batches]
        return sd.Dataset.from_tensor_slices(np.concatenate(of_rounds)).batch(len(of_rounds[0]))

    return iter(coordinator.create_per_worker_dataset(coordinator.strategy.distribute_datasets_from_function(ids_of_worker)))


def skewed_steps(batches, rows, shards):
    """Run one step for each batch of ids on as many workers, with a table that no step reads on the first server.

    Args:
        batches: the ids of each worker [w, b].
        rows: of the embedding.
        shards: of the embedding, and servers.
    """
    cluster = make_cluster(len(batches), shards)
    strategy = sd.ParameterServerStrategy(cluster, lambda shape, dtype, axis=0: [shards if shape[0] == rows else 1, 1])
    with strategy.scope():
        sd.Variable(np.zeros((rows // 4, 16), np.float32), name="archive")
        table = sd.Variable(np.zeros((rows, 16), np.float32), name="embedding")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function(seconds=0.0)
    def step(ids):
        _, gradients = sd.value_and_grad(lambda: keras.ops.sum(sd.embedding_lookup(table, ids) ** 2), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    for ids in batches:
        coordinator.schedule(step, args=(ids,))
    coordinator.join()
    return cluster, strategy
