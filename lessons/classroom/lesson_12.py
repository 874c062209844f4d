"""The exercises of lesson 12, break it yourself, with the runs that they measure, and what its predictions explain."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import simdist as sd
from classroom.answers import a_number
from classroom.digits import train
from classroom.exercise import Exercise
from classroom.values import described, plain

__all__ = ["WHY_DEATH", "WHY_DOUBLED", "WHY_ELASTIC", "WHY_LATE_REPLY", "first_exercise", "second_exercise", "third_exercise"]

# -- what the predictions explain ---------------------------------------------------------------------------------------

WHY_DEATH = """
Without the crash the run ends at 36.1 ms. At 9.9 ms the work of 26.2 ms is left for three workers. Two need 3/2 times as long:
9.9 + 1.5 · 26.2 = 49.2 ms. That the process died is known after 50 microseconds. What costs is not the detection, but that a worker is
missing from then on.
"""

WHY_LATE_REPLY = """
Two steps of closure 19 were done when `worker:1` stood still, and the update of the third was on its way: the servers applied it. After
six seconds without a heartbeat `worker:1` is given up, and closure 19 is run again, by another worker: five steps. So three of them were
done twice: 360 + 3. Then `worker:1` goes on, as if nothing had happened, and sends its next update. The servers refuse it: the chief has
told them that this closure was given away.

