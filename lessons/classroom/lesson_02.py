"""The exercises of lesson 02, replicas and all-reduce, with the runs that they measure, and what its predictions explain.

The training step is that of the notebook, so that an answer is measured as the student measures it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, cast

import simdist as sd
from classroom.answers import a_function, a_number, a_whole_number
from classroom.calls import Watched
from classroom.exercise import Exercise, NotAnswered
from simdist import keras

__all__ = ["WHY_BEST", "WHY_EQUAL", "WHY_STRAGGLER", "WHY_WRONG_MEAN", "first_exercise", "second_exercise", "third_exercise"]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_EQUAL = r"""
All of them, and not by luck. The loss of a batch is a mean over its $b$ examples, and the gradient of a sum is the sum of the
gradients. Put the examples of each replica in brackets of their own:

$$\nabla \frac{1}{b} \sum_{i=1}^{b} \ell_i \;=\; \frac{1}{b} \Bigl( \sum_{i \in \text{replica } 0} \nabla \ell_i \Bigr) +
\frac{1}{b} \Bigl( \sum_{i \in \text{replica } 1} \nabla \ell_i \Bigr) + \dots$$

For its bracket a replica needs only what it has: its own images, and its copy of the variables. What remains is to add one gradient
from each of $n$ replicas, and to give the sum to all of them. All copies of the variables are equal before the step, and all change by
the same sum, so they are equal after it. No server keeps the model, and no replica sends a variable.

Only the order of the additions has changed. Floating-point numbers are rounded after each addition, so the last bits may differ.
"""

WHY_BEST = """
Eight devices are less than four times as fast as one, not eight times as fast. Sixteen are slower than eight: what they save in
compute, they lose in the all-reduce. That the part which does not shrink limits the gain is *Amdahl's law*. Here a second part even
grows.
"""

WHY_STRAGGLER = """
Three healthy machines **wait** at the all-reduce until the fourth one has its gradient. The whole job runs at the speed of the slowest
replica. The factor stays below three, because the straggler does not change how long the all-reduce itself takes.
"""

WHY_WRONG_MEAN = """
Each replica divided by *its own* number of examples, 16, and not by 64. Then the optimizer **added** four such gradients. The sum is
four times too large, as if the code had multiplied the learning rate by the number of devices.
"""


# -- the runs -----------------------------------------------------------------------------------------------------------

IMAGES_PER_BATCH = 2048
HIDDEN_UNITS = 1024
STEPS = 2


def step_us(strategy: Any, batch_size: int = IMAGES_PER_BATCH) -> float:
    """How long a step of the lesson's larger model takes, in virtual microseconds: by the work alone, so on images without content."""
    with strategy.scope():
        hidden = keras.layers.Dense(HIDDEN_UNITS, activation="relu")
        model = keras.Sequential([keras.Input((64,)), hidden, keras.layers.Dense(10)])
        optimizer = sd.Optimizer(keras.optimizers.SGD(0.5))
    losses_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @sd.function
    def train_step(inputs: Any) -> Any:
        def replica_fn(inputs: Any) -> Any:
            x, y = inputs

            def compute_loss() -> Any:
                per_example = losses_of(y, model(x, training=True))
                return sd.compute_average_loss(per_example), per_example

            (_, per_example), gradients = sd.value_and_grad(compute_loss, model.trainable_variables, has_aux=True)()
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return per_example

        return strategy.reduce(sd.ReduceOp.MEAN, strategy.run(replica_fn, args=(inputs,)), axis=0)

    rows = keras.ops.zeros((batch_size, 64)), keras.ops.zeros((batch_size,), "int32")
    batches = iter(strategy.distribute_dataset(sd.Dataset.from_tensor_slices(rows).repeat().batch(batch_size)))
    for _ in range(STEPS):
        float(train_step(next(batches)))
    return strategy.cluster.now / STEPS * 1e6


@cache
def step_of_devices_us(devices: int, batch_size: int) -> float:
    """A step on devices of one machine, in virtual microseconds."""
    return step_us(sd.MirroredStrategy(devices=devices), batch_size)


@cache
def step_of_workers_us(slow_factor: float) -> float:
    """A step on four machines of which one is slow, in virtual microseconds."""
    with sd.Cluster({"worker": 4}) as cluster:
        if slow_factor != 1:
            cluster.faults.slow("worker:2", factor=slow_factor, at=0.0)
        return step_us(sd.MultiWorkerMirroredStrategy(cluster))


