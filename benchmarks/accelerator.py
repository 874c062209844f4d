"""Many workers with parameters of their own: one batched call for all of them against one dispatch a worker.

The form is local training (`MultiWorkerMirroredStrategy` with ``sync_every=``): every worker takes steps on its own variables, so all
gradients of a step are taken at different parameters and none waits for another. The plans ``vmap`` and ``shard_map`` make two calls
of a step, one of all gradients and one of all updates, whatever the number of workers. (Asynchronous workers on parameter servers
are *not* this form: each update there needs the one before it, so their gradients become known one after the other.)

What is measured is the numbers alone: a few steps are noted, and then the time is taken in which the ledger computes them (so what
is otherwise begun beside the schedule is held back). The schedule has a column of its own, and so has the program as users run it, in
which both go on side by side. One dispatch a worker is a bare loop in plain JAX: one jitted gradient and update for each worker, whose
parameters, data and numbers of rows lie on the device. The plan ``loop`` is one call, too, in which the workers come one after the other.

Run: ``python -m simdist bench accelerator``, or this file with ``--quick``, ``--workers`` and ``--model``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from async_workers import BATCH, MODELS, data, loss, parameters

import simdist as sd
from simdist import keras
from simdist.ledger.ledger import Ledger
from simdist.ledger.stack_lanes import Lane

STEPS, ROUNDS, RATE = 3, 4, 0.05  # 3 steps of 1,024 workers are fewer entries than a full ledger
GOAL = 20


class Seconds(NamedTuple):
    """Of a step of all workers, the best of some rounds: of its numbers, of its schedule, and of both side by side."""

    numbers_s: float
    schedule_s: float
    program_s: float


def wait_for(ledger: Ledger) -> None:
    """Until all that has been begun is computed."""
    held = [numbers for file in ledger.files.values() for numbers in file.loose.values()]
    jax.block_until_ready([numbers.stack.leaves if isinstance(numbers, Lane) else numbers for numbers in held])


def simulated(model: str, workers: int, numerics: str) -> Seconds:
    """Seconds of a step of the simulated program."""
    widths = MODELS[model]
    x, y = data(widths)
    cluster = sd.Cluster({"worker": workers}, numerics=numerics)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sync_every=1_000_000)
    with strategy.scope():
        variables = [sd.Variable(value, name=f"v{number}") for number, value in enumerate(parameters(widths))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(RATE))
    rows = sd.Dataset.from_tensor_slices((x, y)).repeat().batch(workers * BATCH)
    iterator = iter(strategy.distribute_dataset(rows))
    ledger = cluster.world.ledger

    @sd.function
    def step(iterator: Any) -> None:
        def replica(features: Any, targets: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: loss([v.value for v in variables], features, targets), variables)()
            optimizer.apply_gradients(zip(gradients, variables, strict=True))

        strategy.run(replica, args=next(iterator))

    def seconds() -> tuple[float, float]:
        began = time.perf_counter()
        for _ in range(STEPS):
            step(iterator)
        noted = time.perf_counter()
        ledger.flush()
        wait_for(ledger)
        return (noted - began) / STEPS, (time.perf_counter() - noted) / STEPS

    program_s = min([sum(seconds()) for _ in range(ROUNDS)][1:])  # the first round compiles
    ledger.begin = lambda: None
    apart = [seconds() for _ in range(ROUNDS)][1:]
    return Seconds(min(numbers for _, numbers in apart), min(schedule for schedule, _ in apart), program_s)


def bare(model: str, workers: int) -> float:
    """Seconds of a step of all workers, in a Python loop of one jitted gradient and update for each; all its inputs lie on the device."""
    widths = MODELS[model]
    x, y = map(jax.device_put, data(widths))

    @jax.jit
    def train(values: Any, x: Any, y: Any, rows: Any) -> Any:
        gradients = jax.grad(loss)(values, x[rows], y[rows])
        return jax.tree_util.tree_map(lambda a, b: a - RATE * b, values, gradients)

    each = [jax.device_put(parameters(widths)) for _ in range(workers)]
    order = list(map(jax.device_put, np.random.default_rng(0).integers(0, len(x), (workers, BATCH)).astype(np.int32)))
    seconds: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(STEPS):
            each = [train(values, x, y, rows) for values, rows in zip(each, order, strict=True)]
        jax.block_until_ready(each)
        seconds.append((time.perf_counter() - began) / STEPS)
    return min(seconds[1:])


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="One batched call for all workers against one dispatch a worker.")
    parser.add_argument("--quick", action="store_true", help="a small sample")
    parser.add_argument("--workers", type=int, help="how many (default 1,024; with --quick 8)")
    parser.add_argument("--model", choices=list(MODELS), default="4.8 k")
    options = parser.parse_args(arguments)
    workers = options.workers or (8 if options.quick else 1_024)
    devices = jax.local_devices()
    print(f"{len(devices)} x {devices[0].device_kind} ({devices[0].platform}), {workers:,} workers, model {options.model}, batch {BATCH}")
    print(f"{'worker-steps a second':<44} {'numbers':>12} {'x bare':>7} {'schedule':>10} {'program':>10}")
    bare_s = bare(options.model, workers)
    print(f"{'bare loop, one jitted call a worker':<44} {workers / bare_s:>12,.0f} {1:>7.2f} {'-':>10} {'-':>10}")
    for name in ("vmap", *(["shard_map"] if len(devices) > 1 else []), "loop"):
        found = simulated(options.model, workers, name)
        numbers = f"{workers / found.numbers_s:>12,.0f} {bare_s / found.numbers_s:>7.2f}"
        print(f"{f'numerics={name!r}':<44} {numbers} {workers / found.schedule_s:>10,.0f} {workers / found.program_s:>10,.0f}")
    if devices[0].platform == "cpu":
        print(f"These devices are CPUs: the goal, {GOAL} times one dispatch a worker, is one for accelerators (H100, H200).")


if __name__ == "__main__":
    main()
