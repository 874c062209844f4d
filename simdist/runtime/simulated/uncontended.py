"""A collective on links without other flows: how long it takes, and how far it is at a moment.

The same collective of the same ranks, begun by all in one moment, takes equally long each time. So it is simulated once, on a clock
and on links of its own, and not again.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.runtime.simulated.transfers import BYTES_SENT, RoutedSchedule, Transfers
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.kernel import Clock
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
        over: opens when all are.
    """

    def __init__(self, routed: RoutedSchedule, transfers: type[Transfers] = Transfers) -> None:
        self.clock = Clock()
        self.links = {link: Link(link.name, link.bandwidth_bytes_per_s) for link in routed.links}
        self.seconds = [0.0] * routed.num_ranks
        self.over = self.clock.gate()
        self.trace = Trace()
        self._left = routed.num_ranks
        self.transport = Transport(self.clock, SharedLinks(self.clock), self.trace)
        self.transfers = transfers(self.transport, routed.on_links(self.links), self._done)
        for rank in range(routed.num_ranks):
            self.transfers.begin(rank)

    def go_on_until(self, elapsed_s: float) -> None:
        """Let so many seconds pass since all have begun."""
        moment = self.clock.gate()
        self.clock.after(elapsed_s, moment.open)
        self.clock.wait(moment, "a moment of a collective")

    def _done(self, rank: int) -> None:
        self.seconds[rank] = self.clock.now
        self._left -= 1
        if not self._left:
            self.over.open()


def uncontended_seconds(routed: RoutedSchedule) -> list[float]:
    """The seconds that each rank takes on uncontended links if all begin at once."""
    alone = AloneOnLinks(routed)
    alone.clock.wait(alone.over, "a collective")
    return alone.seconds


def uncontended_bytes(routed: RoutedSchedule, elapsed_s: float) -> tuple[list[float], list[float]]:
    """The bytes that have travelled some seconds after all have begun.

    Returns:
        Those that each rank has sent, counted as by the trace when they leave; and those that each of `routed.links` has carried.
    """
    alone = AloneOnLinks(routed)
    alone.go_on_until(elapsed_s)
    alone.transfers.stop()
    totals = alone.trace.totals
    sent = [totals.get((str(rank), BYTES_SENT), 0.0) for rank in range(routed.num_ranks)]
    return sent, [alone.links[link].bytes_carried for link in routed.links]


def resumed(
    routed: RoutedSchedule,
    elapsed_s: float,
    transport: Transport,
    real: RoutedSchedule,
    done: Callable[[int], None],
    lost: Callable[[], None],
) -> Transfers:
    """The transfers of a collective that was alone until now, from where they are some seconds after all have begun.

    Args:
        routed: as it was timed.
        elapsed_s: the seconds.
        transport: carries what is left, and counts the bytes of what has not left yet.
        real: the same schedule over the links that it goes over.
        done, lost: as of `Transfers`.
    """
    alone = AloneOnLinks(routed)
    alone.go_on_until(elapsed_s)
    before = alone.transfers
    legs = dict(zip(before.routed.legs, real.legs, strict=True))
    transfers = Transfers(transport, real, done, lost)
    transfers.to_do, transfers.position, transfers.left = before.to_do, before.position, before.left
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
