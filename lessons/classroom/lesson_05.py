"""The exercises of lesson 05, asynchrony and staleness, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from typing import Any, cast

import simdist as sd
from classroom.answers import a_number, a_whole_number
from classroom.exercise import Exercise
from classroom.rounds import by_the_rule, count_steps, make_cluster, train
from classroom.values import described
from simdist.hardware import LogNormal, NoJitter

__all__ = [
    "WHY_BOUND",
    "WHY_DIVERGED",
    "WHY_MEAN",
    "WHY_ROUND",
    "first_exercise",
    "loss_with",
    "second_exercise",
    "surprising_run",
    "third_exercise",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_MEAN = """
It is $n - 1$, for **any** distribution of step times. Count the other way round: not what a gradient misses, but who misses an update. At
the moment when an update is applied, each of the $n - 1$ other workers is in the middle of a step: it has read before, and will update
later. So each update is missed by exactly $n - 1$ gradients. With as many gradients as updates, the mean is $n - 1$. No probability was
needed, so no jitter, however wild, can change it.
"""

WHY_DIVERGED = r"""
It has exploded. Each of 16 workers computes its gradient from weights that lack 15 updates. They all correct the same mistake, 16 times:
the weights overshoot, far, and the next 16 gradients do the same in the other direction. For a loss $\frac{1}{2}\lambda w^2$ and a
fixed staleness $\tau$, a run is stable only as long as $\eta \lambda < 2 \sin\frac{\pi}{2 (2 \tau + 1)}$. That is 2 for $\tau = 0$ and 0.10
for $\tau = 15$: twenty times smaller. (That the loss comes back after hundreds of updates is due to this model: its gradients are
bounded. On a quadratic it would grow for ever.)
"""

WHY_ROUND = """
A round takes 1 second only if *none* of eight is slow: $0.9^8$ = 0.43. Otherwise it takes 5. On average that is
$0.43 + 5 (1 - 0.43)$ = 3.28 seconds, more than twice the mean step. (This run is a little shorter than its average.) A straggler that is
rare for one worker is common for eight, and for a hundred there is one in every round.
"""

WHY_BOUND = """
With one round of staleness the cluster gets through 37 iterations in place of 26, and gradients that are one round old do no harm yet.
With larger bounds it gets through 49 and 53, but what is gained in number is lost in worth: with this rate, gradients that are several
rounds old make the run swing. *More updates per second* and *a lower loss per second* are two things. (With some seeds s = 4 is the best:
it is at the edge. 16 never is.)
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

SLOW_FACTOR = 4
WANTED_PER_S = 0.6
UNTIL_S = 45
WANTED_LOSS = 0.3
RATE = 4
NAMES = ("mode", "staleness", "backup_workers")


def surprising_run() -> sd.Cluster:
    """Four asynchronous workers of which one is slow from the beginning."""
    cluster = make_cluster(4, NoJitter(), "off")
    cluster.faults.slow("worker:2", factor=SLOW_FACTOR, at=0.0)
    count_steps(cluster, 65)
    return cluster


def run_with(options: dict[str, Any]) -> tuple[int, float]:
    """How many updates the cluster of the third exercise applies in its time, and the lowest loss of that time."""
    cluster = make_cluster(16, LogNormal(0.2))
    cluster.faults.slow("worker:0", factor=5.0, at=0.0)
    curve = train(cluster, RATE, UNTIL_S, **options)
    return curve[-1][1], min(loss for _, _, loss in curve)


def loss_with(options: dict[str, Any]) -> float:
    """The lowest loss of the cluster of the third exercise, with these arguments of `ParameterServerStrategy`."""
    return run_with(options)[1]


# -- the checks ---------------------------------------------------------------------------------------------------------


def as_slow(factor: float) -> str | None:
    """How many times slower the slow worker is."""
    if abs(factor - SLOW_FACTOR) <= 0.05:
        return None
    if factor in (3, 12):
        what = {3: "3 is the mean staleness", 12: "12 updates are what its gradient misses, from all three others together"}
        return f"{what[int(factor)]}; how long is a step?"
    return f"a worker that takes {factor:g} times as long would miss about {3 * factor:g} updates of the three others."


def smallest(bound: int) -> str | None:
    """The smallest bound that is fast enough."""
    rate = by_the_rule(bound)
    if rate < WANTED_PER_S:
        return f"with s = {bound} there are {rate:.3f} iterations per second."
    if bound and by_the_rule(bound - 1) >= WANTED_PER_S:
        return f"s = {bound} is fast enough, but so is {bound - 1}."
    return None


def soon_enough(answer: Any) -> str | None:
    """Options with which the loss is reached in time."""
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        return f"{described(answer)} is no dict of arguments: give for example {{'mode': 'bounded', 'staleness': 2}}."
    options = cast("dict[str, Any]", answer)
    other = [name for name in options if name not in NAMES]
    if other:
        return f"{described(other[0])} is none of the arguments that you may choose: {', '.join(NAMES)}."
    try:
        updates, loss = run_with(options)
    except (sd.errors.SimdistError, TypeError) as error:
        return f"the strategy refused it: {error}"
    return None if loss <= WANTED_LOSS else f"after {UNTIL_S} s and {updates} updates, the lowest loss was {loss:.2f}."


first_exercise = Exercise(
    "Give how many times as long as the others the slow worker takes for a step.",
    a_number("times", as_slow, least=1, most=1000),
    hints=(
        "Whose updates are the stale ones? While that worker takes one step, what do the three others do?",
        "Its gradient misses 12 updates, from three workers. How many steps did each of them take meanwhile?",
    ),
    why="In one of its steps each of the three others takes four, so it misses 12 updates; the others miss two or three.",
)

second_exercise = Exercise(
    "Give the smallest bound s with at least 0.6 iterations per second.",
    a_whole_number(0, 1000, smallest),
    hints=("Where in the table does the rate pass 0.6?", "It is above 4 and below 8. Try by_the_rule(6)."),
    why="With one round less the workers are just too slow.",
)

third_exercise = Exercise(
    "Give a dict of the arguments mode, staleness and backup_workers.",
    soon_enough,
    hints=(
        "Is the straggler a rare one, or the same one in every round? Which mode helps against that, with gradients that are fresh?",
        "Synchronous rounds that do not wait for worker:0: 'backup_workers' of mode 'sync'.",
    ),
    why="The rounds are fast, because they do not wait for the old processor, and their gradients are fresh, so that the rate may be high.",
)
