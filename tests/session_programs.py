"""Programs of all kinds, for sessions: what a user would write in a cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import simdist as sd
from simdist import keras

X = np.random.default_rng(0).random((48, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)
ROWS = sd.Dataset.from_tensor_slices((X, Y))


def coordinator(cluster: sd.Cluster) -> list[float]:
    """Closures of two workers and two servers, with a loop of the chief."""
    strategy = sd.ParameterServerStrategy(cluster, variable_partitioner=sd.FixedShardsPartitioner(2))
    with strategy.scope():
        w = sd.Variable(np.zeros((4, 1), np.float32), name="w")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))
    chief = sd.ClusterCoordinator(strategy)
    rows = iter(chief.create_per_worker_dataset(lambda: ROWS.repeat().batch(8)))

    @sd.function
    def step(iterator: Any) -> Any:
        x, y = next(iterator)
        loss, gradients = sd.value_and_grad(lambda: ((x @ w.value - y) ** 2).mean(), [w])()
        optimizer.apply_gradients(zip(gradients, [w], strict=True))
        return loss

    for epoch in range(3):
        losses = [chief.schedule(step, args=(rows,)) for _ in range(6)]
        chief.join()
        print(f"epoch {epoch} at {cluster.now:.6f}")
    return [float(loss.fetch()) for loss in losses] + np.asarray(w.numpy()).ravel().tolist()


def model() -> Any:
    net = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(0.05), "mse")
    return net


def fit_with(make: Callable[[sd.Cluster], Any]) -> Callable[[sd.Cluster], list[float]]:
    def program(cluster: sd.Cluster) -> list[float]:
        with make(cluster).scope():
            net = model()
        return net.fit(ROWS.batch(12), epochs=2, verbose=0).history["loss"]

    return program


def loop_with(make: Callable[[sd.Cluster], Any], steps: int = 4) -> Callable[[sd.Cluster], list[float]]:
    """A loop of the user's own, on a strategy from the notebook."""

    def program(cluster: sd.Cluster) -> list[float]:
        return train(make(cluster), steps)

    return program


def train(strategy: Any, steps: int) -> list[float]:
    is_central = isinstance(strategy, sd.CentralStorageStrategy)  # what lies on one device needs a rule for what several replicas assign
    aggregation = sd.VariableAggregation.ONLY_FIRST_REPLICA if is_central else sd.VariableAggregation.NONE
    with strategy.scope():
        w = sd.Variable(np.zeros((4, 1), np.float32), name="w", aggregation=aggregation)
    batches = iter(strategy.distribute_dataset(ROWS.repeat().batch(12)))

    @sd.function
    def step(batches: Any) -> Any:
        def replica_step(x: Any, y: Any) -> None:
            _, (gradient,) = sd.value_and_grad(lambda: ((x @ w.value - y) ** 2).sum() / 12, [w])()
            w.assign_sub(0.1 * sd.get_replica_context().all_reduce("SUM", gradient))

        strategy.run(replica_step, args=next(batches))

    for _ in range(steps):
        step(batches)
    return np.asarray(w.numpy()).ravel().tolist()


def one_reduction(algorithm: str) -> Callable[[sd.Cluster], None]:
    """One sum of 1 MB over all workers, by an algorithm."""

    def program(cluster: sd.Cluster) -> None:
        options = sd.CommunicationOptions(algorithm=algorithm)
        strategy = sd.MultiWorkerMirroredStrategy(cluster, communication_options=options)
        with strategy.scope():
            w = sd.Variable(np.zeros(250_000, np.float32), name="w")
        step = sd.function(lambda: strategy.run(lambda: w.assign_sub(sd.get_replica_context().all_reduce("SUM", w.value))))
        step()

    return program


def loops_of_mains(cluster: sd.Cluster) -> list[float]:
    """A loop in a main for each worker."""
    run = cluster.launch(lambda: train(sd.MultiWorkerMirroredStrategy(), 4))
    run.join()
    return run.results["worker:0"]


def servers_fit(cluster: sd.Cluster) -> list[float]:
    with sd.ParameterServerStrategy(cluster).scope():
        net = model()
    return net.fit(ROWS.repeat().batch(12), epochs=2, steps_per_epoch=4, verbose=0).history["loss"]


def mains(cluster: sd.Cluster) -> list[float]:
    """A main for each worker, which train together."""

    def main() -> list[float]:
        strategy = sd.MultiWorkerMirroredStrategy()
        with strategy.scope():
            net = model()
        return net.fit(ROWS.batch(12), epochs=2, verbose=0).history["loss"]

    run = cluster.launch(main, restart="never")
    run.join()
    return run.results["worker:0"]


def cluster_of(name: str) -> sd.Cluster:
    """The cluster that a program of a name runs on."""
    return sd.TPUStrategy.make_cluster("v4-8", seed=3) if name.endswith("TPU slice") else sd.Cluster((LOOPS | PROGRAMS)[name][1], seed=3)


PROGRAMS: dict[str, tuple[Callable[[sd.Cluster], Any], dict[str, int]]] = {
    "coordinator": (coordinator, {"worker": 2, "ps": 2}),
    "fit of servers": (servers_fit, {"worker": 2, "ps": 1}),
    "one device": (fit_with(lambda cluster: sd.OneDeviceStrategy(cluster=cluster)), {"worker": 1}),
    "TPU slice": (fit_with(lambda cluster: sd.TPUStrategy(cluster=cluster)), {"worker": 4}),
    "mirrored": (fit_with(lambda cluster: sd.MirroredStrategy(3, cluster=cluster)), {"worker": 1}),
    "central storage": (fit_with(lambda cluster: sd.CentralStorageStrategy(2, cluster=cluster)), {"worker": 1}),
    "workers from a notebook": (fit_with(sd.MultiWorkerMirroredStrategy), {"worker": 3}),
    "survivors": (fit_with(lambda cluster: sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")), {"worker": 3}),
    "launched mains": (mains, {"worker": 2}),
}

LOOPS: dict[str, tuple[Callable[[sd.Cluster], Any], dict[str, int]]] = {
    "coordinator": PROGRAMS["coordinator"],
    "one device": (loop_with(lambda cluster: sd.OneDeviceStrategy(cluster=cluster)), {"worker": 1}),
    "mirrored": (loop_with(lambda cluster: sd.MirroredStrategy(3, cluster=cluster)), {"worker": 1}),
    "central storage": (loop_with(lambda cluster: sd.CentralStorageStrategy(2, cluster=cluster)), {"worker": 1}),
    "TPU slice": (loop_with(lambda cluster: sd.TPUStrategy(cluster=cluster)), {"worker": 4}),
    "workers from a notebook": (loop_with(sd.MultiWorkerMirroredStrategy), {"worker": 3}),
    "survivors": (loop_with(lambda cluster: sd.MultiWorkerMirroredStrategy(cluster, on_failure="continue")), {"worker": 3}),
    "launched mains": (loops_of_mains, {"worker": 2}),
}
"""Programs without Keras, which take some hundredths of a second."""

CRASH = {"kind": "crash", "task": "worker:1", "restart_after": 0.0002}


def session_of(name: str) -> sd.Session:
    """A session of the program of a name."""
    return sd.Session(PROGRAMS[name][0], cluster_of(name))


def digest_without_faults(name: str) -> str:
    """The digest of a program's run to the end."""
    session = session_of(name)
    session.advance()
    return session.digest()