A dead worker would have done a little less harm (362). Who is given up is not always dead, so somebody has to tell the servers.
"""

WHY_DOUBLED = """
Still 360. Every message has a number, and a server that has seen it applies it no second time. So lesson 01's *exactly once* is what
servers do here with **messages**. It does not help against a closure that is run *again*: its updates are new messages. The run is 1.9 ms
longer, because what is sent twice takes the place of something else on the cable.
"""

WHY_ELASTIC = """
No: it ends 5 ms **earlier**. Nobody waits, the two survivors take over the rows of the third at once, and the loss is the same. And an
all-reduce of two has fewer latencies than one of three. That outweighs the longer computation, because this model is so small (lesson 04
has measured it). For a model that computes longer than it communicates it would be the other way round.
"""

# -- the runs -----------------------------------------------------------------------------------------------------------

KILLED_AT_S = 0.0099
LONGEST_S = 0.001
LEAST_COST_S = 20.0
NEAR = 0.15
ENOUGH_MS = 0.55  # a cost is shown with one digit, so half a millisecond looks like up to this
OF_THE_NETWORK = ("partition", "drop", "delay", "duplicate", "slow_link")
ROUNDING_S = 1e-9
EXAMPLE_S = {"at": "0.0120", "until": "0.0130"}


def training(cluster: sd.Cluster) -> Any:
    """The program of the lesson, without its curves: they take no virtual time."""
    return train(cluster, epochs=6)


def seconds_with(fault: dict[str, Any] | None) -> float | None:
    """When the run ends with a fault; None if it fails.

    Raises:
        SimdistError, TypeError: the fault makes no sense.
    """
    session = sd.Session(training, sd.Cluster({"worker": 3, "ps": 2}, seed=0))
    if fault is not None:
        session.inject(fault)
    try:
        session.advance()
    except sd.errors.SimdistError as error:
        if error is not session.error:
            raise
        return None
    return session.now


@cache
def seconds_without() -> float:
    """When the run ends without any fault."""
    end_s = seconds_with(None)
    assert end_s is not None
    return end_s


def cost_ms(fault: dict[str, Any]) -> float:
    """What a fault costs after which the run does not fail."""
    end_s = seconds_with(fault)
    assert end_s is not None
    return (end_s - seconds_without()) * 1000


@cache
def cost_of_death_ms(at_s: float = KILLED_AT_S) -> float:
    """What it costs to kill worker:1 for good."""
    return cost_ms({"kind": "crash", "task": "worker:1", "at": at_s})


# -- the checks ---------------------------------------------------------------------------------------------------------


def half_as_expensive(at_ms: float) -> str | None:
    """A moment of death that costs about half of what it costs at 9.9 ms: closures are whole, so it cannot be exactly half."""
    cost, wanted = cost_of_death_ms(at_ms / 1000), cost_of_death_ms() / 2
    if abs(cost - wanted) <= NEAR * wanted:
        return None
    return f"killed at {at_ms:g} ms, it costs {cost:.1f} ms; half of {2 * wanted:.1f} ms is {wanted:.1f}."


first_exercise = Exercise(
    "Give the virtual time in milliseconds at which worker:1 must be killed for good.",
    a_number("milliseconds", half_as_expensive, least=0, most=36),
    hints=(
        "Killed at t, the work of 36.1 - t milliseconds is done by two instead of three. How much longer does that take?",
        "It costs (36.1 - t) / 2. At 9.9 ms that is 13.1 ms. For which t is it 6.6 ms?",
    ),
    why="What a death costs is half of the time that would have been left: two do the work of three.",
)


def limits_broken(fault: dict[str, Any]) -> str | None:
    """What a fault of the second exercise has that it must not have."""
    if fault.get("kind") not in OF_THE_NETWORK:
        return f"its 'kind' is {described(fault.get('kind'))}: give one that breaks the network only, {', '.join(OF_THE_NETWORK)}."
    for name in EXAMPLE_S:
        value = fault.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            given = f"says {described(value)} as {name!r}" if name in fault else f"has no {name!r}"
            return f"it {given}: give the virtual second, for example {name!r}: {EXAMPLE_S[name]}."
    if not KILLED_AT_S <= fault["at"] < seconds_without():
        return f"it begins at {fault['at']!r:.20} s: give a second from 0.0099 to {seconds_without():.4f}, while the training runs."
    if not fault["at"] <= fault["until"] <= fault["at"] + LONGEST_S + ROUNDING_S:
        return "it must have ended one millisecond after it began: 'until' is at most 'at' + 0.001."
    return None


def short_and_expensive(answer: Any) -> str | None:
    """A fault of a millisecond that costs more than twenty seconds."""
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        return f"{described(answer)} is no fault: give a dict such as {{'kind': 'delay', 'source': 'ps:0', ...}}."
    given = cast("dict[str, Any]", answer)
    fault = {name: value if (found := plain(value)) is None else found for name, value in given.items()}
    problem = limits_broken(fault)
    if problem is not None:
        return problem
    try:
        end_s = seconds_with(fault)
    except (sd.errors.SimdistError, TypeError) as error:
        return f"the fault was refused: {error}"
    if end_s is None:
        return "the run fails; it must come to its end, late."
    cost_s = end_s - seconds_without()
    return None if cost_s > LEAST_COST_S else f"it costs {cost_s:.3f} s; more than 20 s are wanted."


second_exercise = Exercise(
    "Give one fault as a dict with 'kind', 'at', 'until' and what its kind needs.",
    short_and_expensive,
    hints=(
        "What waits for half a minute, and what for? Look at the cell with the lost messages.",
        "A worker waits 30 s for a reply that is lost. Lose everything between worker:1 and a server for a millisecond, by drop or by "
        "partition.",
    ),
    why="The fault is over after a millisecond, but the worker goes on waiting: for a reply that was lost, until its call times out, or "
    "for one that is late. How long a fault lasts says little about what it costs.",
)


def as_bad_as_death(pause_ms: float) -> str | None:
    """A pause that costs as much as a death at its begin."""
    death = cost_of_death_ms()
    until_s = KILLED_AT_S + pause_ms / 1000
    pause = cost_ms({"kind": "pause", "task": "worker:1", "at": KILLED_AT_S, "until": until_s}) if until_s > KILLED_AT_S else 0.0
    if abs(pause - death) <= ENOUGH_MS:
        return None
    return f"a pause of {pause_ms:g} ms costs {pause:.1f} ms, and the death {death:.1f} ms."


third_exercise = Exercise(
    "Give the length of the pause in milliseconds.",
    a_number("milliseconds", as_bad_as_death, least=0, most=5000),
    hints=(
        "Try pauses of 5 and of 10 ms in the Lab, and ask what each has cost.",
        "A pause costs 1.5 ms less than it lasts: for that long the others have work that does not need worker:1.",
    ),
    why="Who waits longer for a silent worker than that would have done better to give it up at once. A good time-out depends on how much "
    "work is left; five seconds suit a training of hours.",
)
