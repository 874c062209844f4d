"""The exercises of lesson 01, kill a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import simdist as sd
from classroom.answers import a_function, a_whole_number
from classroom.digits import train
from classroom.exercise import Exercise, NotAnswered
from classroom.values import described, plain

__all__ = [
    "WHY_AT_LEAST_ONCE",
    "WHY_CHECKPOINT",
    "WHY_FRONT",
    "WHY_SILENCE",
    "debug_report",
    "first_exercise",
    "second_exercise",
    "third_exercise",
]

# -- predictions: what a cell shows with the truth; here, because the source of a cell can be read before it runs ----------

WHY_AT_LEAST_ONCE = """
The killed worker had done three steps of its closure, and the servers had applied their updates. Updates stay. Another worker runs
the closure again, from its **first** step, so three updates more were applied than asked for. That is what *at least once* means:
no work is lost, some is done twice. For stochastic gradient descent a few more steps do no harm. For a closure that counts
something, they do.
"""

WHY_SILENCE = """
When a process dies, the operating system of its machine still lives and closes the connections: the chief is notified one network
latency later. When the *machine* loses power, or the cable is cut, nothing travels. Then only missing **heartbeats** tell: each task
sends one a second, and after more than five seconds without one it is believed to be down. The lost closure had to wait for that, and
the other workers soon had nothing left to do.

Five seconds are a compromise. A shorter time-out finds real deaths sooner, and takes more slow workers for dead ones. The chief
cannot see the state of a worker; it sees messages, or their absence.
"""

WHY_FRONT = """
Closure 0 was lost and is dispatched **before** closure 1, which had been waiting. The caller that scheduled closure 0 has waited
longest for it, and with a long queue the end may be minutes away: measured on TensorFlow 2.21 with 1,200 closures in the queue, a
lost closure that was put at the end ran 27 seconds later.
"""

WHY_CHECKPOINT = """
An epoch takes about 6 milliseconds, so at 10 milliseconds one epoch is complete and the second is under way. What was done of the
second is lost with the server: the copy is from the end of the first.
"""

# -- code that the lesson shows the results of ----------------------------------------------------------------------------


def debug_report(program: Callable[[], Any]) -> str:
    """Run a program that fails under `sd.debug`, and return what that reports, without the names of files."""
    from contextlib import redirect_stderr
    from io import StringIO

    try:
        with sd.debug(), redirect_stderr(StringIO()):
            program()
    except Exception as error:
        notes = [note for note in getattr(error, "__notes__", []) if note.startswith("simdist: ")]
        lines = "\n".join(notes).splitlines()
        where = [f"your line: {line.rpartition(': ')[2]}" for line in lines[1:]]
        return "\n".join([*lines[:1], *where, f"{type(error).__name__}: {error}"])
    return "it did not fail"


# -- exercises ------------------------------------------------------------------------------------------------------------

STEPS_OF_CLOSURE = 5
WORKERS = 3
ASKED_FOR = 60
WANTED = 64


def four_too_many(step: int) -> str | None:
    """A crash of worker:2 after which 64 updates are applied in an epoch of 60 steps."""
    with sd.Cluster({"worker": 3, "ps": 2}, seed=0) as trial:
        trial.faults.crash("worker:2", after_steps=step)
        applied = int(train(trial, epochs=1).optimizer.iterations.numpy())
    return None if applied == WANTED else f"killed after {step} step{'s' * (step > 1)}, {applied} updates are applied, not {WANTED}."


first_exercise = Exercise(
    "Give the number of steps after which worker:2 must die, so that 64 updates are applied.",
    a_whole_number(1, 20, four_too_many),
    hints=(
        "64 - 60 steps are done twice. Which steps of a closure are these?",
        "Closures have five steps. worker:2 must die when it has done four steps of one, and not yet the fifth.",
    ),
    why="The worker had done four steps of a closure, and the closure was run again from its first step.",
)


def most_steps_twice(steps: int) -> str | None:
    """All steps of a closure, if the worker dies between the last update and the reply."""
    if steps == STEPS_OF_CLOSURE:
        return None
    if steps > STEPS_OF_CLOSURE:
        return f"{steps} steps are more than a closure has; a crash cannot make a worker lose two closures, because it has one at a time."
    return f"{steps} steps can be done twice, but it can be worse."


second_exercise = Exercise(
    "Give the largest number of steps that can be done twice after one crash, when a closure has five steps.",
    a_whole_number(0, 1000, most_steps_twice),
    hints=(
        "When is the worst moment to die?",
        "The chief knows that a closure has ended when its reply arrives. The update of the last step arrives earlier.",
    ),
    why="All five updates are applied, the worker dies before its reply arrives, and the whole closure is run again.",
)

Update = tuple[int, int]  # number of the closure, number of the step in it


def updates_of_a_run() -> Iterator[tuple[Update, bool]]:
    """The updates that reach a server in a run with two crashes, and whether each must be applied.

    Three workers run closures at the same time, so their updates come in turn; what a crash has lost comes again among those of others.
    """
    died_after = {3: 2, 7: 5}  # steps of these closures that were done before their workers died
    runs = deque(steps_of(closure, died_after.get(closure, STEPS_OF_CLOSURE)) for closure in range(12))
    workers = [deque[Update]() for _ in range(WORKERS)]
    applied: set[Update] = set()
    while runs or any(workers):
        for worker in workers:
            if not worker and runs:
                worker.extend(runs.popleft())
            if not worker:
                continue
            update = worker.popleft()
            yield update, update not in applied
            applied.add(update)
            if not worker and died_after.pop(update[0], None):
                # The first death is seen at once, and the closure comes next; the second one is seen when all others have run.
                (runs.append if died_after == {} else runs.appendleft)(steps_of(update[0], STEPS_OF_CLOSURE))


def steps_of(closure: int, count: int) -> list[Update]:
    """The first updates of a closure."""
    return [(closure, step) for step in range(count)]


def exactly_once(accepts: Callable[..., Any]) -> str | None:
    """A function that accepts each update the first time, and only then."""
    seen: set[Any] = set()
    for (closure, step), is_new in updates_of_a_run():
        returned = accepts(seen, closure, step)
        if returned is ...:
            raise NotAnswered
        accepted = plain(returned)
        if accepted not in (True, False):
            return f"for step {step} of closure {closure} it returned {described(returned)}; it must return True or False."
        if accepted and not is_new:
            return f"it accepted step {step} of closure {closure} although that update had been applied before the worker died."
        if not accepted and is_new:
            return f"it refused step {step} of closure {closure}, which had not been applied yet."
    return (
        None
        if plain(accepts(set(), 0, 0))
        else "with an empty `seen` it must accept everything: keep what was applied in `seen`, not elsewhere."
    )


third_exercise = Exercise(
    "Write accepts(seen, closure, step): True for an update that was not applied yet, False for one that was. `seen` is a set, empty at "
    "first and the same in every call; put into it what you must remember.",
    a_function("of seen, closure and step that returns True or False", exactly_once),
    hints=(
        "What names an update? The same step number occurs in every closure, and a closure has five steps.",
        "Put the pair (closure, step) into `seen` when you accept it, and refuse a pair that is in it.",
    ),
    why="Each update is applied exactly once. The price is a number on every update, and a memory on every server.",
)
