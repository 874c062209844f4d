"""A collective on links without other flows: how long it takes, and how far it is at a moment.

The same collective of the same ranks, begun by all in one moment, takes equally long each time. So it is simulated once, on a clock
and on links of its own, and not again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from simdist.runtime.simulated.transfers import BYTES_SENT, RoutedSchedule, Transfers
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.kernel import Clock, Gate
from simdist.simulation.loop import FEW_EVENTS, run_events, run_many_events
from simdist.simulation.network import Link, SharedLinks
from simdist.trace import Trace

__all__ = ["AloneOnLinks", "resumed", "uncontended_bytes", "uncontended_seconds"]


class AloneOnLinks:
    """A collective that all ranks have begun, and that nothing disturbs.

    Args:
        routed: the schedule with its routes.
        transfers: its class; default one that notes nothing.

    Attributes:
        links: copies of those in use.
        seconds: when each rank is done.
    """

    def __init__(self, routed: RoutedSchedule, transfers: type[Transfers] = Transfers) -> None:
        self.clock = Clock()
        self.links = {link: Link(link.name, link.bandwidth_bytes_per_s) for link in routed.links}
        self.seconds = [0.0] * routed.num_ranks
        self.trace = Trace()
        self._ends = [self.clock.gate() for _ in range(routed.num_ranks)]
        self.transport = Transport(self.clock, SharedLinks(self.clock), self.trace)
        self.transfers = transfers(self.transport, routed.on_links(self.links), self._done)
        for rank in range(routed.num_ranks):
            self.transfers.begin(rank)

    def go_on_until(self, elapsed_s: float) -> None:
        """Let so many seconds pass since all have begun."""
        moment = self.clock.gate()
        self.clock.after(elapsed_s, moment.open)
        self._run_until(moment, "a moment of a collective")

    def go_on_until_done(self, ranks: Iterable[int]) -> None:
        """Let time pass until these ranks are done."""
        for rank in ranks:
            self._run_until(self._ends[rank], "the end of a collective")

    def _run_until(self, gate: Gate, what: str) -> None:
        # Without a wait of the clock, which notes Ctrl-C and raises it: it is for the clock in whose event all of this happens.
        run_events(self.clock, gate, what, [], FEW_EVENTS)
        run_many_events(self.clock, gate, what, [], sys.maxsize)

    def _done(self, rank: int) -> None:
        self.seconds[rank] = self.clock.now
        self._ends[rank].open()


def uncontended_seconds(routed: RoutedSchedule) -> list[float]:
    """The seconds that each rank takes on uncontended links if all begin at once."""
    alone = AloneOnLinks(routed)
    alone.go_on_until_done(range(routed.num_ranks))
    return alone.seconds


def uncontended_bytes(routed: RoutedSchedule, elapsed_s: float, done_ranks: Iterable[int]) -> tuple[list[float], list[float]]:
    """The bytes that have travelled some seconds after all have begun.

    Args:
        routed: as it was timed.
        elapsed_s, done_ranks: as of `resumed`.

    Returns:
        Those that each rank has sent, counted as by the trace when they leave; and those that each of `routed.links` has carried.
    """
    alone = _alone_at(routed, elapsed_s, done_ranks)
    alone.transfers.stop()
    totals = alone.trace.totals
    sent = [totals.get((str(rank), BYTES_SENT), 0.0) for rank in range(routed.num_ranks)]
    return sent, [alone.links[link].bytes_carried for link in routed.links]


def resumed(
    routed: RoutedSchedule,
    elapsed_s: float,
    done_ranks: Iterable[int],
    transport: Transport,
    real: RoutedSchedule,
    done: Callable[[int], None],
    lost: Callable[[], None],
) -> Transfers:
    """The transfers of a collective that was alone until now, from where they are some seconds after all have begun.

    Args:
        routed: as it was timed.
        elapsed_s: the seconds.
        done_ranks: ranks that have their results. They are done here too, also where their last bytes come at this very moment, or a
            rounding later.
        transport: carries what is left, and counts the bytes of what has not left yet.
        real: the same schedule over the links that it goes over.
        done, lost: as of `Transfers`.
    """
    alone = _alone_at(routed, elapsed_s, done_ranks)
    before = alone.transfers
    legs = dict(zip(before.routed.legs, real.legs, strict=True))
    transfers = Transfers(transport, real, done, lost)
    transfers.to_do, transfers.position, transfers.left = before.to_do, before.position, before.left
    if not transfers.to_do:
        transport.collectives.pop(transfers)
    transfers.entered = {legs[leg] for leg in before.entered}
    begun_s = transport.clock.now - elapsed_s
    transfers.under_way = {legs[leg]: begun_s + sent_s for leg, sent_s in before.under_way.items()}
    for going, left_s in alone.transport.in_latency():
        for leg in going.all:
            transport.resume(real.alone[legs[leg]], left_s, transfers, transfers.arrived)
    for flow in alone.transport.links.flows_of(before.flows):
        leg = legs[flow.argument]
        alone.transport.links.stop(flow)
        transfers.flows.append(transport.links.start(leg.links, flow.remaining, transfers.arrived, leg))
    return transfers


def _alone_at(routed: RoutedSchedule, elapsed_s: float, done_ranks: Iterable[int]) -> AloneOnLinks:
    alone = AloneOnLinks(routed)
    alone.go_on_until(elapsed_s)
    alone.go_on_until_done(done_ranks)
    return alone
