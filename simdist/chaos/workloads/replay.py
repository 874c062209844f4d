"""Training with parameter servers, computed again with numpy in float64 from the trace of the run.

The replay knows the data, the rule of the optimizer, and how many replies the workers gave. Who computed what, what had been read, and what
was applied when, it finds in the spans. So it does not depend on how the engine computed the numbers.

Invariant: where the trace leaves more than one possibility (messages were lost or late, or a server died after its last update), it says
so, by `Ambiguous`, and does not guess.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from simdist.chaos.workloads.base import EndedRun
from simdist.chaos.workloads.plain import gradient, rows_of, update
from simdist.chaos.workloads.regression import FEATURES, START
from simdist.trace import Instant, Span
from simdist.trace.records import task_of

__all__ = ["Ambiguous", "Replay"]

NEAR_S = 1e-12
RATIO = 1e-12  # of rounding to a moment


class Ambiguous(Exception):
    """The trace leaves more than one possibility."""


class Step(NamedTuple):
    """A step: which worker, and which of its computations."""

    worker: str
    number: int


class Replay:
    """The run again.

    Args:
        run: of closures of one step each.
        batch_size: of all batches.
        momentum: of the optimizer.
        by_closure: whether closure number i takes batch i; otherwise the i-th step of each worker does.
    """

    def __init__(self, run: EndedRun, batch_size: int, momentum: bool, by_closure: bool) -> None:
        self.run = run
        self.batch_size = batch_size
        self.momentum = momentum
        self.by_closure = by_closure
        self.spans = run.cluster.trace.spans
        self.retries = list(run.cluster.trace.instants.where(category="retry"))
        # Of servers that hold weights: another one may have lost what was counted.
        self.rollbacks = [mark for mark in run.cluster.trace.instants.where(category="rollback") if mark.lane in self.rows]
        if run.silences.begun or (self.retries and not by_closure):
            raise Ambiguous("what a worker computed when nobody heard of it counts or not; its next batch is not known")

    # -- in rounds ----------------------------------------------------------------------------------------------------

    def of_rounds(self) -> np.ndarray:
        """The weights after synchronous rounds, each of which applies the mean of its gradients."""
        weights, speed = START.astype(np.float64), np.zeros((FEATURES, 1))
        for steps in self._rounds():
            found = [gradient(weights, rows_of(self.batch_size, self._batch(step)), self.batch_size) for step in steps]
            weights, speed = update(weights, speed, np.mean(found, axis=0), self.momentum)
        return weights

    def _rounds(self) -> list[list[Step]]:
        """The steps of each round: those of closures that ended, by what was applied when they began to compute."""
        counting = {span.facts["closure"]: span for span in self._of("closure")}  # of several attempts the last one
        rounds: dict[int, list[Step]] = {}
        for span in counting.values():
            step = self._first_within(span)
            moment_s = self._computed(step).start_s
            rounds.setdefault(self._rounds_before(moment_s), []).append(step)
        if sorted(rounds) != list(range(len(rounds))):
            raise Ambiguous(f"rounds {sorted(rounds)} have updates")
        return [rounds[number] for number in sorted(rounds)]

    def _rounds_before(self, moment_s: float) -> int:
        """How many rounds of those that were not rolled back had been applied."""
        applied: dict[str, int] = dict.fromkeys(self.rows, 0)
        ends = [(span.end_s, span.lane, 1) for span in self.updates]
        ends += [(mark.time_s, mark.lane, -mark.facts["updates"]) for mark in self.rollbacks]
        for end_s, server, rounds in ends:
            applied[server] += rounds if end_s <= moment_s + _near(moment_s) else 0
        return max(applied.values())

    # -- each update when it comes --------------------------------------------------------------------------------------

    def of_updates(self) -> np.ndarray:
        """The weights after updates that count each when it comes."""
        self._held: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {
            server: {0: (START[rows].astype(np.float64), np.zeros((len(rows), 1)))} for server, rows in self.rows.items()
        }
        self._found: dict[Step, np.ndarray] = {}
        steps = {step: self._computed(step).start_s for step in map(self._step_of, self.updates)}
        acts: list[tuple[float, int, Callable[[], None]]] = []
        acts += [(mark.time_s, 0, lambda mark=mark: self._roll_back(mark)) for mark in self.rollbacks]
        acts += [(span.end_s, 0, lambda span=span: self._apply(span)) for span in self.updates]
        acts += [(start_s, 1, lambda step=step: self._compute(step)) for step, start_s in steps.items()]
        for _, _, act in sorted(acts, key=lambda one: one[:2]):
            act()
        return self._whole({server: self._last_version(server) for server in self.rows})

    def _compute(self, step: Step) -> None:
        weights = self._whole(self._versions(step))
        self._found[step] = gradient(weights, rows_of(self.batch_size, self._batch(step)), self.batch_size)

    def _apply(self, span: Span) -> None:
        held, version = self._held[span.lane], span.facts["version"]
        weights, speed = held[version - 1]
        held[version] = update(weights, speed, self._found[self._step_of(span)][self.rows[span.lane]], self.momentum)

    def _roll_back(self, mark: Instant) -> None:
        self._held[mark.lane][_anew(mark)] = self._held[mark.lane][mark.facts["version"]]

    def _whole(self, versions: dict[str, int]) -> np.ndarray:
        whole = np.zeros((FEATURES, 1))
        for server, rows in self.rows.items():
            whole[rows] = self._held[server][versions[server]][0]
        return whole

    def _versions(self, step: Step) -> dict[str, int]:
        """The version of each server that a step had read; where its update did not come to one, by the time of the read."""
        found = {span.lane: span.facts["read_version"] for span in self.updates if self._step_of(span) == step}
        moment_s = self._computed(step).start_s
        for server in self.rows.keys() - found.keys():
            reads = [span for span in self._of("read", step.worker) if span.end_s <= moment_s + _near(moment_s)]
            applied = [(0.0, 0), *((span.end_s, span.facts["version"]) for span in self.updates if span.lane == server)]
            applied += [(mark.time_s, _anew(mark)) for mark in self.rollbacks if mark.lane == server]
            before, after = (max(version for end_s, version in applied if end_s <= at_s) for at_s in (reads[-1].start_s, reads[-1].end_s))
            if before != after or self.run.processes.of(server):
                raise Ambiguous(f"{step} has read version {before} to {after} of {server}")
            found[server] = before
        return found

    def _last_version(self, server: str) -> int:
        last = max((span for span in self.updates if span.lane == server), key=lambda span: span.end_s, default=None)
        moment_s = 0.0 if last is None else last.start_s
        if any(down.from_s >= moment_s for down in self.run.processes.of(server)):
            raise Ambiguous(f"{server} died after its last update")
        return 0 if last is None else last.facts["version"]

    # -- what the trace says --------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[str, list[int]]:
        """Which rows of the weights are on which server."""
        found: dict[str, list[int]] = {}
        for mark in self.run.cluster.trace.instants.where(category="place", name="weights"):
            found.setdefault(mark.lane, []).extend(range(*mark.facts["rows"]))
        return found

    @cached_property
    def updates(self) -> list[Span]:
        """The updates of the weights, in the order in which they were applied."""
        return sorted((span for span in self.spans.where(category="apply") if "read_version" in span.facts), key=lambda span: span.end_s)

    @cached_property
    def _by_lane(self) -> dict[tuple[str, str], list[Span]]:
        found: dict[tuple[str, str], list[Span]] = {}
        for span in self.spans:
            found.setdefault((span.category, task_of(span.lane)), []).append(span)
        return {key: sorted(spans, key=lambda span: span.end_s) for key, spans in found.items()}

    def _of(self, category: str, worker: str | None = None) -> list[Span]:
        """The spans of a category, by their ends."""
        if worker is not None:
            return self._by_lane.get((category, worker), [])
        return sorted(self.spans.where(category=category), key=lambda span: span.end_s)

    def _computed(self, step: Step) -> Span:
        return self._of("compute", step.worker)[step.number]

    def _step_of(self, span: Span) -> Step:
        """The step whose gradient an update is: the last one that its worker had computed."""
        worker = str(span.facts["worker"])
        return Step(worker, sum(one.end_s <= span.start_s + _near(span.start_s) for one in self._of("compute", worker)) - 1)

    def _first_within(self, closure: Span) -> Step:
        """The step of a closure."""
        worker, near_s = task_of(closure.lane), _near(closure.end_s)
        for number, span in enumerate(self._of("compute", worker)):
            if closure.start_s - near_s <= span.start_s and span.end_s <= closure.end_s + near_s:
                return Step(worker, number)
        raise Ambiguous(f"{closure} has computed nothing")

    def _batch(self, step: Step) -> int:
        """The number of the batch of a step; a worker that has died begins its data anew."""
        if self.by_closure:
            return self._closure(step)
        moment_s = self._computed(step).start_s
        begun_s = max((down.until_s for down in self.run.processes.of(step.worker) if down.until_s <= moment_s), default=0.0)
        return sum(span.start_s >= begun_s for span in self._of("compute", step.worker)[: step.number])

    def _closure(self, step: Step) -> int:
        """The closure of a step: the attempt that ended first after it; one that was taken from its worker ended with its retry."""
        end_s = self._computed(step).end_s
        ends = [(span.end_s, span.facts["closure"]) for span in self._of("closure", step.worker)]
        ends += [(mark.time_s, mark.facts["closure"]) for mark in self.retries if mark.lane == step.worker]
        after = [end for end in ends if end[0] >= end_s - _near(end_s)]
        if not after:
            raise Ambiguous(f"{step} belongs to no closure")
        return min(after)[1]


def _anew(rollback: Instant) -> int:
    """The version with which a server goes on that has gone back."""
    return rollback.facts["version"] + rollback.facts["updates"] + 1


def _near(moment_s: float) -> float:
    return max(NEAR_S, RATIO * moment_s)
