"""What parameter servers must hold after a run, from its trace alone: the order of updates, and which versions each was computed from.

A run is replayed with numpy in float64. It knows the data of each closure and the rule of the optimizer; all else (who computed what, what
had been read, what was applied, and when) it finds in the spans. So it does not depend on how the numbers of the run were computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

import simdist as sd
from simdist import keras
from simdist.trace import Instant, Span

__all__ = ["RATE", "Ambiguous", "Replay", "Rule", "Training", "batch"]

RATE = 0.02
SHAPES = (6, 3), (3,), (10, 3)  # weights, bias, embedding table
NEAR_S = 1e-12

Arrays = list[np.ndarray]
Place = tuple[str, int]  # a step: worker, and which of its computations


def batch(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and ids of one step; no two are equal."""
    draw = np.random.default_rng(1000 + number)
    return draw.normal(size=(4, 6)).astype("f"), draw.normal(size=(4, 3)).astype("f"), draw.integers(0, 10, 4).astype("i")


def gradients(values: Arrays, number: int) -> tuple[float, Arrays]:
    """Loss and gradients of a linear model with an embedding, in closed form."""
    weights, bias, table = values
    x, y, ids = batch(number)
    error = x @ weights + bias + table[ids] - y
    slope = 2 * error / error.size
    rows = np.zeros_like(table)
    np.add.at(rows, ids, slope)
    return float((error**2).mean()), [x.T @ slope, slope.sum(0), rows]


