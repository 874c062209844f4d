"""The exercises of lesson 07, the coordinator, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any, cast

import simdist as sd
from classroom.exercise import Check, Exercise
from classroom.tally import outcome, two_buildings
from classroom.values import described, listed

__all__ = [
    "OUTAGES",
    "PLAN",
    "WHY_OLD",
    "WHY_QUEUE",
    "WHY_ROWS",
    "WHY_TORN",
    "first_exercise",
    "second_exercise",
    "third_exercise",
    "uneven_cluster",
]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_QUEUE = """
Three closures run, two wait, so the first five calls return at once. The sixth waits until a closure ends: 1 second, and two messages of
20 ms. All three workers end then, and take what waits; so three calls get through. The ninth has to wait for the next end: 2.08 seconds.
"""

WHY_ROWS = """
Rows 1 and 4 are read twice: `worker:1` has begun its shard anew, from its first row. Row 7, at which it died, went with it: the closure was
run again by **another** worker, with a row of *that* worker's shard. The new `worker:1` comes to row 7 as its third. Nothing is lost here
for good, but some rows weigh more than others, and the rows at the end of the shard are not reached.
"""

WHY_TORN = """
It counts twice on the left and once on the right. The update of `ps:0` was applied at 1.04 s and that of `ps:1` was still on its way
when the worker died; the message of a dead incarnation is refused. Then the closure runs again, whole. So the two pages disagree: a
closure is not a *transaction*.
"""

WHY_OLD = """
Six: those of two rounds of three workers, which were applied after the last snapshot, at 10 s. They stay on the left page, because `ps:0`
did not die. No closure is run again for them: the chief got a reply from each. For the coordinator they are done.
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

OUTAGES = [
    ("crash", "worker:0", {"at": 1.50, "restart_after": 1.0}),
    ("crash", "worker:1", {"at": 1.51, "restart_after": 1.0}),
    ("crash", "worker:2", {"at": 1.95, "restart_after": 1.0}),
]
PLAN = [
    ("crash", "worker:1", {"at": 1.05, "restart_after": 1.0}),
    ("crash", "ps:0", {"at": 5.0}),
    ("crash", "ps:1", {"at": 9.0}),
]
NAMES = ("mode", "staleness", "backup_workers", "recovery", "exactly_once")
MODES: tuple[dict[str, Any], ...] = ({"mode": "async"}, {"mode": "sync"}, {"mode": "bounded", "staleness": 2})
RECOVERIES = ("raise", "checkpoint", "replica")
ROUNDING_S = 1e-9


def uneven_cluster() -> sd.Cluster:
    """The cluster of the first two exercises: its workers differ in speed."""
    cluster = two_buildings()
    cluster.faults.slow("worker:1", factor=1.4, at=0.0)
    cluster.faults.slow("worker:2", factor=1.9, at=0.0)
    return cluster


@cache
def least_seconds() -> float:
    """When the quickest run under the plan ends that loses nothing, of those with usual options."""
    runs = [
        outcome(PLAN, **mode, recovery=recovery, exactly_once=once) for mode, recovery, once in product(MODES, RECOVERIES, (False, True))
    ]
    return min(run[2] for run in runs if len(run) == 3 and run[:2] == (0, 0))


# -- the checks ---------------------------------------------------------------------------------------------------------


def closures_in(expected: list[int], reasons: dict[int, str]) -> Check:
    """A check for a list, a set or an array of closures; `reasons` say of each what a student may have overlooked."""

    def check(answer: Any) -> str | None:
        items = listed(list(answer) if isinstance(answer, (set, frozenset, range)) else answer)
        if items is None or not all(type(item) is int or (isinstance(item, float) and item.is_integer()) for item in items):
            return f"{described(answer)} is no list of the numbers of closures: give for example [0, 2]."
        given = {int(cast("float", item)) for item in items}
        if any(not 0 <= number < 12 for number in given):
            return "there are the closures 0 to 11."
        wrong = sorted(given.symmetric_difference(expected))
        if not wrong:
            return None
        number = wrong[0]
        is_missing = number in expected
        return f"closure {number} is {'missing' if is_missing else 'in your list, and should not be'}. {reasons.get(number, '')}".strip()

    return check


def lossless_and_cheap(answer: Any) -> str | None:
    """Options with which nothing is lost, nothing counts twice, and the run ends first."""
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        return f"{described(answer)} is no dict of arguments: give for example {{'recovery': 'checkpoint'}}."
    options = cast("dict[str, Any]", answer)
    other = [name for name in options if name not in NAMES]
    if other:
        return f"{described(other[0])} is none of the arguments that you may choose: {', '.join(NAMES)}."
    try:
        make_strategy(options)
    except (sd.errors.SimdistError, TypeError) as error:
        return f"the strategy refused it: {error}"
    run = outcome(PLAN, **options)
    if len(run) == 2:
        return f"the run ends with an {run[0]} at {run[1]:.2f} s."
    lost, twice, end_s = run
    if lost or twice:
        return f"{lost} closures are lost, and {twice} count twice."
    if end_s > least_seconds() + ROUNDING_S:
        return f"nothing is lost, but the run ends at {end_s:.2f} s, and there is one that ends at {least_seconds():.2f} s."
    return None


def make_strategy(options: dict[str, Any]) -> object:
    """A strategy with these arguments; raises if they make no sense."""
    return sd.ParameterServerStrategy(two_buildings(), **options)


first_exercise = Exercise(
    "Give the list of the closures that are run twice.",
    closures_in(
        [1, 2, 3],
        {
            0: "The chief had its reply at 1.12 s, before anything died.",
            1: "Its worker had sent the reply at 1.50 s. When would the chief have had it?",
            2: "Its worker died at 1.95 s. Had the chief a reply by then?",
            3: "It began at 1.14 s on worker:0. What happened at 1.50 s?",
            4: "It was scheduled, but no worker had it when the first two died.",
        },
    ),
    hints=(
        "Which closure has each worker when it dies? Only what the chief knows counts for the queue.",
        "A reply that is on its way when its worker dies is lost, so closure 1 is run again. And worker:0 had another one than closure 0.",
    ),
    why="Each of the three workers had a closure of which the chief had no reply; worker:0 had its second one.",
)

second_exercise = Exercise(
    "Give the list of the closures that count twice on at least one page.",
    closures_in(
        [1, 2],
        {
            0: "It is not even run twice.",
            1: "Both of its updates were applied before its worker died, and then it was run again.",
            2: "Its update had reached ps:0 when its worker died, and then it was run again.",
            3: "When its worker died, it was still computing: no server had anything of it.",
        },
    ),
    hints=(
        "Which of the closures that are run twice had left a mark on a page before the worker died?",
        "Compare the moment of death with the columns 'on ps:0' and 'on ps:1'.",
    ),
    why="Closure 1 had marked both pages, closure 2 the left one only. Closure 3 was computing when its worker died: nothing had left it.",
)

third_exercise = Exercise(
    "Give a dict of the arguments mode, staleness, backup_workers, recovery and exactly_once, as far as they are needed.",
    lossless_and_cheap,
    hints=(
        "Two servers die, but not at the same time. Which recovery loses nothing then? And what does the worker do that dies at 1.05 s?",
        "recovery='replica' against the servers. Against the worker: rounds, or exactly_once=True. Which of them waits less?",
    ),
    why="The copies bring both servers back without a loss, and the servers know the updates of the closure that is run again. Rounds "
    "would do the same, and wait for the slowest.",
)
