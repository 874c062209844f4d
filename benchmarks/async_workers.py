"""Asynchronous workers on 2 parameter servers, ten steps a closure: simdist against a bare loop of the same jitted functions.

Two models: linear (10 -> 1, 11 parameters) and an MLP of 4.8 k parameters (64-64-10), batches of 32, SGD. Each case runs in a
process of its own, so that its peak memory is its own. The bare loop computes the same gradients and updates without any
cluster: no schedule, no time, no network.

Run: ``python -m simdist bench async_workers``, or this file with ``--quick`` for a small sample, all in one process.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np

import simdist as sd
from simdist import keras

ROWS, BATCH, PACK = 640, 32, 10
MODELS = {"linear": (10, 1), "4.8 k": (64, 64, 10)}


def data(widths: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [640, first width] and targets [640, last width]."""
    x = np.random.default_rng(0).random((ROWS, widths[0])).astype(np.float32)
    return x, np.repeat(x.sum(axis=1, keepdims=True), widths[-1], axis=1)


def parameters(widths: tuple[int, ...]) -> list[np.ndarray]:
    """Weights and biases, layer by layer."""
    rng, arrays = np.random.default_rng(1), list[np.ndarray]()
    for rows, columns in pairwise(widths):
        arrays += [rng.normal(0, 0.1, (rows, columns)).astype(np.float32), np.zeros(columns, np.float32)]
    return arrays


def loss(values: list[Any], x: Any, y: Any) -> Any:
    """Mean squared error of a network with ReLU between its layers."""
    for w, b in zip(values[::2], values[1::2], strict=True):
        x = jax.nn.relu(x @ w + b) if w is not values[-2] else x @ w + b
    return ((x - y) ** 2).mean()


class Simulation(NamedTuple):
    """Workers on 2 parameter servers, with what a closure of one step needs, and a variable to look at."""

    cluster: sd.Cluster
    coordinator: sd.ClusterCoordinator
    step: Callable[..., Any]
    iterator: Any
    variable: sd.Variable


def simulation(model: str, workers: int, numerics: str) -> Simulation:
    """Build the cluster and the model; nothing runs yet."""
    widths = MODELS[model]
    x, y = data(widths)
    cluster = sd.Cluster({"worker": workers, "ps": 2}, numerics=numerics)
    strategy = sd.ParameterServerStrategy(cluster)
    with strategy.scope():
        variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(parameters(widths))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.05))

    @sd.function
    def step(iterator: Any) -> Any:
        features, targets = next(iterator)
        value, gradients = sd.value_and_grad(lambda: loss([v.value for v in variables], features, targets), variables)()
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return value

    coordinator = sd.ClusterCoordinator(strategy)
    rows = sd.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=0).repeat().batch(BATCH)
    iterator = iter(coordinator.create_per_worker_dataset(lambda: rows))
    return Simulation(cluster, coordinator, step, iterator, variables[0])


def asynchronous(model: str, workers: int, numerics: str) -> Callable[[int], None]:
    """Workers on 2 parameter servers, as a function that takes so many steps, ten a closure, and computes their numbers."""
    _, coordinator, step, iterator, variable = simulation(model, workers, numerics)

    def run(count: int) -> None:
        for _ in range(count // PACK):
            coordinator.schedule_steps(step, (iterator,), {}, PACK)
        coordinator.join()
        if numerics != "off":
            variable.numpy()

    return run


def simulated(model: str, workers: int, numerics: str, steps: int, first: int = 9_000) -> dict[str, float]:
    """Worker-steps a second after a first run that compiles, and what the process held at most."""
    take = asynchronous(model, workers, numerics)

    def run(count: int) -> float:
        began = time.perf_counter()
        take(count)
        return time.perf_counter() - began

    first_s = run(max(first, 2 * PACK * workers) if numerics != "off" else 2 * PACK * workers)
    rate = max(steps / run(steps) for _ in range(3))
    return {"rate": rate, "first_s": first_s, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def bare(model: str, steps: int) -> dict[str, float]:
    """Steps a second of a Python loop of the jitted gradient and the jitted update."""
    widths = MODELS[model]
    x, y = data(widths)
    gradient = jax.jit(jax.value_and_grad(loss))
    update = jax.jit(lambda p, g: jax.tree_util.tree_map(lambda a, b: a - 0.05 * b, p, g))
    order = np.random.default_rng(0).integers(0, ROWS, (steps, BATCH))
    rates: list[float] = []
    for _ in range(3):
        values: Any = parameters(widths)
        began = time.perf_counter()
        for rows in order:
            _, gradients = gradient(values, x[rows], y[rows])
            values = update(values, gradients)
        jax.block_until_ready(values)
        rates.append(steps / (time.perf_counter() - began))
    return {"rate": max(rates)}


def in_a_process(*case: Any) -> dict[str, float]:
    """Measure one case in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--case", json.dumps(case)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def in_this_process(kind: str, *arguments: Any) -> dict[str, float]:
    """Measure one case here."""
    return {"simulated": simulated, "bare": bare}[kind](*arguments)


def table(measure: Callable[..., dict[str, float]], workers: list[int], *steps: int) -> None:
    """Print all cases."""
    for model in MODELS:
        loop = measure("bare", model, steps[0])["rate"]
        title = f"{model}, worker-steps/s (bare loop: {loop:,.0f})"
        print(f"{title:<46} {'timing only':>12} {'numbers':>10} {'ratio':>6} {'x loop':>7} {'GB':>5}", flush=True)
        for count in workers:
            timing, numbers = (measure("simulated", model, count, numerics, *steps) for numerics in ("off", "deferred"))
            ratio = numbers["rate"] / timing["rate"]
            print(
                f"{f'{count:,} workers':<46} {timing['rate']:>12,.0f} {numbers['rate']:>10,.0f} {ratio:>6.2f} "
                f"{numbers['rate'] / loop:>7.2f} {numbers['peak_gb']:>5.2f}",
                flush=True,
            )


def main(arguments: list[str] | None = None) -> None:
    """Print the table, or measure one case."""
    parser = argparse.ArgumentParser(description="Asynchronous workers against a bare loop of the same functions.")
    parser.add_argument("--quick", action="store_true", help="a small sample, all in one process")
    parser.add_argument("--case", type=json.loads, help="measure this case only, and print it as JSON")
    options = parser.parse_args(arguments)
    if options.case:
        print(json.dumps(in_this_process(*options.case)))
    elif options.quick:
        table(in_this_process, [3], 200, 200)
    else:
        table(in_a_process, [3, 10, 30, 100, 300, 1_000], 20_000)


if __name__ == "__main__":
    main()