class Rule(NamedTuple):
    """SGD with momentum, or Adam; both as Keras documents them.

    Attributes:
        momentum: of SGD; None: Adam.
    """

    momentum: float | None

    def optimizer(self) -> Any:
        return keras.optimizers.Adam(RATE) if self.momentum is None else keras.optimizers.SGD(RATE, self.momentum)

    def apply(self, value: np.ndarray, slots: np.ndarray, gradient: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Value and slots [2, ...] after the step-th update."""
        if self.momentum is not None:
            speed = self.momentum * slots[0] - RATE * gradient
            return value + speed, np.stack([speed, slots[1]])
        first, second = 0.9 * slots[0] + 0.1 * gradient, 0.999 * slots[1] + 0.001 * gradient**2
        rate = RATE * math.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        return value - rate * first / (np.sqrt(second) + 1e-7), np.stack([first, second])


@dataclass
class Training:
    """Closures of one or several steps on parameter servers; the k-th step of closure i takes ``batch(1000 k + i)``.

    Attributes:
        losses: what the closures have returned, of their last steps.
        values: of the variables at the end.
    """

    cluster: sd.Cluster
    rule: Rule
    closures: int
    steps: int
    shards: int | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        partitioner = None if self.shards is None else sd.FixedShardsPartitioner(self.shards)
        strategy = sd.ParameterServerStrategy(self.cluster, variable_partitioner=partitioner, **self.options)
        draw = np.random.default_rng(0)
        self.initial = [draw.normal(0, 0.3, shape).astype("f") for shape in SHAPES]
        with strategy.scope():
            self.variables: list[Any] = [sd.Variable(value) for value in self.initial]
            optimizer = sd.Optimizer(self.rule.optimizer())
        weights, bias, table = self.variables

        @sd.function
        def take(*batches: Any) -> Any:
            loss = None
            for x, y, ids in batches:

                def mean(x: Any = x, y: Any = y, ids: Any = ids) -> Any:
                    return ((x @ weights.value + bias.value + sd.embedding_lookup(table, ids) - y) ** 2).mean()

                loss, found = sd.value_and_grad(mean, self.variables)()
                optimizer.apply_gradients(zip(found, self.variables, strict=True))
            return loss

        coordinator = sd.ClusterCoordinator(strategy)
        results = [coordinator.schedule(take, tuple(batch(1000 * k + i) for k in range(self.steps))) for i in range(self.closures)]
        coordinator.join()
        self.losses = [float(result.fetch()) for result in results]
        self.values = [np.asarray(variable.numpy()) for variable in self.variables]

    def parts(self) -> Iterator[tuple[int, int, int, str]]:
        """Of each variable its parts: the variable, first and last row, and the server."""
        for number, variable in enumerate(self.variables):
            begin = 0
            for shard in getattr(variable, "variables", [variable]):
                yield number, begin, begin + shard.shape[0], shard.device
                begin += shard.shape[0]


class Ambiguous(Exception):
    """The trace does not say which versions a step had read whose update did not come to all servers."""


class Replay:
    """The updates of a run, computed again.

    Args:
        training: the run.
        spans: of its trace; others than its own show what a wrong trace would do.

    Attributes:
        parts: of the variables on each server.
        held: values and slots of these parts at each version.
        counts: how many updates each version has.
        losses: of each closure, the losses of all its attempts that have changed something.
        counted: how often a step of each closure counts on each server.
    """

    def __init__(self, training: Training, spans: Sequence[Span] | None = None) -> None:
        self.training = training
        self.spans = list(training.cluster.trace.spans if spans is None else spans)
        self.parts: dict[str, list[tuple[int, int, int]]] = {}
        for number, begin, end, device in training.parts():
            self.parts.setdefault(device, []).append((number, begin, end))
        self.held = {server: {0: [self._first(*part) for part in parts]} for server, parts in self.parts.items()}
        self.counts = {server: {0: 0} for server in self.parts}
        self.losses: dict[int, list[float]] = {}
        self.counted: dict[tuple[str, int], int] = {}
        self._gradients: dict[Place, Arrays] = {}
        applied = [(span.end_s, partial(self._apply, span)) for span in self.updates]
        returned = [(rollback.time_s, partial(self._roll_back, rollback)) for rollback in self.rollbacks]
        for _, act in sorted([*self._computations(), *returned, *applied], key=itemgetter(0)):
            act()

    def _first(self, number: int, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        value = self.training.initial[number][begin:end].astype(float)
        return value, np.zeros((2, *value.shape))

    def values(self) -> Arrays:
        """What the variables must be at the end."""
        return self._variables({server: max(held) for server, held in self.held.items()})

    # -- what the trace says ------------------------------------------------------------------------------------------

    @cached_property
    def updates(self) -> list[Span]:
        """All updates in the order in which they were applied."""
        return sorted((span for span in self.spans if span.category == "apply"), key=lambda span: span.end_s)

    @cached_property
    def rollbacks(self) -> list[Instant]:
        """Where servers went back: one that died may have applied updates of which its copy knew nothing."""
        return self.training.cluster.trace.instants.where(category="rollback")

    @cached_property
    def undone(self) -> set[tuple[str, int]]:
        """The server and the version of each update that was rolled back."""
        return {(rollback.lane, version) for rollback in self.rollbacks for version in range(_back_to(rollback) + 1, _anew(rollback))}

    def _computations(self) -> list[tuple[float, Callable[[], None]]]:
        """The steps of which updates came to a server, and when they began to compute: then they had read."""
        places = dict.fromkeys(map(self._place, self.updates))
        return [(self._computed(place).start_s, partial(self._compute, place)) for place in places]

    def _computed(self, place: Place) -> Span:
        return self._of("compute", place[0])[place[1]]

    def _of(self, category: str, lane: str) -> list[Span]:
        return sorted((span for span in self.spans if (span.category, span.lane) == (category, lane)), key=lambda span: span.end_s)

    def _place(self, update: Span) -> Place:
        """The step whose gradient an update is: the last one that its worker had computed."""
        worker = update.facts["worker"]
        return worker, sum(span.end_s <= update.start_s + NEAR_S for span in self._of("compute", worker)) - 1

    def _batch(self, place: Place) -> tuple[int, int]:
        """The closure of a step, and which of its steps it is."""
        worker, number = place
        computed = self._of("compute", worker)
        moment_s = computed[number].start_s
        tries = [(span.start_s, span.end_s, span.facts["closure"]) for span in self._of("closure", worker)]
        retries = self.training.cluster.trace.instants.where(category="retry")
        ends_s = [0.0, *(end_s for _, end_s, _ in tries)]
        for retry in (retry for retry in retries if retry.lane == worker):  # a closure that was taken away has no span
            tries.append((max(end_s for end_s in ends_s if end_s <= retry.time_s + NEAR_S), retry.time_s, retry.facts["closure"]))
            ends_s.append(retry.time_s)
        (begin_s, _, closure) = min((one for one in tries if one[0] - NEAR_S <= moment_s <= one[1] + NEAR_S), key=lambda one: one[1])
        return closure, sum(begin_s - NEAR_S <= span.start_s < moment_s for span in computed)

    def _versions(self, place: Place) -> dict[str, int]:
        """The version of each server that a step had read."""
        found = {update.lane: update.facts["read_version"] for update in self.updates if self._place(update) == place}
        moment_s = self._computed(place).start_s
        read = [span for span in self._of("read", place[0]) if span.end_s <= moment_s + NEAR_S][-1]
        for server in self.parts.keys() - found:
            applied = [(0.0, 0), *((update.end_s, update.facts["version"]) for update in self.updates if update.lane == server)]
            applied += [(rollback.time_s, _anew(rollback)) for rollback in self.rollbacks if rollback.lane == server]
            before, after = (max(version for end_s, version in applied if end_s <= at_s) for at_s in (read.start_s, read.end_s))
            if before != after:
                raise Ambiguous(f"{place} has read version {before} to {after} of {server}")
            found[server] = before
        return found

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _variables(self, versions: dict[str, int]) -> Arrays:
        whole = [np.zeros(shape) for shape in SHAPES]
        for server, parts in self.parts.items():
            for (number, begin, end), (value, _) in zip(parts, self.held[server][versions[server]], strict=True):
                whole[number][begin:end] = value
        return whole

    def _compute(self, place: Place) -> None:
        closure, step = self._batch(place)
        loss, self._gradients[place] = gradients(self._variables(self._versions(place)), 1000 * step + closure)
        self.losses.setdefault(closure, []).append(loss)

    def _apply(self, update: Span) -> None:
        place, server, version = self._place(update), update.lane, update.facts["version"]
        if (server, version) not in self.undone:
            closure, _ = self._batch(place)
            self.counted[server, closure] = self.counted.get((server, closure), 0) + 1
        found, rule = self._gradients[place], self.training.rule
        count = self.counts[server][version] = self.counts[server][version - 1] + 1
        self.held[server][version] = [
            rule.apply(value, slots, found[number][begin:end], count)
            for (number, begin, end), (value, slots) in zip(self.parts[server], self.held[server][version - 1], strict=True)
        ]

    def _roll_back(self, rollback: Instant) -> None:
        for known in self.held[rollback.lane], self.counts[rollback.lane]:
            known[_anew(rollback)] = known[_back_to(rollback)]  # type: ignore[index,assignment]


def _back_to(rollback: Instant) -> int:
    """The version of which a server has the values again."""
    return int(rollback.facts["version"])  # type: ignore[call-overload]


def _anew(rollback: Instant) -> int:
    """The version with which it goes on."""
    return _back_to(rollback) + int(rollback.facts["updates"]) + 1  # type: ignore[call-overload]
