"""Calls from a task to the servers of variables: reading the present versions of groups, and pushing updates.

A call to several servers is one object: its parts travel side by side, and it ends when the last has come. All parts that take
equally long until their next event share that event.

- Reading: the request (a word) arrives one latency later; the server answers with the versions that it has then; the
  answer takes a latency and the time that its bytes need.
- Pushing: a latency, then the bytes; the server applies the update when its device is free (`server_loop.py`); the confirmation (a
  word) takes a latency.

A crash of a server breaks the call: its client learns of it one latency later. A crash of the client ends the call, and what has
arrived of it but was not applied yet is refused. Where a message is lost, nobody says so: the call ends `CALL_TIMEOUT_S` after it began.

Not simulated: message headers, and the server's processor time for answering a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from simdist.errors import TimedOutError, UnavailableError
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transport import Leg, Transport
from simdist.simulation.network import Flow

__all__ = ["CALL_TIMEOUT_S", "Call", "ServerCall", "Plan", "Replied"]

CALL_TIMEOUT_S = 30.0


class Replied(Protocol):
    """Who has made a call, and goes on when it has ended."""

    def answered(self, call: Any) -> None: ...
    def unanswered(self, call: Any, error: BaseException) -> None: ...


class Server(Protocol):
    """What answers calls on a task (`simdist.runtime.simulated.server_loop`)."""

    def answer(self, groups: Sequence[tuple[int, int]], found: list[Any], versions: list[int]) -> UnavailableError | None: ...
    def receive(self, push: Any, part: ServerCall, process: Incarnation) -> None: ...


@dataclass(eq=False, slots=True)
class ServerCall:
    """What a call does at one server; everything that is the same each time is worked out once.

    Attributes:
        server: answers.
        groups: what is read, with its place in the result; or
        update: what is applied, with the operand of this place.
        there, back: the legs to the server and back: those of a read are a word and bytes, those of a push bytes and a word.
    """

    server: Server
    groups: tuple[tuple[int, int], ...]
    update: Apply | None
    position: int = 0
    there: Leg = field(init=False)
    back: Leg = field(init=False)


class Plan:
    """The parts of a call, those with equal latencies together.

    Args:
        parts: at the servers.
        count: of groups that are read, or changed.
        elsewhere: how many of them lie at the servers.
    """

    def __init__(self, parts: Sequence[ServerCall], count: int, elsewhere: int) -> None:
        self.parts = parts
        self.count = count
        self.is_partial = elsewhere < count
        self.size_bytes = sum([part.there.size_bytes + part.back.size_bytes for part in parts])
        self.servers = [part.there.target for part in parts]
        together: dict[tuple[float, float], list[Leg]] = {}
        for part in parts:
            together.setdefault((part.there.latency_s, part.back.latency_s), []).append(part.there)
        self.legs = list(together.values())


class Call:
    """A call in flight.

    Attributes:
        identity: client, incarnation and sequence number: what a server knows a message by.
    """

    __slots__ = ("began_s", "client", "flows", "identity", "left", "open", "plan", "replied", "timed", "transport")

    def __init__(self, transport: Transport, client: Task, plan: Plan, replied: Replied) -> None:
        self.transport = transport
        self.client = client
        self.plan = plan
        self.replied = replied
        self.began_s = transport.clock.now
        self.left = len(plan.parts)
        self.flows: list[Flow] = []
        self.open = True
        self.timed = False
        client.sequence += 1
        self.identity = (client.name, client.process.incarnation, client.sequence)
        client.calls[self] = None
        for server in plan.servers:
            server.calls[self] = None

    def close(self) -> None:
        """The call is over: nobody waits for anything of it."""
        self.open = False
        self.client.calls.pop(self, None)
        for server in self.plan.servers:
            server.calls.pop(self, None)

    def drop(self) -> None:
        """Nobody needs it any more: what is on its way is stopped."""
        for flow in self.flows:
            self.transport.links.stop(flow)
        self.close()

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def lost(self, task: Task) -> None:
        """A task of this call has died."""
        if task is self.client:
            self.drop()
        else:
            back = next(part.back for part in self.plan.parts if part.there.target is task)
            if self.transport.blocked and not self.transport.passes(back):
                self.silenced(back)
            else:
                self.transport.clock.after(back.latency_s, self._reset, back)

    def refused(self, leg: Leg) -> None:
        """The server was down when the call arrived: a reset comes back."""
        self.transport.clock.after(leg.content.back.latency_s, self._reset, leg.content.back)

    def _reset(self, back: Leg) -> None:
        if self.transport.cut_s and not self.transport.arrives(back):
            self.silenced(back)
        else:
            self.fail(UnavailableError(f"{back.source.name} is down: the connection was reset."))

    def silenced(self, leg: Leg) -> None:
        """A message of it was lost, or waits where nobody answers: it ends by its time-out."""
        if not self.timed:
            self.timed = True
            other = leg.target if leg.source is self.client else leg.source
            now = self.transport.clock.now
            self.transport.clock.after(max(0.0, self.began_s + CALL_TIMEOUT_S - now), self._timed_out, other)

    def _timed_out(self, server: Task) -> None:
        why = "a message was lost, or it stands still"
        self.fail(TimedOutError(f"{server.name} did not answer {self.client.name} within {CALL_TIMEOUT_S:g} s: {why}."))

    def fail(self, error: BaseException) -> None:
        """End the call with an error at its client; one that is paused learns of it when it goes on."""
        if self.open and self.client.held is not None:
            self.client.held.append((self.fail, error))
        elif self.open:
            self.drop()
            self.replied.unanswered(self, error)
