"""A parcel: bytes from one incarnation to another that nobody confirms. A closure with large arguments is one.

It is read once, when all its bytes have come. It ends without a word when one of the two dies, whose end others notice; where it is lost
on its way, its sender is called.
"""

from __future__ import annotations

from collections.abc import Callable

from simdist.runtime.simulated.legs import Content, Leg, Legs
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Arrived, Transport
from simdist.simulation.network import Flow, QuietFlows

__all__ = ["Parcel"]


class Parcel:
    """One parcel in flight.

    Args:
        transport: sends it.
        leg: its way and its bytes; what it is about is the leg's content.
        came: is called with that, and when they were sent in virtual seconds, when all bytes have come.
        arrived: is called with that when the target reads it, which is later only where it is paused.
        unheard: the same where it is lost.
    """

    def __init__(self, transport: Transport, leg: Leg, came: Callable[[Content, float], None], arrived: Arrived, unheard: Arrived) -> None:
        self.transport = transport
        self.leg = leg
        self.ends = leg.source, leg.target
        self.processes = leg.source.process, leg.target.process
        self.came = came
        self.arrived = arrived
        self.unheard = unheard
        self.flows: list[Flow | QuietFlows] = []
        self.open = True
        self.began_s = transport.clock.now
        for task in self.ends:
            task.calls[self] = None
        transport.send(Legs([leg]), self, self._arrived)

    @property
    def is_under_way(self) -> bool:
        """Whether its bytes have not come. Looking changes nothing."""
        return not self.transport.links.has_arrived(self.flows, self.leg)

    def leaving(self, legs: Legs) -> Legs | None:
        if all(process.alive for process in self.processes):
            return legs
        self._close()
        return None

    def repeated(self, leg: Leg) -> None:
        """It is read when the first has come."""

    def silenced(self, leg: Leg) -> None:
        """It is lost on its way, without an error."""
        if self.open:
            self._stop()
            self.unheard(self.leg.content)

    def lost(self, task: Task) -> None:
        """One of its tasks has died."""
        self._stop()

    def _arrived(self, _: object) -> None:
        if self.open:
            self._close()
            self.came(self.leg.content, self.began_s)
            self._read(None)

    def _read(self, _: object) -> None:
        """Give the content to the target; one that is paused reads it when it goes on."""
        held = self.leg.target.held
        if not self.processes[1].alive:
            return
        if held is not None:
            held.append((self._read, None))
        else:
            self.arrived(self.leg.content)

    def _stop(self) -> None:
        for flow in self.flows:
            self.transport.links.stop(flow)
        self._close()

    def _close(self) -> None:
        self.open, self.flows = False, []
        for task in self.ends:
            task.calls.pop(self, None)
