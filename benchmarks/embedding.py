"""Sparse reads: a table of a million rows on 16 servers, and the embedding of the tutorial, each against what it is measured by.

The table: 1 M x 64, SGD, 1,000 workers, batches of 32 ids; against the dense model of 4.8 k parameters (async_workers.py) on as many
workers and servers, a step a closure in both. The tutorial's loop: an embedding of 8 x 16384 on 2 servers, batches of 32 x 3 ids, RMSprop;
where TensorFlow is, against its in-process cluster, with a step a closure as here, and with ten. Each case runs in a process of its own;
its peak memory is what the process held at most. The processes of the table let the C library return large arrays at once
(MALLOC_MMAP_THRESHOLD_); that of the tutorial does not: it would get the same pages from the system again in each step, which takes most of
its time.

Run: ``python -m simdist bench embedding``, or this file with ``--quick`` for a small sample, all in one process and without TensorFlow, or
with ``--tf-python PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from _tensorflow import MISSING, add_option, has_tensorflow, tensorflow_side
from async_workers import MODELS, data, loss, parameters

import simdist as sd
from simdist import keras

PACKS = (1, 10)  # steps in a closure of TensorFlow's
VOCABULARY = 8
Step = Callable[[Any], Any]


def rates(coordinator: sd.ClusterCoordinator, step: Step, iterator: Any, steps: int) -> dict[str, float]:
    """Steps a second after a first run that compiles, with the numbers of all of them, and the peak memory in GB."""

    def run() -> float:
        began = time.perf_counter()
        values = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
        coordinator.join()
        values[-1].fetch()
        return time.perf_counter() - began

    first_s = run()
    best = max(steps / run() for _ in range(3))
    return {"rate": best, "first_s": first_s, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def sparse(rows: int, width: int, workers: int, servers: int, steps: int) -> dict[str, float]:
    """A table that is trained by rows."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": servers}), sd.FixedShardsPartitioner(servers))
    rng = np.random.default_rng(0)
    ids, targets = rng.integers(0, rows, (6_400, 1)).astype(np.int32), rng.normal(size=(6_400, 1)).astype(np.float32)
    with strategy.scope():
        table = sd.Variable(lambda: jnp.full((rows, width), 0.01, jnp.float32), name="table")
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        numbers, y = next(iterator)
        value, gradients = sd.value_and_grad(lambda: ((sd.embedding_lookup(table, numbers).sum(-1) - y) ** 2).mean(), [table])()
        optimizer.apply_gradients(zip(gradients, [table], strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices((ids, targets)).batch(32).repeat())
    return rates(coordinator, step, iter(dataset), steps)


def dense(workers: int, servers: int, steps: int) -> dict[str, float]:
    """The dense model of 4.8 k parameters."""
    x, y = data(MODELS["4.8 k"])
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": workers, "ps": servers}))
    with strategy.scope():
        variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(parameters(MODELS["4.8 k"]))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.05))

    @sd.function
    def step(iterator: Any) -> Any:
        features, targets = next(iterator)
        value, gradients = sd.value_and_grad(lambda: loss([v.value for v in variables], features, targets), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(lambda: sd.Dataset.from_tensor_slices((x, y)).batch(32).repeat())
    return rates(coordinator, step, iter(dataset), steps)


def tutorial(steps: int) -> dict[str, float]:
    """The embedding of the tutorial: three of seven words, and whether one of them is among them."""
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 2}), sd.MinSizePartitioner(256 << 10, max_shards=2))
    rng = np.random.default_rng(0)
    words = np.array([rng.choice(np.arange(1, VOCABULARY), 3, replace=False) for _ in range(200)], np.int32)
    labels = (words == 1).any(axis=1, keepdims=True).astype(np.float32)
    with strategy.scope():
        ids = keras.Input(shape=(3,), dtype="int32", name="features")
        pooled = keras.ops.mean(keras.layers.Embedding(VOCABULARY, 16384)(ids), axis=1)
        model = keras.Model(ids, keras.layers.Dense(1)(pooled))
        optimizer = sd.Optimizer(keras.optimizers.RMSprop(learning_rate=0.1))

    @sd.function
    def step(iterator: Any) -> Any:
        features, y = next(iterator)

        def compute_loss() -> Any:
            return sd.compute_average_loss(keras.losses.binary_crossentropy(y, model(features, training=True), from_logits=True))

        value, gradients = sd.value_and_grad(compute_loss, model.trainable_variables)()
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    dataset = coordinator.create_per_worker_dataset(
        lambda: sd.Dataset.from_tensor_slices((words, labels)).shuffle(200, seed=0).batch(32).repeat()
    )
    return rates(coordinator, step, iter(dataset), steps)


CASES: dict[str, Callable[..., dict[str, float]]] = {"sparse": sparse, "dense": dense, "tutorial": tutorial}


def in_this_process(kind: str, *arguments: Any) -> dict[str, float]:
    """Measure one case here."""
    return CASES[kind](*arguments)


def in_a_process(*case: Any) -> dict[str, float]:
    """Measure one case in a process of its own."""
    environ = {**os.environ} if case[0] == "tutorial" else {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run([sys.executable, __file__, "--case", json.dumps(case)], capture_output=True, text=True, check=True, env=environ)
    return json.loads(done.stdout.splitlines()[-1])


def table(measure: Callable[..., dict[str, float]], rows: int, workers: int, servers: int, steps: int, python: str = "") -> None:
    """Print all ratios; `python` is one that has TensorFlow, if there is one."""
    by_rows, whole = measure("sparse", rows, 64, workers, servers, steps), measure("dense", workers, servers, steps)
    loop = measure("tutorial", steps)
    print(f"{'':<44} {'steps/s':>9} {'ratio':>6} {'GB':>5}")
    line = f"{rows:,} x 64, {workers:,} workers, {servers} servers"
    print(f"{line:<44} {by_rows['rate']:>9,.0f} {by_rows['rate'] / whole['rate']:>6.2f} {by_rows['peak_gb']:>5.2f}")
    name = "tutorial, 8 x 16384"
    print(f"{name:<44} {loop['rate']:>9,.0f} {'-':>6} {loop['peak_gb']:>5.2f}")
    for pack in PACKS if python else ():
        theirs = tensorflow_side(python, "embedding_tf.py", steps // 10, pack)["rate"]
        line = f"  TensorFlow, steps in a closure: {pack}"
        print(f"{line:<44} {theirs:>9,.0f} {loop['rate'] / theirs:>6.2f}")


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or measure one case."""
    parser = argparse.ArgumentParser(description="Sparse reads against a dense model, and the tutorial's embedding against TensorFlow.")
    parser.add_argument("--quick", action="store_true", help="a small sample, all in one process, without TensorFlow")
    parser.add_argument("--case", type=json.loads, help="measure this case only, and print it as JSON")
    add_option(parser)
    options = parser.parse_args(arguments)
    if options.case:
        print(json.dumps(in_this_process(*options.case)))
    elif options.quick:
        table(in_this_process, 10_000, 10, 2, 200)
    else:
        found = has_tensorflow(options.tf_python)
        table(in_a_process, 1_000_000, 1_000, 16, 4_000, options.tf_python if found else "")
        if not found:
            print(MISSING)


if __name__ == "__main__":
    main()
