"""How far the training of a run has come: not how many steps were taken, but how many are in what was learnt.

A process begins with none. Each step takes it on by one, and a checkpoint that it reads back takes it to where the training was when
that file was written. The run has come on by one whenever any process has come further than all before: so steps that are taken
again, by survivors or by a process that starts again, are no progress until they reach what is new. All of this is in the log.

A program that keeps its state by other means than checkpoints of the cluster begins with none after a restart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from simdist.trace import Trace
from simdist.trace.records import Span

__all__ = ["steps_of_training_s"]

CHIEF = "chief:0"
EVALUATOR = "evaluator:"
RESTART, READ, WRITE, WRITTEN = range(4)


def steps_of_training_s(trace: Trace) -> list[float]:
    """When the training had one step more than ever before, in virtual seconds.

    Args:
        trace: of the run so far.

    Example:
        >>> trace = Trace(seed=0)
        >>> trace.step_ended("worker:0", 1.0)
        >>> _ = trace.instant("worker:0", "restart", "restart of worker:0", 2.0)
        >>> for end_s in (3.0, 4.0):
        ...     trace.step_ended("worker:0", end_s)
        >>> steps_of_training_s(trace)
        [1.0, 4.0]
    """
    training = {task: np.array(ends_s) for task, ends_s in trace.steps.items() if not task.startswith(EVALUATOR)}
    stretches = _Stretches(training)
    saved: dict[str, int] = {}
    unfinished: dict[int, int] = {}
    for moment_s, number, kind, lane, name in sorted(_events(trace)):
        if kind == RESTART:
            stretches.begin(lane, moment_s, 0)
        elif kind == WRITE:
            unfinished[number] = stretches.reached(lane, moment_s)
        elif kind == WRITTEN:
            saved[name] = unfinished.pop(number)
        elif name in saved:
            stretches.begin(lane, moment_s, saved[name])
    return stretches.furthest_s()


class _Stretches:
    """The steps of each task, cut where it goes on from another step of the training.

    Args:
        ends_s: when the steps of each task ended.
    """

    def __init__(self, ends_s: dict[str, np.ndarray]) -> None:
        self.ends_s = ends_s
        self.begun = {task: [(0, 0)] for task in ends_s}  # the number of the first step, and how many the training has before it

    def begin(self, task: str, moment_s: float, step: int) -> None:
        """Let a task go on from a step of the training; the chief's program takes along all the tasks that it drives."""
        for one in self._meant(task):
            self.begun[one].append((self._taken(one, moment_s), step))

    def reached(self, task: str, moment_s: float) -> int:
        """How many steps of the training a task has behind it."""
        return max(
            (self._taken(one, moment_s) - first + step for one in self._meant(task) for first, step in self.begun[one][-1:]), default=0
        )

    def _meant(self, task: str) -> list[str]:
        if task in self.ends_s:
            return [task]
        return list(self.ends_s) if task == CHIEF else []

    def _taken(self, task: str, moment_s: float) -> int:
        return bisect_right(self.ends_s[task], moment_s)

    def furthest_s(self) -> list[float]:
        """When each step of the training was there for the first time."""
        first_s = np.full(
            max((step + len(self.ends_s[task]) for task, begun in self.begun.items() for _, step in begun), default=0), np.inf
        )
        for task, begun in self.begun.items():
            lasts = [first for first, _ in begun[1:]] + [len(self.ends_s[task])]
            for (first, step), last in zip(begun, lasts, strict=True):
                part = slice(step, step + last - first)
                first_s[part] = np.minimum(first_s[part], self.ends_s[task][first:last])
        return first_s[np.isfinite(first_s)].tolist()


def _events(trace: Trace) -> Iterator[tuple[float, int, int, str, str]]:
    """What changes from where a task goes on: the second, the number of its record, its kind, the lane, and the name of the file."""
    for number, instant in zip(trace.instants.numbers(), trace.instants, strict=True):
        if instant.category == "restart":
            yield instant.time_s, number, RESTART, instant.lane, ""
    rows = trace.spans.rows_where(category="checkpoint")
    for row, number in zip(rows.tolist(), trace.span_numbers()[rows].tolist(), strict=True):
        span = trace.spans[row]
        what, _, name = span.name.partition(" ")
        if what == "read":
            yield span.end_s, number, READ, span.lane, name
        elif what == "write":
            yield _asked_s(trace, span, name), number, WRITE, span.lane, name
            yield span.end_s, number, WRITTEN, span.lane, name


def _asked_s(trace: Trace, write: Span, name: str) -> float:
    """When the program has asked for a write: before the parts of the file were gathered."""
    before = trace.record(write.cause) if write.cause >= 0 else None
    return before.start_s if isinstance(before, Span) and before.name == f"gather {name}" else write.start_s
