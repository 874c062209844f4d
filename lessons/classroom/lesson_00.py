"""The exercises of lesson 00, a cluster in one cell."""

from __future__ import annotations

import simdist as sd
from classroom.answers import a_whole_number
from classroom.digits import dataset_fn, make_model
from classroom.exercise import Exercise

__all__ = [
    "WHY_CLOSURES",
    "WHY_CRITICAL_PATH",
    "WHY_HOT_SPOT",
    "WHY_STALENESS",
    "first_exercise",
    "second_exercise",
    "third_exercise",
]

# -- predictions: what a cell shows with the truth; here, because the source of a cell can be read before it runs ------------

WHY_CLOSURES = """
An epoch of 60 steps is 60 / 5 = 12 closures, and there are four epochs. The chief puts the closures of an epoch into a queue and
gives one to each worker that is free. It does not care which worker does which closure.
"""

WHY_CRITICAL_PATH = """
A run is as long as its **critical path**: the chain of causes that ends with the last thing that happened. Each step waits for its
read, the update waits for the gradient, the next read waits until the update is acknowledged. Computing is a small part of this
chain; most of it is reading and updating. This model is so small that the network is the bottleneck, and what is not on the
critical path is not worth making faster.
"""

WHY_STALENESS = """
A worker reads again when the servers have acknowledged its update, and the acknowledgement takes a network latency (50
microseconds). In that time the servers apply the updates of the other two as well, so all three workers read the same version. The
first to send its gradient finds what it read (staleness 0), the second finds one update more, the third finds two. When n workers
take turns like this, no update is more than n - 1 updates old. Updates of a worker that is slower than the others can be older.

A gradient that is two updates old points in almost the right direction, because two updates do not move the variables far. With a
hundred workers it could be ninety-nine updates old, and the learning rate would have to be smaller. That trade, more updates a
second against better updates, is the theme of asynchronous training.
"""

WHY_HOT_SPOT = """
The workers, the model and the data are the same; only the ports differ (and with them the order of the updates). With one server,
twelve workers read and write through one port: a server that all workers ask is a **hot spot**. Four servers are not four times as
fast, because each message still takes a latency, and because the variables are not split into four equal parts.
"""

# -- exercises -------------------------------------------------------------------------------------------------------------

PARAMETERS = 64 * 64 + 64 + 64 * 10 + 10  # of the model: two kernels and two biases
STEPS_PER_EPOCH = 60
MOST_CLOSURES = 4
REMARKS = {
    PARAMETERS: "that is how many numbers there are; each of them takes four bytes.",
    4 * (64 * 64 + 64 * 10): "these are the kernels alone; the biases have gradients, too.",
    8 * PARAMETERS: "that counts eight bytes a number (or both directions); a float32 takes four, and the gradients go one way.",
    32 * PARAMETERS: "these are bits; a byte has eight.",
    16 * PARAMETERS: "these are eight-byte numbers in both directions; a float32 takes four, and the gradients go one way.",
    3 * 4 * PARAMETERS: "these are the gradients of all three workers; give those of one.",
}


def bytes_of_gradients(answer: int) -> str | None:
    """A worker sends one float32 for each parameter."""
    if answer == 4 * PARAMETERS:
        return None
    return f"{answer:,} bytes: " + REMARKS.get(answer, f"that is too {'many' if answer > 4 * PARAMETERS else 'few'}.")


def smallest_with_few_closures(steps: int) -> str | None:
    """The smallest number of steps with which an epoch has at most four closures."""
    closures = -(-STEPS_PER_EPOCH // steps)
    if closures > MOST_CLOSURES:
        return (
            f"with {steps} step{'s' * (steps > 1)} to a closure, an epoch has {closures} closures; at most {MOST_CLOSURES} are asked for."
        )
    if -(-STEPS_PER_EPOCH // (steps - 1)) <= MOST_CLOSURES:
        number = f"{closures} closure{'s' * (closures > 1)}"
        return f"with {steps} steps to a closure, an epoch has {number}: few enough. But {steps} is not the smallest such number."
    return None


first_exercise = Exercise(
    "Give the number of bytes that one worker sends to the servers in one step.",
    a_whole_number(0, 10**9, bytes_of_gradients),
    hints=(
        "A gradient has as many numbers as the parameters of the model. How many are these?",
        "model.count_params() counts them. Each is a float32.",
    ),
    why="4,810 parameters, a gradient of four bytes for each.",
)

second_exercise = Exercise(
    "Give the smallest number of steps to a closure with which an epoch of 60 steps is at most 4 closures.",
    a_whole_number(1, STEPS_PER_EPOCH, smallest_with_few_closures),
    hints=(
        "How many closures of 20 steps hold 60 steps? And how many of 16?",
        "The last closure may be shorter than the others: divide 60 by the steps of one closure, and round up.",
    ),
    why="60 / 15 = 4. With more steps to a closure the chief is asked even less often, but a worker that dies loses more work.",
)

MOST_MS = 12.0
MOST_SERVERS = 12


def epoch_ms(servers: int) -> float:
    """Virtual milliseconds of an epoch with twelve workers on 1 gigabit Ethernet."""
    with sd.Cluster(
        {"worker": 12, "ps": servers},
        seed=0,
        network=sd.hardware.ethernet_1g,
        numerics="off",
    ) as cluster:
        strategy = sd.ParameterServerStrategy(cluster, sd.MinSizePartitioner(min_shard_bytes=2 << 10, max_shards=servers))
        make_model(strategy).fit(sd.DatasetCreator(dataset_fn), epochs=1, steps_per_epoch=120, verbose=0)
        return cluster.now * 1000


def fewest_servers(servers: int) -> str | None:
    """The smallest number of servers with which an epoch is short enough."""
    took_ms = epoch_ms(servers)
    if took_ms >= MOST_MS:
        return f"with {servers} server{'s' * (servers > 1)} an epoch takes {took_ms:.1f} ms."
    if servers > 1 and (fewer_ms := epoch_ms(servers - 1)) < MOST_MS:
        return f"with {servers} servers an epoch takes {took_ms:.1f} ms, but with {servers - 1} it takes {fewer_ms:.1f} ms: enough, too."
    return None


third_exercise = Exercise(
    "Give the smallest number of servers with which an epoch takes less than 12 virtual milliseconds.",
    a_whole_number(1, MOST_SERVERS, fewest_servers),
    hints=(
        "Measure: virtual_ms(2) says how long an epoch takes with two servers.",
        "Try 1, 2, 3 and so on, until virtual_ms is below 12 for the first time.",
    ),
    why="Two servers halve the time of one; the third brings it below 12 ms. More servers help less and less.",
)
