"""MirroredStrategy, 784-128-10, batches of 32 for each replica, SGD: seconds a step against a bare loop over the replicas.

The bare loop calls one jitted gradient for each replica's part, adds them up, and updates once: the same numbers without a
cluster. Compile time is measured apart, because every replica is traced into one program.

There are two forms of it: a loop of the user's own, with variables and an optimizer, and Keras' fit. Both run with the numbers of
single calls (class E1), and with one batched gradient for all replicas (``numerics="vmap"``, class E2). Where TensorFlow is, two more
columns have its MirroredStrategy on as many logical CPU devices, in a process of its own: its custom loop, the fastest it has
here, and Keras' fit. Their ratios say how many times as long they take as a loop and a fit here.

Run: ``python -m simdist bench synchronous``, or this file with ``--quick``, ``--tf-python PYTHON`` and ``--tf-64`` (minutes).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import numpy as np
from _tensorflow import MISSING, add_option, has_tensorflow, tensorflow_side

import simdist as sd
from simdist import keras

WIDTHS, BATCH = (784, 128, 10), 32


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [rows, 784] and labels [rows]."""
    rng = np.random.default_rng(0)
    return rng.random((rows, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], rows).astype(np.int32)


def mirrored(replicas: int, numerics: str) -> sd.MirroredStrategy:
    return sd.MirroredStrategy(devices=replicas, cluster=sd.Cluster({"worker": 1}, numerics=numerics))


