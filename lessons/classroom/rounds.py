"""The cluster, the counting run and the training of lesson 05, for its exercises.

`make_cluster`, `count_steps`, `train` and `by_the_rule` are those of the notebook, word for word.
"""

from __future__ import annotations

import jax
import numpy as np
from sklearn.datasets import load_digits

import simdist as sd
from simdist import keras
from simdist.hardware import Device, Network, TwoPoint

__all__ = [
    "by_the_rule",
    "count_steps",
    "images",
    "labels",
    "loss_of",
    "make_cluster",
    "shuffled",
    "train",
]

images, labels = load_digits(return_X_y=True)
images, labels = (images / 16.0).astype("float32"), labels.astype("int32")
RARELY_SLOW = TwoPoint(1.0, 5.0, probability=0.1)
shuffled = np.random.default_rng(0).permutation(len(images))


def make_cluster(workers, jitter, numerics="deferred", seed=5):
    """Make a cluster in which only the workers take time: a step needs one virtual second, times the jitter."""
    worker = Device(launch_overhead=0.0, jitter=jitter)
    quick = Device(flops=1e30, memory_bandwidth=1e30, launch_overhead=1e-4)
    return sd.Cluster(
        {"worker": workers, "ps": 1},
        seed=seed,
        hardware={"worker": worker, "ps": quick, "chief": quick},
        network=Network(bandwidth=1e18, latency=0.0),
        numerics=numerics,
    )


def count_steps(cluster, steps, **options):
    """Run steps that read a variable, take their time and update it; return the updates of the server."""
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        counter = sd.Variable(0.0, name="counter")

    @sd.function(seconds=1.0)
    def step():
        counter.assign_add(counter.value * 0.0 + 1.0)

    coordinator = sd.ClusterCoordinator(strategy)
    for _ in range(steps):
        coordinator.schedule(step)
    coordinator.join()
    return list(cluster.trace.spans.where(category="apply"))


@jax.jit  # it is computed for every virtual second of every run
def mean_loss(weights):
    """Compute the mean loss of all images."""
    scores = keras.ops.matmul(images, weights)
    return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(labels, scores, True))


def loss_of(weights):
    """Compute the loss of all images with these weights."""
    return float(mean_loss(weights))


def train(cluster, rate, until_s, rows=32, **options):
    """Train a linear model for some virtual seconds; return a list of (seconds, updates, loss)."""
    strategy = sd.ParameterServerStrategy(cluster, **options)
    with strategy.scope():
        weights = sd.Variable(np.zeros((64, 10), np.float32), name="weights")
        optimizer = sd.Optimizer(keras.optimizers.SGD(float(rate)))

    @sd.function(seconds=1.0)
    def step(x, y):
        def loss():
            scores = keras.ops.matmul(x, weights.value)
            losses = keras.losses.sparse_categorical_crossentropy(y, scores, True)
            return keras.ops.mean(losses)

        _, gradients = sd.value_and_grad(loss, [weights])()
        optimizer.apply_gradients(zip(gradients, [weights], strict=True))

    coordinator = sd.ClusterCoordinator(strategy)
    for number in range((until_s + 2) * len(strategy.workers)):
        places = np.arange(number * rows, (number + 1) * rows) % len(images)
        coordinator.schedule(step, (images[shuffled[places]], labels[shuffled[places]]))
    curve = [(0.0, 0, loss_of(weights.numpy()))]
    while cluster.now < until_s:
        sd.sleep(1.0)
        curve.append((cluster.now, int(optimizer.iterations), loss_of(weights.numpy())))
    return curve


def by_the_rule(staleness, iterations=10_000, workers=8):
    """Compute the iterations per second of workers of which none may be more than `staleness` iterations ahead."""
    random = np.random.default_rng(0)
    seconds = RARELY_SLOW.block(random, iterations * workers).reshape(-1, workers)
    free = np.zeros(workers)  # when each worker has ended its last iteration
    all_ended = [0.0]  # when all workers have ended so many iterations
    for iteration in range(iterations):
        may_begin = all_ended[max(0, iteration - staleness)]
        free = np.maximum(free, may_begin) + seconds[iteration]
        all_ended.append(free.max())
    return iterations / all_ended[-1]
