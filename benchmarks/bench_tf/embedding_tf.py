"""TensorFlow's side of `embedding.py`: the tutorial's embedding loop on an in-process cluster of 3 workers and 2 parameter servers.

A table of 8 x 16384 in two shards, three ids a row, batches of 32, one output, RMSprop. In plain TensorFlow, because Keras 3 does not know
this strategy. Each row is asked for once in a step, which makes TensorFlow about twice as fast; the gradients of the shards are rows, and
one operation on the server applies them. The last line of output is the result, as JSON.

    python embedding_tf.py STEPS PACK    steps a second, with so many steps in a closure
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
from _in_process import in_process_cluster

WORKERS, SERVERS, VOCABULARY, WIDTH, BATCH = 3, 2, 8, 16384, 32
RATE, RHO, EPSILON = 0.1, 0.9, 1e-7


def dataset() -> Any:
    """Three of seven words, and whether one of them is among them."""
    rng = np.random.default_rng(0)
    words = np.array([rng.choice(np.arange(1, VOCABULARY), 3, replace=False) for _ in range(200)], np.int64)
    labels = (words == 1).any(axis=1, keepdims=True).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((words, labels)).shuffle(200, seed=0).batch(BATCH).repeat()


def rms(variable: Any, mean: Any, moment: Any, gradient: Any) -> None:
    """One step of RMSprop, of rows or of all."""
    numbers = {"lr": RATE, "rho": RHO, "momentum": 0.0, "epsilon": EPSILON}
    handles = {"var": variable.handle, "ms": mean.handle, "mom": moment.handle}
    if isinstance(gradient, tf.IndexedSlices):
        tf.raw_ops.ResourceSparseApplyRMSProp(**handles, **numbers, grad=gradient.values, indices=gradient.indices)
    else:
        tf.raw_ops.ResourceApplyRMSProp(**handles, **numbers, grad=gradient)


def speed(steps: int, pack: int) -> dict[str, float]:
    """Steps a second, at best of three runs after one that compiles, and the loss at the end."""
    strategy, running = in_process_cluster(WORKERS, SERVERS)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    rng = np.random.default_rng(1)
    with strategy.scope():
        values = [rng.uniform(-0.05, 0.05, (VOCABULARY // SERVERS, WIDTH)).astype(np.float32) for _ in range(SERVERS)]
        shards = [tf.Variable(value) for value in values]
        kernel = tf.Variable(rng.uniform(-0.02, 0.02, (WIDTH, 1)).astype(np.float32))
        trained = [*shards, kernel, tf.Variable(tf.zeros((1,)))]
        means, moments = ([tf.Variable(tf.zeros(variable.shape)) for variable in trained] for _ in range(2))

    @tf.function
    def closure(iterator: Any) -> Any:
        loss = tf.constant(0.0)
        for _ in range(pack):
            words, labels = next(iterator)
            with tf.GradientTape() as tape:
                seen, numbers = tf.unique(tf.reshape(words, [-1]))
                rows = tf.gather(tf.nn.embedding_lookup(shards, seen), tf.reshape(numbers, [-1, 3]))
                pooled = tf.reduce_mean(rows, axis=1)
                logits = tf.matmul(pooled, trained[-2]) + trained[-1]
                loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
            for of_variable in zip(trained, means, moments, tape.gradient(loss, trained), strict=True):
                rms(*of_variable)
        return loss

    iterator = iter(coordinator.create_per_worker_dataset(dataset))

    def run(count: int) -> tuple[float, float]:
        began = time.perf_counter()
        values = [coordinator.schedule(closure, args=(iterator,)) for _ in range(count // pack)]
        coordinator.join()
        loss = float(values[-1].fetch())
        return time.perf_counter() - began, loss

    run(4 * WORKERS * pack)
    runs = [run(steps) for _ in range(3)]
    del running
    return {"rate": steps / min(seconds for seconds, _ in runs), "loss": runs[-1][1]}


if __name__ == "__main__":
    print(json.dumps(speed(int(sys.argv[1]), int(sys.argv[2]))), flush=True)
    os._exit(0)  # TensorFlow's servers would take half a minute to end
