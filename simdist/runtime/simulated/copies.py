"""A copy of bytes from one device to another: a variable that is fetched, or the state of a new replica."""

from __future__ import annotations

from collections.abc import Callable

from simdist.errors import TimedOutError, UnavailableError
from simdist.runtime.simulated.calls import CALL_TIMEOUT_S
from simdist.runtime.simulated.legs import Leg, Legs
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.fabric import Route
from simdist.simulation.network import Flow, QuietFlows

__all__ = ["Copy"]


class Copy:
    """One copy of bytes in flight.

    Args:
        transport: sends it.
        route: its way.
        ends: the tasks of source and target.
        devices: source and target: tasks or devices.
        size_bytes: how much.
        what: the caller waits for, in words.
        ended: is called once, with None or with an error.

    Raises:
        UnavailableError: one of the two tasks is down.
    """

    def __init__(
        self,
        transport: Transport,
        route: Route,
        ends: tuple[Task, Task],
        devices: tuple[str, str],
        size_bytes: float,
        what: str,
        ended: Callable[[BaseException | None], object],
    ) -> None:
        for task in ends:
            if not task.alive and not task.process.lost:
                raise UnavailableError(f"{task.name} is down, so {what} cannot come.")
        self.transport = transport
        self.ends = ends
        self.processes = [task.process for task in ends]
        self.what = what
        self.ended = ended
        self.flows: list[Flow | QuietFlows] = []
        self.open = True
        self.timed = False
        self.began_s = transport.clock.now
        self.latency_s = route.latency_s
        self.leg = leg = Leg(*ends, size_bytes, route.links, route.latency_s, (devices[0], "bytes_sent"), kind="copy")
        for task in ends:
            task.calls[self] = None
        self._send(leg)

    def _send(self, leg: Leg) -> None:
        """A source that is paused sends when it goes on."""
        if not self.open:
            return
        if leg.source.held is None:
            self.transport.send(Legs([leg]), self, self._arrived)
        else:
            leg.source.held.append((self._send, leg))
            self.silenced(leg)

    def leaving(self, legs: Legs) -> Legs | None:
        if any(process.lost for process in self.processes):
            self.silenced(legs.all[0])
        return legs if all(process.alive for process in self.processes) else None

    @property
    def is_under_way(self) -> bool:
        """Whether its bytes have not come. Looking changes nothing."""
        return not self.transport.links.has_arrived(self.flows, self.leg)

    def repeated(self, leg: Leg) -> None:
        """It is over when the first has come."""

    def _arrived(self, leg: Leg) -> None:
        if leg.target.held is not None:
            leg.target.held.append((self._arrived, leg))
            self.silenced(leg)
        else:
            self._end(None)

    def lost(self, task: Task) -> None:
        """End the copy with an error, because one of its tasks has died."""
        for flow in self.flows:
            self.transport.links.stop(flow)
        if task.process.lost:
            self.silenced(self.leg)
            return
        error = UnavailableError(f"{task.name} died while {self.what} were on their way.")
        self.transport.clock.after(self.latency_s, self._end, error)

    def silenced(self, leg: Leg) -> None:
        """The copy is lost on its way, or waits for a paused task, without an error."""
        if not self.timed:
            self.timed = True
            why = "they were lost on the way, or a task is paused"
            path = f"from {leg.source.name} to {leg.target.name}, begun at {self.began_s:g} s"
            error = TimedOutError(f"{self.what} did not come {path}, within {CALL_TIMEOUT_S:g} s: {why}.")
            self.transport.clock.after(max(0.0, self.began_s + CALL_TIMEOUT_S - self.transport.clock.now), self._end, error)

    def drop(self) -> None:
        """Cancel the copy."""
        for flow in self.flows:
            self.transport.links.stop(flow)
        self._close()

    def _close(self) -> None:
        self.open = False
        for task in self.ends:
            task.calls.pop(self, None)
        self.flows = []  # they know the copy, and it knows who has asked for it: they would keep each other until the collector comes by
        self.ended = _tells_nobody

    def _end(self, error: BaseException | None) -> None:
        if self.open:
            ended = self.ended
            self._close()
            ended(error)


def _tells_nobody(_: BaseException | None) -> None:
    """The end of a copy that is over."""
