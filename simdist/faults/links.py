"""What befalls messages on their way: one is lost, late, or comes twice; or the way itself is slow.

Each acts on what one side sends to the other, and by chance where a probability is given: drawn for each message from the seed of the
cluster, so that the same run draws the same. The sender gets no error. Servers and workers know messages that they have seen, so one that
comes twice takes effect once.

Several faults on one pair: a message is lost if one of them loses it; delays add up, factors multiply, and each that repeats a message
adds a copy, which may be lost or late by itself.

Not simulated: what a transport of the real world sends again by itself. Who waits for a message that is lost waits for a time-out; one
that is late is waited for.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field

from simdist.faults import parameters as declare
from simdist.faults.effects import Effects, Heal
from simdist.faults.messages import CHOICES, kinds_of
from simdist.faults.shapes import DirectedFault, all_of

LONGEST_S = 3600.0  # later than that, a message is lost for whoever waits

__all__ = ["Delay", "Drop", "Duplicate", "SlowLink"]


@dataclass(eq=False)
class MessageFault(DirectedFault):
    """A fault of single messages.

    Args:
        messages: their kind (see `simdist.faults.messages`); None: all.
        probability: that it befalls a message.
    """

    disturbs = True
    messages: str | None = field(
        default=None, kw_only=True, metadata=declare.choice("which messages", CHOICES, optional=True, called="kind")
    )
    probability: float = field(default=1.0, kw_only=True, metadata=declare.number("that it befalls a message", above=0.0, at_most=1.0))

    def lay(self, effects: Effects) -> Heal:
        return all_of([self._lay(effects, source, target, kinds_of(self.messages)) for source, target in self.pairs])

    @abstractmethod
    def _lay(self, effects: Effects, source: str, target: str, kinds: frozenset[str]) -> Heal: ...


@dataclass(eq=False)
class Drop(MessageFault, kind="drop"):
    """Messages are lost."""

    silences = True

    def _lay(self, effects: Effects, source: str, target: str, kinds: frozenset[str]) -> Heal:
        return effects.drop(source, target, kinds, self.probability)


@dataclass(eq=False)
class Delay(MessageFault, kind="delay"):
    """Messages are late, and may come in another order.

    Args:
        seconds: by how much; and
        spread: up to so many seconds more, evenly drawn for each message.
    """

    silences = True  # heartbeats that are late are not heard in time
    seconds: float = field(metadata=declare.number("by how much", unit="s", at_least=0.0, at_most=LONGEST_S))
    spread: float = field(
        default=0.0, metadata=declare.number("up to so much more, drawn for each message", unit="s", at_least=0.0, at_most=LONGEST_S)
    )

    def _lay(self, effects: Effects, source: str, target: str, kinds: frozenset[str]) -> Heal:
        return effects.delay(source, target, kinds, self.probability, self.seconds, self.spread)


@dataclass(eq=False)
class Duplicate(MessageFault, kind="duplicate"):
    """Messages are sent twice."""

    may_end_waits = False

    def _lay(self, effects: Effects, source: str, target: str, kinds: frozenset[str]) -> Heal:
        return effects.duplicate(source, target, kinds, self.probability)


@dataclass(eq=False)
class SlowLink(DirectedFault, kind="slow_link"):
    """The way from some tasks to others has less bandwidth and more latency; bytes that are on it are slowed down too.

    Args:
        bandwidth_factor: that of a pair of tasks is divided by it.
        latency_factor: on the latency of each message.
    """

    disturbs = True
    bandwidth_factor: float = field(default=1.0, metadata=declare.number("that divides the bandwidth", at_least=1.0))
    latency_factor: float = field(default=1.0, metadata=declare.number("on the latency", at_least=1.0, at_most=1e4))

    def lay(self, effects: Effects) -> Heal:
        return all_of([effects.slow_link(a, b, self.bandwidth_factor, self.latency_factor) for a, b in self.pairs])