def custom_loop(replicas: int, steps: int, numerics: str = "deferred") -> float:
    """Seconds a step of a loop of the user's own, with variables and an optimizer, and without Keras."""
    x, y = data(replicas * BATCH * 4)
    rng = np.random.default_rng(1)
    strategy = mirrored(replicas, numerics)
    with strategy.scope():
        variables = [sd.Variable(rng.normal(0, 0.1, shape).astype(np.float32)) for shape in ((784, 128), (128,), (128, 10), (10,))]
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.05))
    dataset = sd.Dataset.from_tensor_slices((x, y)).repeat().batch(replicas * BATCH)
    batches = iter(strategy.distribute_dataset(dataset))

    @sd.function
    def train_step(inputs: Any) -> Any:
        def step_fn(inputs: Any) -> Any:
            features, labels = inputs

            def loss() -> Any:
                w0, b0, w1, b1 = (variable.value for variable in variables)
                logits = jax.nn.relu(features @ w0 + b0) @ w1 + b1
                each = -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
                return sd.compute_average_loss(each)

            value, gradients = sd.value_and_grad(loss, variables)()
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
            return value

        return strategy.run(step_fn, args=(inputs,))

    def run(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            train_step(next(batches))
        variables[0].numpy()
        return time.perf_counter() - began

    run(3)
    return min(run(steps) for _ in range(3)) / steps


def simulated(replicas: int, steps: int, numerics: str = "deferred") -> tuple[float, float]:
    """Seconds a step of Keras' fit, and seconds until the first step was done."""
    x, y = data(replicas * BATCH * 4)
    with mirrored(replicas, numerics).scope():
        model = keras.Sequential(
            [keras.Input((WIDTHS[0],)), keras.layers.Dense(WIDTHS[1], activation="relu"), keras.layers.Dense(WIDTHS[2])]
        )
        model.compile(keras.optimizers.SGD(0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = sd.Dataset.from_tensor_slices((x, y)).repeat().batch(replicas * BATCH)

    def run(count: int) -> float:
        began = time.perf_counter()
        model.fit(dataset, epochs=1, steps_per_epoch=count, verbose=0)
        return time.perf_counter() - began

    first_s = run(1)
    run(steps)
    return min(run(steps) for _ in range(3)) / steps, first_s


def bare(replicas: int, steps: int) -> float:
    """Seconds a step of the loop of the jitted gradient."""
    x, y = data(replicas * BATCH * 4)
    rng = np.random.default_rng(1)
    start = [rng.normal(0, 0.1, shape).astype(np.float32) for shape in ((784, 128), (128,), (128, 10), (10,))]

    def loss(p: Any, x: Any, y: Any) -> Any:
        logits = jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]
        return -jax.numpy.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    gradient = jax.jit(jax.grad(loss))
    add = jax.jit(lambda a, b: jax.tree_util.tree_map(jax.numpy.add, a, b))
    update = jax.jit(lambda p, g: jax.tree_util.tree_map(lambda a, b: a - 0.05 / replicas * b, p, g))

    def run(count: int) -> float:
        parameters: Any = start
        began = time.perf_counter()
        for number in range(count):
            offset = number % 4 * replicas * BATCH
            total = None
            for replica in range(replicas):
                rows = slice(offset + replica * BATCH, offset + (replica + 1) * BATCH)
                part = gradient(parameters, x[rows], y[rows])
                total = part if total is None else add(total, part)
            parameters = update(parameters, total)
        jax.block_until_ready(parameters)
        return time.perf_counter() - began

    run(3)
    return min(run(steps) for _ in range(3)) / steps


def tensorflow_columns(python: str, replicas: int, steps: int, ours_s: tuple[float, float]) -> str:
    """Milliseconds a step of TensorFlow's loop and of its fit, each with its ratio to ours."""
    theirs = tensorflow_side(python, "mirrored_tf.py", "speed", replicas, steps)
    pairs = zip(("loop_s", "fit_s"), ours_s, strict=True)
    columns = [(theirs[kind] * 1e3, theirs[kind] / own_s) if theirs[kind] else None for kind, own_s in pairs]
    return "".join(f" {f'{column[0]:.2f}':>8} {column[1]:>6.1f}" if column else f" {'-':>8} {'-':>6}" for column in columns)


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="MirroredStrategy against a bare loop, and against TensorFlow's where that is.")
    parser.add_argument("--quick", action="store_true", help="a small sample, without TensorFlow")
    parser.add_argument("--tf-64", action="store_true", help="TensorFlow with 64 replicas too")
    add_option(parser)
    options = parser.parse_args(arguments)
    with_tensorflow = not options.quick and has_tensorflow(options.tf_python)
    head = f"{'784-128-10, batch 32 a replica, ms a step':<42} {'loop':>7} {'fit':>7} {'bare loop':>10} {'ratios':>11} {'first fit':>10}"
    head += f" {'E2 loop':>8} {'E2 fit':>7} {'ratios':>11}"
    print(head + (f" {'TF loop':>8} {'ratio':>6} {'TF fit':>8} {'ratio':>6}" if with_tensorflow else ""))
    for replicas in (2,) if options.quick else (1, 2, 4, 8, 16, 64):
        steps = 3 if options.quick else max(20, 160 // replicas)
        (fit_s, first_s), ours_s, bare_s = simulated(replicas, steps), custom_loop(replicas, steps), bare(replicas, steps)
        batched_s = custom_loop(replicas, steps, "vmap"), simulated(replicas, steps, "vmap")[0]
        line = f"{f'{replicas} replicas':<42} {ours_s * 1e3:>7.2f} {fit_s * 1e3:>7.2f} {bare_s * 1e3:>10.2f}"
        line += f" {ours_s / bare_s:>5.2f} {fit_s / bare_s:>5.2f} {first_s:>9.1f}s"
        line += f" {batched_s[0] * 1e3:>8.2f} {batched_s[1] * 1e3:>7.2f} {batched_s[0] / bare_s:>5.2f} {batched_s[1] / bare_s:>5.2f}"
        if with_tensorflow and (replicas < 64 or options.tf_64):
            line += tensorflow_columns(options.tf_python, replicas, steps, (ours_s, fit_s))
        print(line, flush=True)
    if not (with_tensorflow or options.quick):
        print(MISSING)


if __name__ == "__main__":
    main()
