"""The only way from one task to another: words and bytes take the latency of a route, and bytes the time of its links.

A *leg* says from where, to where and how much; it is worked out once. A *message* is a leg of a *sender* (a call, a letter, a copy,
the transfers of a collective), which has an identity of its own: the client, its incarnation and a sequence number. Messages that
take equally long are sent together and share their events.

While nothing is laid over a pair of tasks, nothing is asked about it.

Not simulated: the cost of serialising, message headers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from simdist.runtime.simulated.task import Task
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, Link, SharedLinks
from simdist.trace import Trace

__all__ = ["Arrived", "Leg", "Sender", "Transport"]


@dataclass(frozen=True, eq=False, slots=True)
class Leg:
    """One way of a message.

    Attributes:
        source, target: the tasks.
        size_bytes: 0 for words.
        links: that the bytes travel over; none within a host.
        latency_s: until the word, or the first byte, is there.
        counted: the trace's total that counts the bytes; None where the sender counts them.
        content: what the message is about, for its sender.
        is_word: whether it is a message without bytes.
        travels: whether it has bytes that go over links.
    """

    source: Task
    target: Task
    size_bytes: float
    links: tuple[Link, ...]
    latency_s: float
    counted: tuple[str, str] | None = None
    content: Any = None
    is_word: bool = False
    travels: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "travels", bool(self.links) and self.size_bytes > 0)


class Sender(Protocol):
    """Whose messages they are.

    Attributes:
        flows: its bytes that are on their way.
    """

    flows: list[Flow]

    @property
    def open(self) -> bool:
        """Whether its messages still mean anything."""
        ...

    def leaving(self, legs: Sequence[Leg]) -> Sequence[Leg]:
        """The latency is over; those of these legs whose bytes still go."""
        ...

    def silenced(self, leg: Leg) -> None:
        """This message will not arrive, and nobody says so."""
        ...


Arrived = Callable[[Any], None]


class Transport:
    """Sends messages.

    Args:
        clock, links: where time passes.
        trace: counts bytes.

    Attributes:
        blocked: pairs (source, target) of tasks between which messages are lost.
        cut_s: when a pair was cut last.
    """

    def __init__(self, clock: Clock, links: SharedLinks, trace: Trace) -> None:
        self.clock = clock
        self.links = links
        self.trace = trace
        self.blocked: set[tuple[str, str]] = set()
        self.cut_s: dict[tuple[str, str], float] = {}
        self.collectives: dict[Sender, None] = {}  # whose transfers are under way; calls and copies are kept by their tasks

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, legs: Sequence[Leg], sender: Sender, arrived: Arrived) -> None:
        """Send messages.

        Args:
            legs: all with the same latency, and all with bytes or none.
            sender: whose they are.
            arrived: is called with all legs together where they are words, otherwise with each leg when its bytes have come.
        """
        if self.blocked:
            legs = self._passing(legs, sender, self.passes)
        if legs:
            self.clock.after(legs[0].latency_s, self._latency_over, (legs, sender, arrived))

    def _latency_over(self, messages: tuple[Sequence[Leg], Sender, Arrived]) -> None:
        legs, sender, arrived = messages
        if not sender.open:
            return
        if self.cut_s:
            legs = self._passing(legs, sender, self.arrives)
        if not legs:
            return
        if legs[0].is_word:
            arrived(legs)
        else:
            self._let_flow(sender.leaving(legs), sender, arrived)

    def _let_flow(self, legs: Sequence[Leg], sender: Sender, arrived: Arrived) -> None:
        totals, travels = self.trace.totals, True
        for leg in legs:
            if leg.counted is not None:
                totals[leg.counted] = totals.get(leg.counted, 0) + leg.size_bytes
            travels = travels and leg.travels
        here = [] if travels else [leg for leg in legs if not leg.travels]
        if not travels:
            legs = [leg for leg in legs if leg.travels]
        if len(legs) == 1:
            (leg,) = legs
            sender.flows.append(self.links.start(leg.links, leg.size_bytes, arrived, leg))
        elif legs:
            sender.flows += self.links.start_loads(legs, arrived)
        for leg in here:
            arrived(leg)

    def _passing(self, legs: Sequence[Leg], sender: Sender, gets_on: Callable[[Leg], bool]) -> Sequence[Leg]:
        """Those that no fault keeps from arriving; the sender of the others is told."""
        lost = [leg for leg in legs if not gets_on(leg)]
        for leg in lost:
            sender.silenced(leg)
        return [leg for leg in legs if leg not in lost]

    def post(self, leg: Leg, arrived: Arrived, content: Any = None, unheard: Arrived | None = None) -> None:
        """Send a word; `arrived(content)` is called when it has come, unless one of the two has died on the way.

        Args:
            unheard: is called with the content where the word is lost.
        """
        letter = Letter(self, leg, arrived, content, unheard)
        if self.blocked and not self.passes(leg):
            letter.lose()
        else:
            self.clock.after(leg.latency_s, letter.arrive)

    def sever(self, source: Task, target: Task) -> None:
        """Lose what is on its way from one task to another: bytes now, words when they would have come."""
        self.cut_s[source.name, target.name] = self.clock.now
        senders = dict.fromkeys([*source.calls, *target.calls, *self.collectives])
        for sender in senders:
            for flow in sender.flows:
                leg: Leg = flow.argument
                if flow.done is not None and leg.source is source and leg.target is target:
                    self.links.stop(flow)
                    sender.silenced(leg)

    def passes(self, leg: Leg) -> bool:
        """Whether a message that is sent now gets on its way."""
        return (leg.source.name, leg.target.name) not in self.blocked

    def arrives(self, leg: Leg) -> bool:
        """Whether a message whose latency is over has come: its way was not cut meanwhile, for however short a time."""
        return self.passes(leg) and not self.was_cut(leg, self.clock.now - leg.latency_s)

    def was_cut(self, leg: Leg, sent_s: float) -> bool:
        """Whether the way of a message that left at this time was cut before it came."""
        cut_s = self.cut_s.get((leg.source.name, leg.target.name))
        return cut_s is not None and sent_s <= cut_s <= sent_s + leg.latency_s


class Letter:
    """A word from one incarnation to another."""

    __slots__ = ("arrived", "content", "leg", "sequence", "source_process", "target_process", "transport", "unheard")

    def __init__(self, transport: Transport, leg: Leg, arrived: Arrived, content: Any, unheard: Arrived | None) -> None:
        self.transport = transport
        self.leg = leg
        self.source_process = leg.source.process
        self.target_process = leg.target.process
        self.arrived = arrived
        self.content = content
        self.unheard = unheard
        self.sequence = leg.source.sequence = leg.source.sequence + 1

    @property
    def identity(self) -> tuple[str, int, int]:
        """Client, incarnation and sequence number."""
        return self.leg.source.name, self.source_process.incarnation, self.sequence

    def arrive(self, _: Any) -> None:
        """The latency is over."""
        if not (self.source_process.alive and self.target_process.alive):
            return
        if self.transport.cut_s and not self.transport.arrives(self.leg):
            self.lose()
        elif self.leg.target.held is not None:
            self._read(None)
        else:
            self.arrived(self.content)

    def _read(self, _: Any) -> None:
        """It has come: a target that is paused reads it when it goes on."""
        held = self.leg.target.held
        if not self.target_process.alive:
            return
        if held is not None:
            held.append((self._read, None))
        else:
            self.arrived(self.content)

    def lose(self) -> None:
        """It does not arrive, and nobody says so."""
        if self.unheard is not None:
            self.unheard(self.content)
