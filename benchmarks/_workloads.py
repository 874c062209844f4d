"""What is measured against another revision: workloads through the public API, each as a function that takes so many steps.

This file runs against both trees, so it names nothing that only one of them has; a workload that a tree cannot run is skipped.
``python benchmarks/_workloads.py NAME STEPS`` runs one in this process, and prints as JSON the processor's seconds that its steps
took, with all threads of the process, and the folder of the package that it ran.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from async_workers import MODELS, PACK, asynchronous, data, loss, parameters

import simdist as sd
from simdist import keras

BATCH, PARTS = 32, 3
Run = Callable[[int], Any]


class Workload(NamedTuple):
    """A line of the table."""

    title: str
    prepare: Callable[[], Run]  # builds it and warms it up
    steps: int  # that take about a second


def workers(model: str, count: int, numerics: str) -> Run:
    """Asynchronous workers, ten steps a closure; with numbers, they are computed too."""
    run = asynchronous(model, count, numerics)
    run(2 * PACK * count if numerics == "off" else max(9_000, 2 * PACK * count))
    return run


def linear_step(strategy: Any) -> tuple[Callable[[Any], Any], Any, Any]:
    """A custom step of the linear model under a synchronous strategy; its iterator, and a variable to look at."""
    (x, y), rule = data(MODELS["linear"]), keras.optimizers.SGD(0.05)  # outside of the scope: its rate is no variable of the cluster
    with strategy.scope():
        variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(parameters(MODELS["linear"]))]
        optimizer = sd.Optimizer(rule)

    @sd.function
    def step(iterator: Any) -> Any:
        def replica(batch: Any) -> Any:
            value, gradients = sd.value_and_grad(lambda: loss([v.value for v in variables], *batch), variables)()
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return value

        return strategy.run(replica, args=(next(iterator),))

    rows = sd.Dataset.from_tensor_slices((x, y)).repeat().batch(strategy.num_replicas_in_sync * BATCH)
    return step, iter(strategy.distribute_dataset(rows)), variables[0]


def steps_of(strategy: Any, numerics: str, steps: int) -> None:
    """Build the linear model under a strategy and take so many steps."""
    step, iterator, variable = linear_step(strategy)
    for _ in range(steps):
        step(iterator)
    if numerics != "off":
        variable.numpy()


def synchronous(make: Callable[[str], Any], numerics: str, warm_up: int) -> Run:
    """Steps of a synchronous strategy that this process drives, called directly."""
    step, iterator, variable = linear_step(make(numerics))

    def run(steps: int) -> None:
        for _ in range(steps):
            step(iterator)
        if numerics != "off":
            variable.numpy()

    run(warm_up)
    return run


def mirrored(replicas: int, numerics: str) -> Run:
    """MirroredStrategy on one machine."""
    return synchronous(lambda chosen: sd.MirroredStrategy(replicas, cluster=sd.Cluster({}, numerics=chosen)), numerics, 20)


def notebook(count: int) -> Run:
    """MultiWorkerMirroredStrategy that the notebook drives."""
    return synchronous(lambda chosen: sd.MultiWorkerMirroredStrategy(sd.Cluster({"worker": count}, numerics=chosen)), "off", 20)


def mains(count: int) -> Run:
    """Workers that each run a main of their own, which takes the steps."""

    def run(steps: int) -> None:
        with sd.Cluster({"worker": count}, numerics="off") as cluster:
            cluster.launch(lambda: steps_of(sd.MultiWorkerMirroredStrategy(), "off", steps)).join()

    run(3)
    return run


def fit() -> Run:
    """Keras' fit on 3 workers and 2 parameter servers, ten steps a closure."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 2}))
    with strategy.scope():
        model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.01), loss="mse", steps_per_execution=10)
    x, y = data(MODELS["linear"])
    rows = sd.DatasetCreator(lambda _: sd.Dataset.from_tensor_slices((x, y)).shuffle(len(x), seed=0).repeat().batch(BATCH))

    def run(steps: int) -> None:
        model.fit(rows, epochs=10, steps_per_epoch=max(1, steps // 10), verbose=0)

    run(1_000)
    return run


def messages() -> Run:
    """Messages of 300 workers over shared links: rounds, without anything of a training."""
    from network import unequal_shards

    unequal_shards(1)
    return unequal_shards


def first_steps() -> Run:
    """First steps of new programs on parameter servers and on two replicas: traced, compiled from the cache, linked."""

    def run(times: int) -> None:
        for _ in range(times):
            asynchronous("4.8 k", 2, "deferred")(PACK)
            steps_of(sd.MirroredStrategy(2), "deferred", 1)

    return run


def lines() -> dict[str, Workload]:
    """All lines of the table."""
    table: dict[str, Workload] = {}
    for count, steps in ((3, 15_000), (100, 15_000), (1_000, 15_000)):
        table[f"async-{count}"] = Workload(f"{count:,} asynchronous workers, timing only", partial(workers, "linear", count, "off"), steps)
    for count, steps in ((3, 10_000), (100, 10_000)):
        title = f"{count:,} asynchronous workers, with numbers"
        table[f"async-numbers-{count}"] = Workload(title, partial(workers, "linear", count, "deferred"), steps)
    table["async-mlp-10"] = Workload("10 asynchronous workers, 4.8 k, numbers", partial(workers, "4.8 k", 10, "deferred"), 6_000)
    for count, steps in ((2, 4_000), (16, 1_000), (64, 160)):
        table[f"mirrored-{count}"] = Workload(f"{count} replicas, timing only", partial(mirrored, count, "off"), steps)
    for count, steps in ((2, 600), (16, 160)):
        table[f"mirrored-numbers-{count}"] = Workload(f"{count} replicas, with numbers", partial(mirrored, count, "deferred"), steps)
    table["fit"] = Workload("Keras' fit, 3 workers, 10 steps a closure", fit, 3_000)
    table["notebook-8"] = Workload("a notebook drives 8 workers, timing only", partial(notebook, 8), 1_000)
    table["mains-4"] = Workload("4 launched mains, timing only", partial(mains, 4), 800)
    table["network"] = Workload("messages over shared links", messages, 250)
    table["first-step"] = Workload("first steps: trace, compile, link", first_steps, 3)
    return table


def measured(name: str, steps: int) -> dict[str, Any]:
    """The processor's seconds that so many steps of a line take here, and whose they are.

    They are taken in three parts, of which the fastest counts thrice: what disturbs a machine seldom lasts for all of them.
    """
    run, parts_s = lines()[name].prepare(), list[float]()
    for _ in range(PARTS):
        gc.collect()
        began = time.process_time()
        run(max(1, steps // PARTS))
        parts_s.append(time.process_time() - began)
    return {"cpu_s": PARTS * min(parts_s), "package": str(Path(sd.__file__).resolve().parent)}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
