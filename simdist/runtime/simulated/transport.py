"""The transport: every message from one task to another takes the latency of its route, and its bytes the time of the links.

A *leg* (`legs.py`) has a source, a target and bytes; it is computed once. A *message* is a leg of a *sender* (a call, a letter, a copy,
the transfers of a collective): all copies of a message have the same one, so what comes twice is recognised. Messages with equal latencies
are sent together and share their events.

While nothing is laid over a pair of tasks, nothing is asked about it. What faults do to single messages is drawn in `disturbances.py`.

Not simulated: the cost of serialising, message headers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import partial
from typing import Protocol

from simdist.runtime.simulated.disturbances import AS_EVER, Disturbances
from simdist.runtime.simulated.legs import Content, Leg, Legs
from simdist.runtime.simulated.task import Sender as Carrier
from simdist.runtime.simulated.task import Task
from simdist.simulation.kernel import Clock
from simdist.simulation.network import Flow, QuietFlows, SharedLinks
from simdist.trace import Trace

__all__ = ["Arrived", "Sender", "Transport"]


class Sender(Protocol):
    """The owner of messages.

    Attributes:
        flows: its bytes that are on their way.
    """

    flows: list[Flow | QuietFlows]

    @property
    def open(self) -> bool:
        """Whether its messages still have an effect."""
        ...

    def leaving(self, legs: Legs) -> Legs | None:
        """The latency is over; returns those of these legs whose bytes still travel, None if none does."""
        ...

    def silenced(self, leg: Leg) -> None:
        """This message will not arrive, and no error says so."""
        ...

    def repeated(self, leg: Leg) -> None:
        """This message may arrive more than once."""
        ...


class Collective(Sender, Protocol):
    """The transfers of a collective."""

    def host_lost(self, task: Task) -> None:
        """A machine is gone, and nobody says so."""
        ...


Arrived = Callable[[Content], None]


class Transport:
    """Sends all messages of a cluster.

    Args:
        clock, links: where time passes.
        trace: counts bytes.
        disturbances: what befalls single messages; default nothing.

    Attributes:
        blocked: pairs (source, target) of tasks between which messages are lost.
        cut_s: when each pair was cut, in order.
    """

    def __init__(self, clock: Clock, links: SharedLinks, trace: Trace, disturbances: Disturbances | None = None) -> None:
        self.clock = clock
        self.links = links
        self.trace = trace
        self.disturbances = Disturbances(links) if disturbances is None else disturbances
        self.blocked: set[tuple[str, str]] = set()
        self.cut_s: dict[tuple[str, str], list[float]] = {}
        self.collectives: dict[Collective, None] = {}  # whose transfers are under way; calls and copies are kept by their tasks

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, legs: Legs, sender: Sender, arrived: Arrived, all_arrived: Arrived | None = None) -> None:
        """Send messages.

        Args:
            legs: of the messages.
            sender: whose they are.
            arrived: is called with all legs together where they are words, otherwise with each leg when its bytes have come.
            all_arrived: may be called in place of it with all legs, when the bytes of the last have come; `arrived` starts nothing
                then (default None: it is not).
        """
        going: Legs | None = legs
        if self.blocked:
            going = self._passing(legs, sender, self.passes)
        if going is not None and self.disturbances.pairs:
            going = going.only(lambda leg: not self._is_disturbed(leg, sender, arrived))
        if going is not None:
            self.clock.after(going.latency_s, self._latency_over, (going, sender, arrived, all_arrived))

    def resume(self, legs: Legs, left_s: float, sender: Sender, arrived: Arrived) -> None:
        """Let messages go on that were sent before, so many seconds before their latency is over."""
        self.clock.after(left_s, self._latency_over, (legs, sender, arrived, None))

    def in_latency(self) -> list[tuple[Legs, float]]:
        """The messages whose latency is not over, each with the seconds that are left of it."""
        now, over = self.clock.now, self._latency_over
        return [(argument[0], time_s - now) for time_s, _, _, function, argument in self.clock.queue if function == over]

    def _latency_over(self, messages: tuple[Legs, Sender, Arrived, Arrived | None]) -> None:
        legs, sender, arrived, all_arrived = messages
        if not sender.open:
            return
        going: Legs | None = legs
        if self.cut_s:
            going = self._passing(legs, sender, self.arrives)
        if going is not None:
            self._arrive(going, sender, arrived, all_arrived)

    def _arrive(self, legs: Legs, sender: Sender, arrived: Arrived, all_arrived: Arrived | None = None) -> None:
        if legs.is_word:
            arrived(legs.all)
        elif (leaving := sender.leaving(legs)) is not None:
            self._let_flow(leaving, sender, arrived, all_arrived)

    def _is_disturbed(self, leg: Leg, sender: Sender, arrived: Arrived) -> bool:
        """Whether a fault decides about a message: then its copies that are not lost are on their way by themselves."""
        fates = self.fates(leg)
        if fates is AS_EVER:
            return False
        if not fates:
            sender.silenced(leg)
        if len(fates) > 1:
            sender.repeated(leg)
            if leg.travels and leg.counted is None:  # its sender has counted it once
                self.trace.total(leg.source.name, "bytes_sent", (len(fates) - 1) * leg.size_bytes)
        for late_s in fates:
            self.clock.after(leg.latency_s + late_s, self._late, (leg, sender, arrived, late_s))
        return True

    def _late(self, message: tuple[Leg, Sender, Arrived, float]) -> None:
        leg, sender, arrived, late_s = message
        if not sender.open:
            return
        if self.arrives(leg, late_s):
            self._arrive(Legs([leg]), sender, arrived)
        else:
            sender.silenced(leg)

    def fates(self, leg: Leg) -> tuple[float, ...]:
        """How much later than usual each copy of a message comes that is sent now; empty: it is lost."""
        if self.blocked and not self.passes(leg):
            return ()
        return self.disturbances.fates(leg.source.name, leg.target.name, leg.kind, leg.latency_s)

    def _let_flow(self, legs: Legs, sender: Sender, arrived: Arrived, all_arrived: Arrived | None) -> None:
        totals = self.trace.totals
        for counted, num_bytes in legs.counted:
            totals[counted] = totals.get(counted, 0) + num_bytes
        going: Legs | None = legs
        if self.disturbances.narrow:
            going = legs.only(lambda leg: not (leg.travels and self._is_narrow(leg, sender, arrived)))
        if going is not None and going.travelling:
            together = all_arrived if not going.here and going is legs else None
            course = going.course(self.links)
            quiet = None if course is None else self.links.start_course(course, arrived, together)
            if quiet is not None:
                sender.flows.append(quiet)
            elif len(going.travelling) == 1:
                (leg,) = going.travelling
                sender.flows.append(self.links.start(leg.links, leg.size_bytes, arrived, leg))
            else:
                sender.flows += self.links.start_loads(going.travelling, arrived)
        for leg in legs.here:
            arrived(leg)

    def _is_narrow(self, leg: Leg, sender: Sender, arrived: Arrived) -> bool:
        """Whether its way is slow: then its bytes go by themselves."""
        narrow = self.disturbances.narrow.get((leg.source.name, leg.target.name))
        if narrow is None:
            return False
        sender.flows.append(self.links.start((*leg.links, narrow), leg.size_bytes, arrived, leg))
        return True

    def narrow(self, source: Task, target: Task) -> None:
        """Let the bytes that are on their way from one task to another pass the link that makes this way slow."""
        link = self.disturbances.narrow.get((source.name, target.name))
        if link is None:
            return
        for sender, device, flow in self._under_way(source, target):
            if link not in flow.links and (done := flow.done) is not None:
                links, leg = (*flow.links, link), flow.argument
                self.links.stop(flow)
                sender.flows[device] = self.links.start(links, flow.remaining, done, leg)

    def _under_way(self, source: Task, target: Task) -> list[tuple[Carrier | Sender, int, Flow]]:
        """What carries bytes from one task to another now: whose they are, and which of its flows."""
        senders: dict[Carrier | Sender, None] = dict.fromkeys([*source.calls, *target.calls, *self.collectives])
        found: list[tuple[Carrier | Sender, int, Flow]] = []
        for sender in senders:
            flows = self.links.flows_of(sender.flows)
            sender.flows[:] = flows
            for device, flow in enumerate(flows):
                leg: Leg = flow.argument
                if flow.done is not None and leg.source is source and leg.target is target:
                    found.append((sender, device, flow))
        return found

    def _passing(self, legs: Legs, sender: Sender, gets_on: Callable[[Leg], bool]) -> Legs | None:
        """The messages that no fault stops, None if it stops all; the sender of the others is notified."""
        passing = legs.only(gets_on)
        for leg in legs.all if passing is not legs else ():
            if passing is None or leg not in passing.all:
                sender.silenced(leg)
        return passing

    def post(self, leg: Leg, arrived: Arrived, content: Content = None, unheard: Arrived | None = None, is_awaited: bool = True) -> None:
        """Send a word; `arrived(content)` is called once, when it has come, unless one of the two has died on the way.

        Args:
            unheard: is called with the content where the word is lost.
            is_awaited: whether its arrival can end a wait.
        """
        letter = Letter(self, leg, arrived, content, unheard)
        fates = self.fates(leg) if self.blocked or self.disturbances.pairs else AS_EVER
        if not fates:
            letter.lose()
        letter.copies = len(fates)
        for late_s in fates:
            if is_awaited:
                self.clock.after(leg.latency_s + late_s, letter.arrive, late_s)
            else:
                self.clock.after_daemon(leg.latency_s + late_s, partial(letter.arrive, late_s))

    def sever(self, source: Task, target: Task) -> None:
        """Lose what is on its way from one task to another: bytes now, words when they would have come."""
        self.cut_s.setdefault((source.name, target.name), []).append(self.clock.now)
        for sender, _, flow in self._under_way(source, target):
            self.links.stop(flow)
            sender.silenced(flow.argument)

    def passes(self, leg: Leg) -> bool:
        """Whether a message that is sent now is not lost at once."""
        return (leg.source.name, leg.target.name) not in self.blocked

    def arrives(self, leg: Leg, late_s: float = 0.0) -> bool:
        """Whether a message whose latency is over has come: its way was not cut meanwhile, for however short a time."""
        return self.passes(leg) and not self.was_cut(leg, self.clock.now - leg.latency_s - late_s, late_s)

    def was_cut(self, leg: Leg, sent_s: float, late_s: float = 0.0) -> bool:
        """Whether the way of a message that left at this time was cut before it came."""
        cuts = self.cut_s.get((leg.source.name, leg.target.name), ())
        first = bisect_left(cuts, sent_s)  # others may have come since
        return first < len(cuts) and cuts[first] <= sent_s + leg.latency_s + late_s


class Letter:
    """A word from one incarnation to another.

    Attributes:
        copies: of it that are on their way.
        is_read: whether one of them has come; the others have no effect.
    """

    __slots__ = ("arrived", "content", "copies", "is_read", "leg", "source_process", "target_process", "transport", "unheard")

    def __init__(self, transport: Transport, leg: Leg, arrived: Arrived, content: Content, unheard: Arrived | None) -> None:
        self.transport = transport
        self.leg = leg
        self.source_process = leg.source.process
        self.target_process = leg.target.process
        self.arrived = arrived
        self.content = content
        self.unheard = unheard
        self.copies = 1
        self.is_read = False

    def arrive(self, late_s: float) -> None:
        """The latency is over."""
        self.copies -= 1
        if self.is_read or not (self.source_process.alive and self.target_process.alive):
            return
        if self.transport.cut_s and not self.transport.arrives(self.leg, late_s):
            if not self.copies:
                self.lose()
            return
        self.is_read = True
        if self.leg.target.held is not None:
            self._read(None)
        else:
            self.arrived(self.content)

    def _read(self, _: object) -> None:
        """Give the content to the target; one that is paused reads it when it goes on."""
        held = self.leg.target.held
        if not self.target_process.alive:
            return
        if held is not None:
            held.append((self._read, None))
        else:
            self.arrived(self.content)

    def lose(self) -> None:
        """Lose the message, without an error."""
        if self.unheard is not None:
            self.unheard(self.content)
