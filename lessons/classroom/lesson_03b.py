"""The exercises of lesson 03b, collectives in practice, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import simdist as sd
from classroom.answers import a_number
from classroom.exercise import Exercise
from classroom.schedules import schedule_problem
from classroom.values import described, listed
from simdist.collectives import TopK

__all__ = [
    "WHY_FEWER_BYTES",
    "WHY_LOST",
    "WHY_PACKS",
    "WHY_SAME_BITS",
    "WHY_SLOW_CABLE",
    "first_exercise",
    "fourth_exercise",
    "second_exercise",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_SAME_BITS = """
The results are neither wrong nor random. Every one is within 1e-6 of the exact sum (relative to the largest one). All ranks get the
same bits; otherwise their models would drift apart. And the same algorithm gives the same bits in every run. But only about half of
the elements have the bits of a plain loop on rank 0, because the loop adds in another order.

So the same program with another number of workers, or with a library that *chooses* another algorithm, gives other last bits, and
after some thousand steps perhaps a visibly different model. If you need the same bits, fix the algorithm and the number of ranks.
(Recursive doubling and the binomial tree have equal lines, because they add in the same order.)
"""

WHY_LOST = """
A message that is lost in the first half (steps 0 to 2) is missing in the **sum** of its chunk, so all four ranks get a wrong chunk. In
the second half the sums are complete. A loss then hits only those ranks that come later on the way round: three, two, and in the last
step one.
"""

WHY_SLOW_CABLE = """
A ring is as slow as its slowest link. In each step one rank waits for `worker:2`, and in the next step another rank waits for that
one. (It is not quite ten times as long, because the latencies stay as they are.)

What counts is how much must cross the slow link: each gradient that `worker:2` sends takes 10 ms instead of 1. In *hierarchical copy*
`worker:2` is a plain member of its group, which sends its gradient once. On a good network that algorithm is a poor choice; with this
cable it is the best of the five. No algorithm can take less than 10 ms, because this one gradient must get out.
"""

WHY_PACKS = """
The best size is in the middle: small enough that the first pack leaves early, large enough that few latencies are paid. The first pack
leaves in the middle of the compute, and when the compute ends almost half of the communication is over. PyTorch's default is 25 MB:
large compared with the product of latency and bandwidth, small compared with a large model.
"""

WHY_FEWER_BYTES = """
In a ring all-reduce each worker sends nearly two gradients, however many workers there are: what it passes on has been added up. In an
all-gather each worker sends n - 1 messages as they are: its own, and all others but one. So a message that is 50 times smaller saves a
factor of 2 / (0.02 n) = 100 / n: 12.5 with 8 workers, and 1.6 with 64. `OneBit` saves nothing there. Compressors whose messages can be
added save the same with any number of workers.
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

NUMBERS = np.array([1e8, 1, -1e8, 1], np.float32)
EXACT_SUM = 2
TOP_WORKERS, SQUARE = 16, (1000, 1000)
SIZE_BYTES = 10e6


