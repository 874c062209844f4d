"""MirroredStrategy here and in TensorFlow, from the same weights on the same batches: the losses of 20 steps must agree.

Three models (linear; 784-128-10; a small convolutional network), SGD with momentum and Adam, 1 to 4 replicas. The loss of each
example is divided by the size of the global batch and summed, so that every number of replicas has the same losses. TensorFlow
runs `bench_tf/mirrored_tf.py` on logical CPU devices, with models in its own operations. Agreement is class E2: the
largest difference of 20 losses, relative to the largest loss. A last line shows where the two differ on purpose: fit on an
uneven last batch.

Run: ``python benchmarks/parity_mirrored.py [--tf-python PYTHON] [--quick]``. The exit status is 0 if all agree, 1 if not, 2
without TensorFlow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _tensorflow import MISSING, MISSING_STATUS, add_option, has_tensorflow, tensorflow_side

import simdist as sd
from simdist import keras

TOLERANCE, BATCH = 1e-5, 24
STEPS, REPLICAS = 20, (1, 2, 3, 4)
QUICK_STEPS, QUICK_REPLICAS = 3, (2,)
OPTIMIZERS = {"SGD": {"learning_rate": 0.05, "momentum": 0.9}, "Adam": {"learning_rate": 0.001}}
# Targets of an epoch in batches of 4 whose last batch is uneven on 2 replicas, and the exact weight after it.
UNEVEN_BATCH, UNEVEN = 4, {(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0): 0.2, (0.0, 0.0, 0.0, 0.0, 2.0): 0.4}


def linear() -> Any:
    return keras.Sequential([keras.Input((10,)), keras.layers.Dense(1)])


def mlp() -> Any:
    return keras.Sequential([keras.Input((784,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])


def cnn() -> Any:
    layers = [keras.layers.Conv2D(4, 3, activation="relu"), keras.layers.MaxPooling2D(2), keras.layers.Flatten()]
    return keras.Sequential([keras.Input((12, 12, 1)), *layers, keras.layers.Dense(10)])


def squared_error(output: Any, y: Any) -> Any:
    return keras.ops.mean((output - y) ** 2, axis=-1)


def cross_entropy(output: Any, y: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(y, output, from_logits=True)


Model = tuple[Callable[[], Any], Callable[[Any, Any], Any], tuple[int, ...]]
# How it is built, the loss of each example, and the shape of an input.
MODELS: dict[str, Model] = {
    "linear": (linear, squared_error, (10,)),
    "mlp": (mlp, cross_entropy, (784,)),
    "cnn": (cnn, cross_entropy, (12, 12, 1)),
}


def arrays(steps: int) -> dict[str, np.ndarray]:
    """Inputs and targets of so many steps, and first weights of every model, by name."""
    rng, found = np.random.default_rng(0), dict[str, np.ndarray]()
    for name, (build, _, shape) in MODELS.items():
        x = rng.normal(0, 0.5, (steps * BATCH, *shape)).astype(np.float32)
        scores = x.reshape(len(x), -1) @ rng.normal(size=(np.prod(shape), 10)).astype(np.float32)
        found[f"{name}/x"] = x
        found[f"{name}/y"] = scores[:, :1] if name == "linear" else scores.argmax(axis=1).astype(np.int32)
        for number, weight in enumerate(build().weights):
            found[f"{name}/weight{number}"] = rng.normal(0, 0.1, tuple(weight.shape)).astype(np.float32)
    return found


def losses(given: dict[str, np.ndarray], name: str, optimizer_name: str, replicas: int) -> list[float]:
    """The loss of every step of one case."""
    build, per_example, _ = MODELS[name]
    strategy = sd.MirroredStrategy(devices=replicas)
    with strategy.scope():
        model = build()
        model.set_weights([array for key, array in given.items() if key.startswith(f"{name}/weight")])
        optimizer = sd.Optimizer(getattr(keras.optimizers, optimizer_name)(**OPTIMIZERS[optimizer_name]))
    rows = sd.Dataset.from_tensor_slices((given[f"{name}/x"], given[f"{name}/y"])).batch(BATCH)
    iterator = iter(strategy.distribute_dataset(rows))

    def replica(x: Any, y: Any) -> Any:
        def loss() -> Any:
            return sd.compute_average_loss(per_example(model(x, training=True), y), global_batch_size=BATCH)

        value, gradients = sd.value_and_grad(loss, model.trainable_variables)()
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    @sd.function
    def step(iterator: Any) -> Any:
        return strategy.reduce("sum", strategy.run(replica, args=next(iterator)), axis=None)

    return [float(value) for value in [step(iterator) for _ in range(len(given[f"{name}/x"]) // BATCH)]]


def uneven(targets: tuple[float, ...]) -> float:
    """w after an epoch of fit on 2 replicas: y = w x from w = 0 with x = 1, SGD with 0.1."""
    with sd.MirroredStrategy(devices=2).scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
    y = np.array(targets, np.float32)[:, None]
    model.fit(sd.Dataset.from_tensor_slices((np.ones_like(y), y)).batch(UNEVEN_BATCH), epochs=1, verbose=0)
    return float(np.asarray(model.get_weights()[0]).item())


def tensorflow_losses(python: str, given: dict[str, np.ndarray], numbers: tuple[int, ...]) -> dict[int, dict[str, list[float]]]:
    """The same cases in TensorFlow, a process for each number of replicas."""
    plan = json.dumps({"batch": BATCH, "optimizers": OPTIMIZERS})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cases.npz")
        np.savez(path, plan=np.array(plan), **given)
        return {replicas: tensorflow_side(python, "mirrored_tf.py", "parity", replicas, path) for replicas in numbers}


def compare(given: dict[str, np.ndarray], theirs: dict[int, dict[str, list[float]]]) -> int:
    """Print a line for each case; return how many disagree."""
    print(f"{f'global batch {BATCH}':<24} {'replicas':>8} {'first loss':>11} {'last loss':>11} {'largest difference':>19}")
    disagree = 0
    for name, optimizer, replicas in itertools.product(MODELS, OPTIMIZERS, theirs):
        own, other = (np.array(row) for row in (losses(given, name, optimizer, replicas), theirs[replicas][f"{name}/{optimizer}"]))
        difference = float(np.abs(own - other).max() / np.abs(other).max())
        # Written so that not-a-number disagrees.
        agrees = difference <= TOLERANCE
        disagree += not agrees
        label = f"{name}, {optimizer}"
        mark = "" if agrees else "  differs"
        print(f"{label:<24} {replicas:>8} {own[0]:>11.6f} {own[-1]:>11.6f} {difference:>19.1e}{mark}", flush=True)
    return disagree


def show_uneven(python: str) -> None:
    """What fit makes of an uneven last batch; no part of the verdict."""
    theirs = tensorflow_side(python, "mirrored_tf.py", "uneven", UNEVEN_BATCH, *(json.dumps(targets) for targets in UNEVEN))["weights"]
    for (targets, exact), other in zip(UNEVEN.items(), theirs, strict=True):
        count = len(targets) % UNEVEN_BATCH
        label = f"fit, 2 replicas, last batch of {count}:"
        print(f"{label:<34} w = {uneven(targets):.3f} here, {other:.3f} in TensorFlow, {exact:.3f} is the mean over the batch")


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return the exit status."""
    parser = argparse.ArgumentParser(description="Losses of MirroredStrategy, here and in TensorFlow.")
    add_option(parser)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps on 2 replicas only")
    options = parser.parse_args(arguments)
    python, steps, numbers = options.tf_python, *((QUICK_STEPS, QUICK_REPLICAS) if options.quick else (STEPS, REPLICAS))
    if not has_tensorflow(python):
        print(MISSING, file=sys.stderr)
        return MISSING_STATUS
    given = arrays(steps)
    disagree = compare(given, tensorflow_losses(python, given, numbers))
    if not options.quick:
        show_uneven(python)
    print(f"{disagree} cases differ by more than {TOLERANCE:.0e}" if disagree else f"all cases agree within {TOLERANCE:.0e}")
    return 1 if disagree else 0


if __name__ == "__main__":
    sys.exit(main())
