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
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Life, Task
from simdist.runtime.simulated.transport import Leg, Transport
from simdist.simulation.network import Flow

__all__ = ["CALL_TIMEOUT_S", "Call", "Part", "Plan", "Pushing", "Reading", "Replied"]

CALL_TIMEOUT_S = 30.0


class Replied(Protocol):
    """Who has made a call, and goes on when it has ended."""

    def answered(self, call: Any) -> None: ...
    def unanswered(self, call: Any, error: BaseException) -> None: ...


class Server(Protocol):
    """What answers calls on a task (`simdist.runtime.simulated.server_loop`)."""

    def answer(self, groups: Sequence[tuple[int, int]], found: list[Any], versions: list[int]) -> UnavailableError | None: ...
    def receive(self, push: Pushing, part: Part, life: Life) -> None: ...


@dataclass(eq=False, slots=True)
class Part:
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
    place: int = 0
    there: Leg = field(init=False)
    back: Leg = field(init=False)


class Plan:
    """The parts of a call, those with equal latencies together.

    Args:
        parts: at the servers.
        count: of groups that are read, or changed.
        elsewhere: how many of them lie at the servers.
    """

    def __init__(self, parts: Sequence[Part], count: int, elsewhere: int) -> None:
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
        self.began_s = transport.clock.env._now
        self.left = len(plan.parts)
        self.flows: list[Flow] = []
        self.open = True
        self.timed = False
        client.sequence += 1
        self.identity = (client.name, client.life.incarnation, client.sequence)
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
            now = self.transport.clock.env._now
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


class Reading(Call):
    """Reads groups from servers.

    Attributes:
        groups: which, by place.
        found: the versions, by place.
        versions: their numbers, by place.
    """

    __slots__ = ("found", "groups", "versions")

    def __init__(self, transport: Transport, client: Task, plan: Plan, replied: Replied, groups: tuple[int, ...]) -> None:
        super().__init__(transport, client, plan, replied)
        self.groups = groups
        self.found: list[Bundle | None] = [None] * plan.count
        self.versions = [0] * plan.count
        for legs in plan.legs:
            transport.send(legs, self, self._asked)

    def _asked(self, legs: Sequence[Leg]) -> None:
        back: list[Leg] = []
        for leg in legs:
            part: Part = leg.content
            if not leg.target.life.alive:
                self.refused(leg)
            elif leg.target.held is not None:
                leg.target.held.append((self._asked_late, leg))
                self.silenced(leg)
            else:
                error = part.server.answer(part.groups, self.found, self.versions)
                if error is not None:
                    self.transport.clock.after(part.back.latency_s, self.fail, error)
                back.append(part.back)
        if back:
            self.transport.send(back, self, self._arrived)

    def _asked_late(self, leg: Leg) -> None:
        if self.open:
            self._asked([leg])

    def leaving(self, legs: Sequence[Leg]) -> Sequence[Leg]:
        # A server that has crashed since it was asked has forgotten this call.
        return [leg for leg in legs if self in leg.source.calls]

    def _arrived(self, leg: Leg) -> None:
        # From here on a crash of this server does not matter; before, it takes back what was on its way.
        if leg.source.calls.pop(self, self) is not None:
            return
        self.left -= 1
        if self.left == 0:
            self._found(None)

    def _found(self, _: Any) -> None:
        if self.client.held is not None:
            self.client.held.append((self._found, None))
        elif self.open:
            self.close()
            self.replied.answered(self)


class Pushing(Call):
    """Pushes one update to servers; `operands` are the numbers, by place.

    Attributes:
        priced: the prices of its program.
        read_versions: what its step has read last, by group.
        step: of the client, for error messages.
        lives: of the servers to which bytes have left, until they have confirmed.
    """

    __slots__ = ("confirmations", "confirmed_s", "lives", "operands", "priced", "read_versions", "step")

    def __init__(
        self,
        transport: Transport,
        client: Task,
        plan: Plan,
        replied: Replied,
        operands: Sequence[Bundle],
        priced: PricedProgram,
        read_versions: dict[int, int],
    ) -> None:
        super().__init__(transport, client, plan, replied)
        self.operands = operands
        self.priced = priced
        self.read_versions = read_versions
        self.step = client.steps
        self.confirmed_s = 0.0
        self.confirmations: list[tuple[Leg, float]] = []  # the words of servers, and when they left
        self.lives: dict[Leg, Life] = {}
        for legs in plan.legs:
            transport.send(legs, self, self._received)

    def leaving(self, legs: Sequence[Leg]) -> Sequence[Leg]:
        going: list[Leg] = []
        for leg in legs:
            if leg.target.life.alive:
                self.lives[leg] = leg.target.life
                going.append(leg)
            else:
                self.refused(leg)
        return going

    def _received(self, leg: Leg) -> None:
        life = self.lives.get(leg)
        if life is None or not (self.open and life.alive):
            return
        if leg.target.held is not None:
            leg.target.held.append((self._received, leg))
            self.silenced(leg)
            return
        try:
            leg.content.server.receive(self, leg.content, life)
        except Exception as error:
            self.fail(error)  # to whoever waits; nobody can catch it here

    def confirm(self, part: Part, applied_s: float) -> None:
        """A server has applied its part: the word of it is on its way."""
        part.there.target.calls.pop(self, None)
        if self.transport.blocked and not self.transport.passes(part.back):
            self.silenced(part.back)
            return
        if self.lives.pop(part.there, None) is None:
            return  # it was confirmed before, and must not stand for another part
        self.confirmations.append((part.back, applied_s))
        confirmed_s = applied_s + part.back.latency_s
        if confirmed_s > self.confirmed_s:
            self.confirmed_s = confirmed_s
        self.left -= 1
        if self.left == 0:
            self.transport.clock.after(self.confirmed_s - applied_s, self._confirmed)

    def _confirmed(self, _: Any) -> None:
        for back, sent_s in self.confirmations if self.transport.cut_s else ():
            if self.transport.was_cut(back, sent_s):
                self.silenced(back)
                return
        if self.client.held is not None:
            self.client.held.append((self._confirmed, None))
        elif self.open:
            self.close()
            self.replied.answered(self)
