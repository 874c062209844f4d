"""Predictions and exercise checks for the lessons.

A prediction is typed in before the result is shown, and kept with the truth. A check says what is missing, and where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from simdist.collectives import Schedule, Transfer, check_schedule, run_schedule
from simdist.errors import InvalidArgumentError

__all__ = [
    "Exercise",
    "Prediction",
    "all_reduce_anomalies",
    "contributions",
    "first_power_of_two",
    "gives_gradient",
    "makes_ratio",
    "schedule_problem",
    "target",
]


class Prediction:
    """A guess, and what came out.

    Example:
        >>> guess = Prediction("retried closures", 2)
        >>> guess.compare(1)
        retried closures: you said 2, it is 1.
    """

    def __init__(self, what: str, guess: Any) -> None:
        self.what = what
        self.guess = guess

    def compare(self, truth: Any) -> None:
        """Print the guess beside the truth."""
        verdict = "as you said" if self.guess == truth else f"you said {self.guess}"
        print(f"{self.what}: {verdict}, it is {truth}.")


class Exercise:
    """A task with a target.

    Args:
        task: what to do, in one sentence.
        check: takes the answer; returns None if it is right, else what is wrong with it.
        hint: where to look.
    """

    def __init__(self, task: str, check: Callable[[Any], str | None], hint: str) -> None:
        self.task = task
        self.check_answer = check
        self.hint = hint

    def problem(self, answer: Any) -> str | None:
        """What is wrong with an answer; None if nothing is."""
        if answer is ...:
            return f"not answered yet. {self.task}"
        return self.check_answer(answer)

    def check(self, answer: Any) -> None:
        """Print whether an answer is right; if not, why, and a hint."""
        problem = self.problem(answer)
        print("right." if problem is None else f"not yet: {problem} Hint: {self.hint}")


def target(expected: float, unit: str, relative: float = 0.005) -> Callable[[Any], str | None]:
    """A check for a number: right if it is close to what is expected, else whether it is too large or too small.

    Example:
        >>> target(100, "bytes")(120)
        '120 bytes is too large.'
    """

    def check(answer: Any) -> str | None:
        if isinstance(answer, bool) or not isinstance(answer, (int, float, np.number)) or not np.isfinite(answer):
            return f"{answer!r} is not a number of {unit}."
        if abs(answer - expected) <= relative * abs(expected):
            return None
        return f"{answer:,g} {unit} is too {'large' if answer > expected else 'small'}."

    return check


def contributions(schedule: Schedule) -> np.ndarray:
    """How often each rank's data is in what every rank ends with.

    Args:
        schedule: of any collective.

    Returns:
        int [rank, chunk, contributor]; after an all-reduce all must be 1.

    Example:
        >>> from simdist.collectives import algorithm
        >>> contributions(algorithm("all_reduce", "ring").schedule(4)).shape
        (4, 4, 4)
    """
    # rank r brings a 1 in column r of every chunk, and 0 elsewhere: a sum then says whose data it is made of
    marks = [np.tile(row, (schedule.num_chunks, 1)) for row in np.eye(schedule.num_ranks, dtype=int)]
    return np.stack(run_schedule(schedule, marks))


def all_reduce_anomalies(schedule: Schedule) -> list[str]:
    """What is wrong with the result of an all-reduce: who misses whom, and who has whom too often.

    Example:
        >>> all_reduce_anomalies(Schedule("all_reduce", "nothing", 2, 1, ()))
        ['rank 0, chunk 0: misses rank 1', 'rank 1, chunk 0: misses rank 0']
    """
    found: list[str] = []
    for (rank, chunk, contributor), times in np.ndenumerate(contributions(schedule)):
        if times != 1:
            what = f"misses rank {contributor}" if times == 0 else f"has rank {contributor} {times} times"
            found.append(f"rank {rank}, chunk {chunk}: {what}")
    return found


def schedule_problem(transfers: Any, num_ranks: int, most_steps: int, num_chunks: int = 1) -> str | None:
    """What is wrong with the transfers of an all-reduce that must not take too many steps; None if nothing is."""
    if not isinstance(transfers, (list, tuple)):
        return f"{transfers!r} is not a list of transfers."
    strange = [transfer for transfer in transfers if not isinstance(transfer, Transfer)]
    if strange:
        return f"{strange[0]!r} is not a transfer; write Transfer(step, source, target, chunks, adds)."
    try:
        schedule = check_schedule(Schedule("all_reduce", "yours", num_ranks, num_chunks, tuple(transfers)))
    except InvalidArgumentError as error:
        return f"{error}"
    anomalies = all_reduce_anomalies(schedule)
    if anomalies:
        return f"{anomalies[0]}{f', and {len(anomalies) - 1} more' if len(anomalies) > 1 else ''}."
    if schedule.num_steps > most_steps:
        return f"the sums are right, but it takes {schedule.num_steps} steps; {most_steps} are enough."
    return None


# -- replicas: what an answer does is measured ---------------------------------------------------------------------------


def first_power_of_two(gain_us: Callable[[int], float], least: int = 16, most: int = 16_384) -> Callable[[Any], str | None]:
    """A check for the smallest power of two at which something is gained.

    Example:
        >>> check = first_power_of_two(lambda size: size - 100.0)
        >>> check(128), check(64), check(256)
        (None, 'with 64 it is still 36 microseconds slower.', '128 is enough, too.')
    """

    def check(answer: Any) -> str | None:
        if answer not in [least << power for power in range((most // least).bit_length())]:
            return f"{answer!r} is not a power of two from {least:,} to {most:,}."
        gained_us = gain_us(answer)
        if gained_us <= 0:
            return f"with {answer} it is still {-gained_us:.0f} microseconds slower."
        return f"{answer // 2} is enough, too." if gain_us(answer // 2) > 0 else None

    return check


def gives_gradient(gradient: Callable[[Any, int], float], expected: float) -> Callable[[Any], str | None]:
    """A check for a function that makes one loss of many: the gradient must be the same on 1, 2 and 3 devices.

    Args:
        gradient: takes the function and a number of devices.
        expected: the right gradient.

    Example:
        >>> gives_gradient(lambda average, devices: average([0.2]) / devices, 0.2)(sum)
        'on 2 devices the gradient is 0.100 instead of 0.200.'
    """

    def check(answer: Any) -> str | None:
        if not callable(answer):
            return f"{answer!r} cannot be called; write a function of the losses of one replica's examples."
        for devices in (1, 2, 3):
            found = gradient(answer, devices)
            if not abs(found - expected) <= 1e-6:
                return f"on {devices} device{'s' * (devices > 1)} the gradient is {found:.3f} instead of {expected:.3f}."
        return None

    return check


def makes_ratio(ratio: Callable[[float], float], expected: float, relative: float = 0.03) -> Callable[[Any], str | None]:
    """A check for a factor that makes something `expected` times as long.

    Example:
        >>> makes_ratio(lambda factor: 0.5 + factor / 2, 2.0)(2)
        'with 2, a step takes 1.50 times as long, not 2.'
    """

    def check(answer: Any) -> str | None:
        if isinstance(answer, bool) or not isinstance(answer, (int, float, np.number)) or not 1 <= answer <= 100:
            return f"{answer!r} is not a factor from 1 to 100."
        found = ratio(answer)
        return (
            None
            if abs(found - expected) <= relative * expected
            else f"with {answer}, a step takes {found:.2f} times as long, not {expected:g}."
        )

    return check


# -- lesson 04: who reads which rows ------------------------------------------------------------------------------------

__all__ += ["sharding_anomalies", "sharding_problem"]

Reads = Mapping[str, Sequence[Sequence[int]]]  # the rows of each batch, in order, by worker


def sharding_anomalies(reads: Reads, num_rows: int) -> list[str]:
    """What is wrong with who reads which rows in one pass: rows that are read more than once, and rows that nobody reads.

    Example:
        >>> sharding_anomalies({"worker:0": [[0, 1]], "worker:1": [[1]]}, num_rows=3)
        ['row 1 is read by worker:0 and worker:1', 'row 2 is read by nobody']
    """
    readers: dict[int, list[str]] = {row: [] for row in range(num_rows)}
    for worker, batches in sorted(reads.items()):
        for row in rows_of(batches):
            readers.setdefault(row, []).append(worker)
    wrong = [f"row {row} is read by {' and '.join(readers[row]) or 'nobody'}" for row in range(num_rows) if len(readers[row]) != 1]
    return wrong + [
        f"{readers[row][0]} reads row {row}, but there is no row {row}" for row in sorted(readers) if row not in range(num_rows)
    ]


def sharding_problem(reads: Reads, num_rows: int, rows_per_batch: int) -> str | None:
    """What is wrong where each worker is to read the rows of one block, in batches of so many; None if nothing is."""
    anomalies = sharding_anomalies(reads, num_rows)
    if anomalies:
        return f"{anomalies[0]}{f', and {len(anomalies) - 1} rows more are wrong' if len(anomalies) > 1 else ''}."
    for worker, batches in sorted(reads.items()):
        rows, sizes = rows_of(batches), [len(batch) for batch in batches]
        if not rows:
            return f"{worker} reads nothing."
        if rows != list(range(rows[0], rows[0] + len(rows))):
            return f"{worker} reads rows {rows}, which are not one block."
        if set(sizes) != {rows_per_batch}:
            return f"{worker} reads batches of {sizes} rows; {rows_per_batch} each are asked for."
    return None


def rows_of(batches: Sequence[Sequence[int]]) -> list[int]:
    """The rows of some batches, one after the other."""
    return [int(row) for batch in batches for row in batch]
