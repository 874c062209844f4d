"""The exercises of lesson 03a, ring or tree, and what its predictions explain."""

from __future__ import annotations

from classroom.answers import a_number
from classroom.exercise import Exercise
from classroom.schedules import contributions, schedule_of, schedule_problem
from classroom.values import wrapped
from simdist.collectives import ALL_REDUCE, Transfer

__all__ = ["WHY_FASTEST", "WHY_RACKS", "WHY_RING", "first_exercise", "print_contents", "second_exercise", "third_exercise"]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_RING = r"""
Eight times as many ranks take only a little longer. Count. There are $2(n-1)$ steps, and in each one a rank sends $S/n$ bytes: together
$2\,\frac{n-1}{n}\,S$, less than twice its gradient, *whatever n is*. What grows with n is the latency: $2(n-1)$ messages follow each
other, and each has its own $\alpha$.

$$t_\text{ring} = 2(n-1)\,\alpha + 2\,\frac{n-1}{n}\,\frac{S}{B}$$

Fewer bytes are impossible. Take a single number of the gradient: at least n - 1 messages must bring its n values together, and n - 1
more must carry the sum to the ranks that do not have it. That makes $2(n-1)\,S$ bytes for all numbers, and one n-th of it for each rank
if all share the work. An algorithm that reaches this bound is called *bandwidth-optimal*. At 800 ranks the 1,598 latencies show.
"""

WHY_FASTEST = r"""
For short messages only latencies count, and recursive doubling has the fewest: three. For long messages only bytes count: with the ring
and with Rabenseifner a port is busy for $1.75\,S/B$, with recursive doubling for $3\,S/B$. On its way through the binomial tree all of
$S$ is sent six times, one after the other. With eight ranks Rabenseifner is never slower than the ring: as few bytes, fewer latencies.
"""

WHY_RACKS = """
In each of the ring's steps only one transfer leaves a rack, and the uplink has room for exactly one: the ring does not notice the racks.
In the first step of Rabenseifner all four ranks of a rack send half of their data to the other rack, and share its uplink.
"""


def print_contents(transfers: list[Transfer], num_ranks: int) -> None:
    """Print whose data each rank has in the end, and how often if more than once.

    Example:
        >>> print_contents([Transfer(0, 0, 1, (0,), True)], num_ranks=2)
        rank 0 has the data of rank 0
        rank 1 has the data of ranks 0, 1
    """
    schedule = schedule_of(transfers, num_ranks)
    if isinstance(schedule, str):
        print(wrapped(schedule))
        return
    for rank, row in enumerate(contributions(schedule)[:, 0]):
        names = [f"{other} ({times} times)" if times > 1 else f"{other}" for other, times in enumerate(row) if times]
        print(f"rank {rank} has the data of rank{'s' * (len(names) > 1)} {', '.join(names)}")


# -- the checks ---------------------------------------------------------------------------------------------------------

LATENCY_S, BANDWIDTH = 10e-6, 10e9
SENT = 175e6
REMARKS = {
    100e6: "that is one gradient: everything once. But the sum must also come back.",
    200e6: "that is two gradients. A rank sends a little less, because it need not send what it keeps.",
    87.5e6: "that is the first half (reduce-scatter) alone.",
    12.5e6: "that is one chunk, what a rank sends in one step.",
    1.4e9: "that is what all eight ranks send together. Give what one sends.",
    175.0: "that is the number of megabytes. Give bytes.",
    43.75e6: "that is a number of float32. Give bytes.",
}


def bytes_of_a_ring(answer: float) -> str | None:
    """Within half a per cent of 175 MB."""
    if abs(answer - SENT) <= 0.005 * SENT:
        return None
    shown = f"{answer:,.10g} bytes" if abs(answer) < 1e15 else f"{answer:.3g} bytes"
    known = [remark for value, remark in REMARKS.items() if abs(answer - value) <= 0.002 * value]
    return f"{shown}: {known[0] if known else 'that is too many.' if answer > SENT else 'that is too few.'}"


def equally_long(size_bytes: float) -> str | None:
    """A size at which ring and Rabenseifner of six ranks differ by at most a microsecond."""
    ring_us, halving_us = (ALL_REDUCE[name].seconds(6, size_bytes, LATENCY_S, BANDWIDTH) * 1e6 for name in ("ring", "rabenseifner"))
    if abs(ring_us - halving_us) <= 1:
        return None
    return f"for {size_bytes:,.0f} bytes the ring takes {ring_us:,.1f} microseconds, and Rabenseifner {halving_us:,.1f}."


first_exercise = Exercise(
    "Give the number of bytes that one rank sends.",
    a_number("bytes", bytes_of_a_ring, least=0),
    hints=(
        "How many steps are there, and how long is the chunk that a rank sends in a step?",
        "2(n - 1) steps, with a chunk of S/n bytes each.",
    ),
    why="Each rank sends 14 chunks of 12.5 MB.",
)

second_exercise = Exercise(
    "Give a number of bytes at which ring and Rabenseifner of six ranks differ by at most 1 microsecond.",
    a_number("bytes", equally_long, least=0, most=1e15),
    hints=(
        "Set both times equal and solve for S. alpha B is 100,000 bytes.",
        "10 alpha + 10/6 S/B = 6 alpha + 3.5 S/B. Bring the latencies to one side and S/B to the other.",
    ),
    why="The four latencies that Rabenseifner saves are as long as the bytes that it sends more.",
)

third_exercise = Exercise(
    "Give a list of transfers that add the data of 4 ranks in 2 steps.",
    lambda answer: schedule_problem(answer, num_ranks=4, most_steps=2),
    hints=(
        "In each step every rank swaps with one partner, and both add: that is two transfers for each pair. First 0 with 1, and 2 with 3.",
        "After the first step each rank has the sum of its pair. Now 0 swaps with 2, and 1 with 3.",
    ),
    why="After step k each rank has the sum of 2, then of 4 ranks. Fewer than 2 steps are impossible with one partner at a time.",
)
