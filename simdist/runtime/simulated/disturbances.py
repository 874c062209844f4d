"""What is laid over the messages of pairs of tasks: loss, delay, repetition, and ways that are slow.

For each message of such a pair its *fates* are drawn: how much later than usual each of its copies sets out on its way, and none for a
copy that is lost. Draws are counted: the n-th message that a rule decides about has the n-th number of the rule's own stream, so no
other rule, message or pair shifts it.

Nothing here is asked about a pair over which nothing lies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from simdist.randomness import derive_seed
from simdist.simulation.network import Link, SharedLinks

__all__ = ["AS_EVER", "Disturbances", "Narrowing", "Rule"]

AS_EVER = (0.0,)
"""The fates of a message that nothing befalls."""

Pair = tuple[str, str]
Heal = Callable[[], None]
Effect = TypeVar("Effect")


@dataclass(eq=False, slots=True)
class Rule:
    """What befalls messages by chance.

    Args:
        kinds: of the messages.
        probability: that it befalls one of them.
        seed: of its stream.
        delay_s, spread_s: of a rule that delays.

    Attributes:
        drawn: how many numbers of its stream are used.
    """

    kinds: frozenset[str]
    probability: float
    seed: int
    delay_s: float = 0.0
    spread_s: float = 0.0
    drawn: int = field(default=0, init=False)

    def hits(self, kind: str) -> bool:
        """Whether it befalls this message."""
        return kind in self.kinds and (self.probability >= 1.0 or self._draw() < self.probability)

    def late_s(self, kind: str) -> float:
        """By how much this message is late."""
        if not self.hits(kind):
            return 0.0
        return self.delay_s + (self._draw() * self.spread_s if self.spread_s else 0.0)

    def _draw(self) -> float:
        self.drawn += 1
        return derive_seed(self.seed, self.drawn) / 2.0**63


@dataclass(frozen=True, eq=False)
class Narrowing:
    """Factors on the way of a pair: its bandwidth is divided, its latency multiplied."""

    bandwidth_factor: float
    latency_factor: float


class PairOfTasks:
    """What lies over what one task sends to another, each effect with its token."""

    def __init__(self) -> None:
        self.losses: dict[object, Rule] = {}
        self.delays: dict[object, Rule] = {}
        self.repeats: dict[object, Rule] = {}
        self.narrowings: dict[object, Narrowing] = {}
        self.bandwidth_factor = 1.0
        self.latency_factor = 1.0

    def fates(self, kind: str, latency_s: float) -> tuple[float, ...]:
        """For each copy of a message that is not lost, how much later than usual it comes."""
        # Every rule draws for every copy, whatever the others say.
        copies = 1 + sum([rule.hits(kind) for rule in self.repeats.values()])
        found: list[float] = []
        for _ in range(copies):
            is_lost = sum([rule.hits(kind) for rule in self.losses.values()]) > 0
            late_s = sum([rule.late_s(kind) for rule in self.delays.values()])
            if not is_lost:
                found.append(late_s + latency_s * (self.latency_factor - 1.0))
        return AS_EVER if found == [0.0] else tuple(found)

    def loses_all(self, kind: str) -> bool:
        """Whether no message of a kind arrives."""
        return any(kind in rule.kinds and rule.probability >= 1.0 for rule in self.losses.values())

    def concerns(self, kind: str) -> bool:
        """Whether anything may befall a message of a kind."""
        rules = (*self.losses.values(), *self.delays.values(), *self.repeats.values())
        return self.latency_factor != 1.0 or any(kind in rule.kinds for rule in rules)

    def fold(self) -> None:
        """Work out the factors in force."""
        self.bandwidth_factor = math.prod([each.bandwidth_factor for each in self.narrowings.values()])
        self.latency_factor = math.prod([each.latency_factor for each in self.narrowings.values()])

    @property
    def is_clear(self) -> bool:
        return not (self.losses or self.delays or self.repeats or self.narrowings)


class Disturbances:
    """The disturbed pairs of one cluster.

    Args:
        links: sets bandwidths.
        bandwidth: bytes per second of the way of a pair; None (the default) where no link lies between the two. A part of an infinite one
            is infinite, too.
        seed: of the cluster.

    Attributes:
        pairs: over which something lies.
        narrow: links that the bytes of slow pairs have to pass besides those of their route.
    """

    def __init__(
        self, links: SharedLinks, bandwidth: Callable[[str, str], float | None] = lambda source, target: None, seed: int = 0
    ) -> None:
        self.links = links
        self.bandwidth = bandwidth
        self.seed = seed
        self.pairs: dict[Pair, PairOfTasks] = {}
        self.narrow: dict[Pair, Link] = {}
        self._links: dict[Pair, Link] = {}  # also those that are wide again, on which bytes may still be
        self._laid: Counter[tuple[str, ...]] = Counter()

    # -- laying ---------------------------------------------------------------------------------------------------

    def drop(self, pair: Pair, kinds: frozenset[str], probability: float) -> Heal:
        """Lose messages; the result lets them pass again."""
        return self._lay(pair, lambda over: over.losses, Rule(kinds, probability, self._stream("drop", pair, kinds)))

    def delay(self, pair: Pair, kinds: frozenset[str], probability: float, delay_s: float, spread_s: float) -> Heal:
        """Let messages come later; the result ends it for those that set out then."""
        rule = Rule(kinds, probability, self._stream("delay", pair, kinds), delay_s, spread_s)
        return self._lay(pair, lambda over: over.delays, rule)

    def duplicate(self, pair: Pair, kinds: frozenset[str], probability: float) -> Heal:
        """Let messages set out twice."""
        return self._lay(pair, lambda over: over.repeats, Rule(kinds, probability, self._stream("duplicate", pair, kinds)))

    def slow(self, pair: Pair, narrowing: Narrowing) -> Heal:
        """Give a pair less bandwidth and more latency."""
        return self._lay(pair, lambda over: over.narrowings, narrowing)

    def _stream(self, what: str, pair: Pair, kinds: frozenset[str]) -> int:
        """The seed of a rule: of what it is about, and the how-manieth of these it is."""
        about = (what, *pair, *sorted(kinds))
        self._laid[about] += 1
        return derive_seed(self.seed, "faults", *about, self._laid[about])

    def _lay(self, pair: Pair, effects_of: Callable[[PairOfTasks], dict[object, Effect]], effect: Effect) -> Heal:
        token, over = object(), self.pairs.setdefault(pair, PairOfTasks())
        laid = effects_of(over)
        laid[token] = effect
        self._fold(pair, over)

        def heal() -> None:
            del laid[token]
            self._fold(pair, over)
            if over.is_clear:
                del self.pairs[pair]

        return heal

    def _fold(self, pair: Pair, over: PairOfTasks) -> None:
        before = over.bandwidth_factor
        over.fold()
        bandwidth = self.bandwidth(*pair)
        if over.bandwidth_factor == before or bandwidth is None or math.isinf(bandwidth):
            return
        link = self._links.get(pair)
        if link is None:
            link = self._links[pair] = Link("->".join(pair), bandwidth)
        self.links.set_bandwidth(link, bandwidth / over.bandwidth_factor)
        if over.bandwidth_factor > 1.0:
            self.narrow[pair] = link
        else:
            self.narrow.pop(pair, None)

    # -- asking ---------------------------------------------------------------------------------------------------

    def fates(self, source: str, target: str, kind: str, latency_s: float) -> tuple[float, ...]:
        """How much later than usual each copy of a message comes that is sent now; empty: it is lost."""
        over = self.pairs.get((source, target))
        return AS_EVER if over is None else over.fates(kind, latency_s)

    def loses_all(self, source: str, target: str, kind: str) -> bool:
        """Whether no message of a kind arrives."""
        over = self.pairs.get((source, target))
        return over is not None and over.loses_all(kind)

    def concern(self, source: str, target: str, kind: str) -> bool:
        """Whether anything may befall a message of a kind."""
        over = self.pairs.get((source, target))
        return over is not None and over.concerns(kind)
