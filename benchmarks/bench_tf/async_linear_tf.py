"""Asynchronous linear model (10 -> 1, batch 32, SGD) on 2 parameter servers: TensorFlow's in-process cluster against simdist.

TensorFlow runs its own tutorial's set-up: ``tf.distribute.Server`` for every task in this process, `ParameterServerStrategy`,
`ClusterCoordinator`, ten steps packed into one closure (its best setting here). simdist runs the same model, batches and packs.
Each side runs in a process of its own, one after the other, on the same machine.

Needs TensorFlow (``pip install -e '.[bench-tf]'``, or give the Python of another environment that has it):
``python benchmarks/bench_tf/async_linear_tf.py [--tf-python PYTHON]``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _in_process import in_process_cluster

PACK, BATCH, ROWS = 10, 32, 640


def tensorflow_side(workers: int, steps: int) -> dict[str, float]:
    """Steps a second of TensorFlow's in-process cluster, after a first run."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import numpy as np
    import tensorflow as tf

    strategy, running = in_process_cluster(workers, servers=2)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        w = tf.Variable(tf.zeros((10, 1)))
        b = tf.Variable(tf.zeros((1,)))
    x = np.random.default_rng(0).random((ROWS, 10)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)

    def dataset_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(ROWS, seed=0).repeat().batch(BATCH)

    @tf.function
    def pack(iterator: Any) -> Any:
        loss = tf.constant(0.0)
        for _ in range(PACK):
            features, targets = next(iterator)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((features @ w + b - targets) ** 2)
            for variable, gradient in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                variable.assign_sub(0.05 * gradient)
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(dataset_fn))

    def run(count: int) -> float:
        began = time.perf_counter()
        for _ in range(count // PACK):
            coordinator.schedule(pack, args=(iterator,))
        coordinator.join()
        return time.perf_counter() - began

    run(PACK * 2 * workers)
    rate = max(steps / run(steps) for _ in range(3))
    del running
    return {"rate": rate, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def in_a_process(python: str, *arguments: str) -> dict[str, float]:
    """Run one side; its last line of output that is JSON is the result."""
    done = subprocess.run([python, *arguments], capture_output=True, text=True, check=False, timeout=900)
    results = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not results:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    return json.loads(results[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tf-python", default=sys.executable, help="a Python that has TensorFlow (default: this one)")
    parser.add_argument("--tensorflow-side", nargs=2, type=int, metavar=("WORKERS", "STEPS"))
    options = parser.parse_args()
    if options.tensorflow_side:
        result = tensorflow_side(*options.tensorflow_side)
        print(json.dumps(result), flush=True)
        os._exit(0)  # TensorFlow's servers would take half a minute to end
    if options.tf_python == sys.executable and importlib.util.find_spec("tensorflow") is None:
        raise SystemExit("TensorFlow is not installed here: pip install -e '.[bench-tf]', or give --tf-python PYTHON.")
    ours = str(Path(__file__).parent.parent / "async_workers.py")
    print(f"{'linear 10 -> 1, 2 ps, ten steps a closure':<44} {'simdist':>9} {'GB':>5} {'TensorFlow':>11} {'GB':>5} {'ratio':>7}")
    for workers, steps in ((3, 6_000), (30, 4_000), (100, 3_000)):
        theirs = in_a_process(options.tf_python, __file__, "--tensorflow-side", str(workers), str(steps))
        mine = in_a_process(sys.executable, ours, "--case", json.dumps(["simulated", "linear", workers, "deferred", 20_000]))
        print(
            f"{f'{workers} workers, steps/s':<44} {mine['rate']:>9,.0f} {mine['peak_gb']:>5.2f} {theirs['rate']:>11,.0f} "
            f"{theirs['peak_gb']:>5.2f} {mine['rate'] / theirs['rate']:>7.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
