"""TensorFlow's side of `parity_mirrored.py` and `synchronous.py`: its MirroredStrategy on logical CPU devices of this process.

Models are written in plain TensorFlow, and get their weights and batches from the other side, so that nothing but the
question is shared. The last line of output is the result, as JSON.

    python mirrored_tf.py parity REPLICAS CASES.npz  the losses of every case
    python mirrored_tf.py uneven BATCH TARGETS...    the weight after each of these lists of targets, on 2 replicas
    python mirrored_tf.py speed REPLICAS STEPS       seconds a step of a custom loop and of Keras' fit

A process makes one strategy only: the collectives of a second one take the first one's keys, and TensorFlow stops.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["KERAS_BACKEND"] = "tensorflow"

import numpy as np
import tensorflow as tf

WIDTHS, BATCH = (784, 128, 10), 32


def mirrored(replicas: int) -> Any:
    """The strategy, on as many parts of this machine's CPU; TensorFlow chooses how they reduce."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return tf.distribute.MirroredStrategy([f"CPU:{number}" for number in range(replicas)])


def linear(p: list[Any], x: Any, y: Any) -> Any:
    return tf.reduce_mean((x @ p[0] + p[1] - y) ** 2, axis=-1)


def mlp(p: list[Any], x: Any, y: Any) -> Any:
    return cross_entropy(tf.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)


def cnn(p: list[Any], x: Any, y: Any) -> Any:
    images = tf.nn.relu(tf.nn.conv2d(x, p[0], 1, "VALID") + p[1])
    pooled = tf.nn.max_pool2d(images, 2, 2, "VALID")
    return cross_entropy(tf.reshape(pooled, (-1, p[2].shape[0])) @ p[2] + p[3], y)


def cross_entropy(logits: Any, y: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


# The loss of each example, of a model's parameters, inputs and targets.
LOSSES: dict[str, Callable[[list[Any], Any, Any], Any]] = {"linear": linear, "mlp": mlp, "cnn": cnn}


def loop(strategy: Any, optimizer: Any, variables: list[Any], per_example: Callable[..., Any], batch: int) -> Callable[..., Any]:
    """One step over all replicas: the loss of the global batch, after which the variables have changed."""
    optimizer.build(variables)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(per_example(variables, x, y), global_batch_size=batch)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def step(iterator: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica, args=next(iterator)), axis=None)

    return step


def case_losses(strategy: Any, arrays: Any, model: str, optimizer: tuple[str, dict[str, Any]], batch: int) -> list[float]:
    """The loss of every step of one case."""
    x, y = arrays[f"{model}/x"], arrays[f"{model}/y"]
    names = sorted(name for name in arrays.files if name.startswith(f"{model}/weight"))
    with strategy.scope():
        variables = [tf.Variable(arrays[name]) for name in names]
        step = loop(strategy, getattr(tf.keras.optimizers, optimizer[0])(**optimizer[1]), variables, LOSSES[model], batch)
    iterator = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)))
    return [float(step(iterator)) for _ in range(len(x) // batch)]


def fitted_weight(strategy: Any, targets: list[float], batch: int) -> float:
    """w after an epoch of Keras' fit: y = w x from w = 0 with x = 1, SGD with 0.1."""
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    y = np.array(targets, np.float32)[:, None]
    model.fit(tf.data.Dataset.from_tensor_slices((np.ones_like(y), y)).batch(batch), epochs=1, verbose=0)
    return float(model.get_weights()[0].item())


def parity(replicas: int, path: str) -> dict[str, list[float]]:
    """Every case of the file that the other side wrote."""
    arrays = np.load(path)
    plan = json.loads(str(arrays["plan"]))
    strategy = mirrored(replicas)
    return {
        f"{model}/{optimizer}": case_losses(strategy, arrays, model, (optimizer, options), plan["batch"])
        for model, (optimizer, options) in itertools.product(LOSSES, plan["optimizers"].items())
    }


def uneven(batch: int, lists: list[list[float]]) -> dict[str, list[float]]:
    strategy = mirrored(2)
    return {"weights": [fitted_weight(strategy, targets, batch) for targets in lists]}


def speed(replicas: int, steps: int) -> dict[str, float | None]:
    """Seconds a step, at best of three runs after one that compiles."""
    rng = np.random.default_rng(0)
    batch = replicas * BATCH
    x, y = rng.random((4 * batch, WIDTHS[0])).astype(np.float32), rng.integers(0, WIDTHS[-1], 4 * batch).astype(np.int32)
    # The strategy comes first: with any tensor, a dataset's too, TensorFlow fixes how many devices there are.
    strategy = mirrored(replicas)
    rows = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch)
    with strategy.scope():
        shapes = [shape for inputs, outputs in itertools.pairwise(WIDTHS) for shape in ((inputs, outputs), (outputs,))]
        variables = [tf.Variable(rng.normal(0, 0.1, shape).astype(np.float32)) for shape in shapes]
        step = loop(strategy, tf.keras.optimizers.SGD(0.05), variables, mlp, batch)
    iterator = iter(strategy.experimental_distribute_dataset(rows))

    def run(count: int) -> None:
        loss = None
        for _ in range(count):
            loss = step(iterator)
        float(loss)

    # Keras' fit builds one program for all replicas again, which takes minutes for many.
    return {"loop_s": best(run, steps), "fit_s": best(fit(strategy, rows), max(3, steps // 4)) if replicas <= 16 else None}


def fit(strategy: Any, rows: Any) -> Callable[[int], None]:
    with strategy.scope():
        layers = [tf.keras.layers.Dense(WIDTHS[1], activation="relu"), tf.keras.layers.Dense(WIDTHS[2])]
        model = tf.keras.Sequential([tf.keras.Input((WIDTHS[0],)), *layers])
        model.compile(tf.keras.optimizers.SGD(0.05), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return lambda count: model.fit(rows, epochs=1, steps_per_epoch=count, verbose=0)


def best(run: Callable[[int], Any], steps: int) -> float:
    run(3)
    times: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        run(steps)
        times.append(time.perf_counter() - began)
    return min(times) / steps


def main(command: str, first: int, *rest: str) -> None:
    """Run a command and print its result."""
    if command == "parity":
        result: dict[str, Any] = parity(first, *rest)
    elif command == "uneven":
        result = uneven(first, [json.loads(targets) for targets in rest])
    else:
        result = speed(first, int(rest[0]))
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