@cache
def all_reduce_ms(name: str, cable_factor: float) -> float:
    """The lesson's all-reduce of 10 MB among 8 workers, with a slow link out of worker:2, in virtual milliseconds."""
    network = sd.hardware.Network(bandwidth=10e9, latency=10e-6).with_link("worker:2/out", bandwidth=10e9 / cable_factor)
    cluster = sd.Cluster({"worker": 8}, seed=0, network=network)
    strategy = sd.MultiWorkerMirroredStrategy(cluster, sd.CommunicationOptions(algorithm=name))
    gradient = np.ones(int(SIZE_BYTES) // 4, np.float32)
    strategy.run(lambda: sd.get_replica_context().all_reduce(sd.ReduceOp.SUM, gradient))
    return cluster.now * 1000


# -- the checks ---------------------------------------------------------------------------------------------------------


def adds_exactly(order: Any) -> str | None:
    """Whether float32 additions in this order of ranks give the exact sum."""
    ranks = listed(order)
    if ranks is None:
        return f"{described(order)} is not a list of ranks: give one such as [0, 1, 2, 3]."
    if any(isinstance(rank, (bool, str, list)) for rank in ranks) or sorted(ranks) != [0, 1, 2, 3]:  # type: ignore[type-var]
        return f"{described(order)} is no order of four ranks: give each of 0, 1, 2 and 3 once."
    total = np.float32(0)
    for rank in ranks:
        total = np.float32(total + NUMBERS[int(rank)])  # type: ignore[arg-type]
    return None if total == EXACT_SUM else f"in the order {', '.join(f'{rank:g}' for rank in ranks)} the sum is {total:g}."


def as_slow_as_hierarchical_copy(factor: float) -> str | None:
    """A factor with which ring and hierarchical copy take equally long, up to 2 per cent."""
    ring_ms, copy_ms = all_reduce_ms("ring", factor), all_reduce_ms("hierarchical copy", factor)
    if abs(ring_ms - copy_ms) <= 0.02 * copy_ms:
        return None
    return f"with the factor {factor:g} the ring takes {ring_ms:.2f} ms, and hierarchical copy {copy_ms:.2f} ms."


def a_tenth_of_a_ring(fraction: float) -> str | None:
    """A fraction with which an all-gather of TopK has a tenth of the bytes of a ring without it, up to 2 per cent."""
    if not 0 < fraction <= 1:
        return f"{fraction:g} is no fraction: give a number above 0, and at most 1."
    ring_bytes = 2 * (TOP_WORKERS - 1) / TOP_WORKERS * np.prod(SQUARE) * 4
    sent_bytes = (TOP_WORKERS - 1) * TopK(fraction).bytes_on_wire(SQUARE)
    if abs(sent_bytes / ring_bytes - 0.1) <= 0.002:
        return None
    return f"with the fraction {fraction:g} a worker sends {sent_bytes / 1e6:.3g} MB, and {ring_bytes / 1e6:.3g} MB without a compressor."


first_exercise = Exercise(
    "Give an order of the four ranks in which float32 additions give exactly 2.",
    adds_exactly,
    hints=(
        "1e8 + 1 is rounded to 1e8. When can a 1 be added without being lost?",
        "The two large numbers must cancel before any of the small ones is added.",
    ),
    why="The large numbers cancel first, exactly, and then nothing is rounded.",
)

second_exercise = Exercise(
    "Give a list of transfers that add the data of 6 ranks in at most 4 steps.",
    lambda answer: schedule_problem(answer, num_ranks=6, most_steps=4),
    hints=(
        "Two transfers in step 0, four in step 1, four in step 2, two in step 3. Which of them add, and which replace?",
        "Step 0: 4 to 0 and 5 to 1, adding. Steps 1 and 2: ranks 0 to 3 swap with the rank whose number differs in bit 0, then in bit 1. "
        "Step 3: 0 to 4 and 1 to 5, replacing.",
    ),
    why="Two steps are the price for a number of ranks that is no power of two.",
)

third_exercise = Exercise(
    "Give a factor f with which ring and hierarchical copy differ by at most 2 per cent.",
    a_number("times", as_slow_as_hierarchical_copy, least=1, most=1000),
    hints=(
        "How much of a gradient does worker:2 send in the ring, and how much in hierarchical copy? "
        "Each gradient takes f ms on the slow link.",
        "The ring takes 0.14 + 1.75 f milliseconds; hierarchical copy takes 6.05 + f.",
    ),
    why="Below it the ring is faster; above it the algorithm that sends the least over the slow link.",
)

fourth_exercise = Exercise(
    "Give a fraction with which 16 workers send a tenth of what they send without a compressor.",
    a_number("parts of the whole", a_tenth_of_a_ring),
    hints=(
        "How many messages does a worker send in an all-gather of 16, and how many gradients is one message? A position takes as many "
        "bytes as a number.",
        "15 messages of 2 f gradients each, and 2 * 15 / 16 gradients without a compressor: the ratio is 16 f.",
    ),
    why="With n workers the ratio is n f: a fraction that saves much with few workers saves nothing with many.",
)