def gradient(average: Callable[[Any], Any], values: list[float], devices: int) -> float:
    """The gradient of the mean of w x by w, with the mean that `average` computes, on so many replicas."""
    strategy = sd.MirroredStrategy(devices=devices)
    with strategy.scope():
        w = sd.Variable(0.0, name="w")

    def mean_of(losses: Any) -> Any:
        mean = average(losses)
        if mean is ...:
            raise NotAnswered
        return mean

    @sd.function
    def step(x: Any) -> Any:
        def replica_fn(x: Any) -> Any:
            _, gradients = sd.value_and_grad(lambda: mean_of(w * x), [w])()
            return gradients[0]

        return strategy.reduce(sd.ReduceOp.SUM, strategy.run(replica_fn, args=(x,)), axis=None)

    batch = sd.Dataset.from_tensor_slices(values).batch(len(values))
    return float(step(next(iter(strategy.distribute_dataset(batch)))))


# -- the checks ---------------------------------------------------------------------------------------------------------

FEWEST_IMAGES, MOST_IMAGES = 16, 16_384
BATCHES = ([0.0, 0.0, 0.0, 0.0, 1.0], [3.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0])  # neither divides by 2 or 3, and they differ in length


def first_gain(batch_size: int) -> str | None:
    """The smallest power of two at which 16 devices are faster than 8."""

    def gain_us(size: int) -> float:
        return step_of_devices_us(8, size) - step_of_devices_us(16, size)

    if batch_size & (batch_size - 1):
        return f"{batch_size:,} is not a power of two: give 16, 32, 64, ... or 16,384."
    gained_us = gain_us(batch_size)
    if gained_us <= 0:
        return f"with {batch_size:,} images a batch, a step on 16 devices still takes {-gained_us:.0f} microseconds more than on 8."
    if gain_us(batch_size // 2) > 0:
        return f"with {batch_size:,} images a batch 16 devices are faster, but also with {batch_size // 2:,}."
    return None


def gives_the_gradient(average: Callable[..., Any]) -> str | None:
    """Whether a mean is exact on 1, 2 and 3 replicas, for batches of two lengths."""
    for values in BATCHES:
        expected = sum(values) / len(values)
        for devices in (1, 2, 3):
            found = gradient(average, values, devices)
            if not abs(found - expected) <= 1e-6:
                replicas = f"{devices} replica{'s' * (devices > 1)}"
                return f"for a batch of {len(values)} examples on {replicas} the gradient is {found:.3f}, not {expected:.3f}."
    return None


def twice_as_long(factor: float) -> str | None:
    """A factor with which a step takes twice as long."""
    ratio = step_of_workers_us(factor) / step_of_workers_us(1)
    return None if 1.94 <= ratio <= 2.06 else f"with the factor {factor:g} a step takes {ratio:.2f} times as long, not 2."


def does_it_itself(average: Callable[..., Any]) -> str | None:
    """The gradient, and that the function does not leave the work to `compute_average_loss`."""
    watched = Watched(average, cast("FunctionType", sd.compute_average_loss))
    problem = gives_the_gradient(watched)
    return "compute_average_loss is not allowed here: write a function that does the same." if watched.has_called else problem


first_exercise = Exercise(
    "Give the smallest power of two, from 16 to 16,384, at which 16 devices are faster than 8.",
    a_whole_number(FEWEST_IMAGES, MOST_IMAGES, first_gain),
    hints=(
        "From 8 to 16 devices the all-reduce gets longer by a fixed time. How many images must each device save to make up for it?",
        "At 2,048 images the all-reduce takes 196 microseconds more on 16 devices than on 8, and the compute 109 less. The first does "
        "not depend on the batch; the second grows with it.",
    ),
    why="At 4,096 images each of 16 devices saves 256 images, and that is longer than the all-reduce grows. At 2,048 it is not.",
)

second_exercise = Exercise(
    "Give a function that takes the losses of one replica's examples and returns its part of the mean.",
    a_function("of the losses of one replica's examples, for example lambda losses: ...", does_it_itself),
    hints=(
        "The sum of the replica's losses is to be divided by the number of examples of all replicas together.",
        "sd.get_replica_context().all_reduce(sd.ReduceOp.SUM, count) adds the counts of all replicas. A replica has "
        "losses.shape[0] examples.",
    ),
    why="It divides by the number of examples that the batch of this step really has.",
)

third_exercise = Exercise(
    "Give how many times slower worker:2 must be.",
    a_number("times", twice_as_long, least=1, most=100),
    hints=(
        "Only what worker:2 does by itself gets longer: what it computes and what it applies.",
        "Without a straggler a step takes 1,185 microseconds, and a worker computes and applies for 516 of them. By how much must "
        "the 516 grow?",
    ),
    why="Its 516 microseconds of work become 1,701, which makes the step of 1,185 microseconds twice as long.",
)
