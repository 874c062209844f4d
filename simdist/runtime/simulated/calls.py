"""Calls from a task to the servers of variables: reading the present versions of groups, and pushing updates.

A call to several servers is one object: its parts travel in parallel, and it ends when the last one has arrived. Parts whose
next events are due at the same time share one event.

- Read: the request (without bytes) arrives one latency later; the server replies with the versions that it has then; the
  reply takes a latency and the time of its bytes.
- Push: a latency, then the bytes; the server applies the update when its device is free (`server_loop.py`); the confirmation
  (without bytes) takes a latency.

A crash of a server breaks the call: its client learns of it one latency later. A crash of the client ends the call, and what has
arrived of it but was not applied yet is refused. A lost message raises no error: the call ends `CALL_TIMEOUT_S` after it began.

Not simulated: message headers, and the server's processor time for answering a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from simdist.errors import TimedOutError, UnavailableError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.legs import Leg, Legs
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transport import Transport
from simdist.simulation.network import Flow, QuietFlows

__all__ = ["CALL_TIMEOUT_S", "REPEAT_FOR_S", "Call", "ServerCall", "CallPlan", "Replied"]

CALL_TIMEOUT_S = 30.0

# So long a client goes on calling servers that should be back.
REPEAT_FOR_S = 300.0


class Replied(Protocol):
    """The caller, which goes on when its call has ended."""

    def answered(self, call: Call) -> None: ...
    def unanswered(self, call: Call, error: BaseException) -> None: ...


class Server(Protocol):
    """The half of a call that runs on a server's task (`simdist.runtime.simulated.server_loop`)."""

    def answer(self, groups: Sequence[tuple[int, int]], found: list[Bundle | None], versions: list[int]) -> UnavailableError | None: ...
    def receive(self, push: Any, part: ServerCall, process: Incarnation) -> None: ...


@dataclass(eq=False, slots=True)
class ServerCall:
    """The part of a call at one server; it is the same each time, and made once.

    Attributes:
        server: answers.
        groups: what is read, with its place in the result; or
        update: what is applied, with the operand of this place.
        there, back: the legs to the server and back: those of a read are a word and bytes, those of a push bytes and a word.
            Where the bytes differ from call to call, a call has a leg of its own in the place of one of them (`CallPlan.loaded`).
        latencies_s: of both.
    """

    server: Server
    groups: tuple[tuple[int, int], ...]
    update: Apply | None
    position: int = 0
    there: Leg = field(init=False)
    back: Leg = field(init=False)
    latencies_s: tuple[float, float] = field(init=False)

    def travel(self, there: Leg, back: Leg) -> ServerCall:
        """Give it its legs, whose content it is; returns itself."""
        self.there, self.back = there, back
        there.content = back.content = self
        self.latencies_s = there.latency_s, back.latency_s
        return self

    @property
    def touched(self) -> list[int]:
        """The groups that are read, or the one that is changed."""
        return [group for group, _ in self.groups] if self.update is None else [self.update.group]

    @property
    def loaded(self) -> Leg:
        """The leg that has the bytes."""
        return self.back if self.there.is_word else self.there


class CallPlan:
    """A call to several servers: its parts, those with equal latencies together.

    Args:
        parts: at the servers.
        count: of groups that are read, or changed.
        elsewhere: how many of them lie at the servers.
        loaded: for each part the leg with the bytes of this call (default None: those of all calls).

    Attributes:
        kind: of the spans that show such calls.
        uses: how many such calls a step has begun; a call that is repeated after an error counts once.
        legs: to the servers.
    """

    def __init__(self, parts: Sequence[ServerCall], count: int, elsewhere: int, loaded: Sequence[Leg] | None = None) -> None:
        self.parts = parts
        self.count = count
        self.is_partial = elsewhere < count
        self.kind = self.uses = 0
        self.servers = [part.there.target for part in parts]
        if loaded is None:
            loaded = [part.loaded for part in parts]
        self.size_bytes = sum([leg.size_bytes for leg in loaded])
        self._loaded = dict(zip(parts, loaded, strict=True))
        self._replies: dict[tuple[ServerCall, ...], Legs] = {}
        together: dict[tuple[float, float], list[Leg]] = {}
        for part, leg in self._loaded.items():
            there = part.there
            together.setdefault(part.latencies_s, []).append(there if there.is_word else leg)
        self.legs = list(map(Legs, together.values()))

    def loaded(self, part: ServerCall) -> Leg:
        """The leg of a part that has its bytes."""
        return self._loaded[part]

    def replies(self, parts: tuple[ServerCall, ...]) -> Legs:
        """What servers send back that have answered these parts together."""
        known = self._replies.get(parts)
        if known is None:
            known = self._replies[parts] = Legs([self._loaded[part] for part in parts])
        return known

    def take_apart(self) -> None:
        """Its parts serve no other call: they and their legs shall not keep each other until the collector comes by."""
        for part in self.parts:
            part.there.content = part.back.content = None


class Call:
    """A call that has begun and has not ended.

    Attributes:
        repeats: whether a message of it may come more than once.
        cause: the number of the last record that it waits for.
    """

    __slots__ = ("began_s", "cause", "client", "flows", "left", "open", "plan", "repeats", "replied", "timed", "transport")

    def __init__(self, transport: Transport, client: Task, plan: CallPlan, replied: Replied) -> None:
        self.transport = transport
        self.client = client
        self.plan = plan
        self.replied = replied
        self.began_s = transport.clock.now
        self.cause = client.processor.last
        self.left = len(plan.parts)
        self.flows: list[Flow | QuietFlows] = []
        self.open = True
        self.timed = False
        self.repeats = False
        client.calls[self] = None
        for server in plan.servers:
            server.calls[self] = None

    def close(self) -> None:
        """End the call: it waits for no message any more."""
        self.open = False
        self.client.calls.pop(self, None)
        for server in self.plan.servers:
            server.calls.pop(self, None)

    def drop(self) -> None:
        """Cancel the call: its messages are stopped."""
        for flow in self.flows:
            self.transport.links.stop(flow)
        self.close()

    def under_way(self) -> list[Leg]:
        """The legs whose bytes have not come, also those that servers have still to send. Looking changes nothing."""
        return [leg for part in self.plan.parts if self._is_under_way(part, leg := self.plan.loaded(part))]

    def _is_under_way(self, part: ServerCall, leg: Leg) -> bool:
        has_arrived = self.transport.links.has_arrived(self.flows, leg)
        return self in part.there.target.calls and not has_arrived

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def lost(self, task: Task) -> None:
        """End the call with an error, because a task of it has died."""
        if task is self.client:
            self.drop()
            return
        there = next(part.there for part in self.plan.parts if part.there.target is task)
        if task.process.lost:
            self.flows[:] = flows = self.transport.links.flows_of(self.flows)
            for flow in flows:
                if task in (flow.argument.source, flow.argument.target):
                    self.transport.links.stop(flow)
            self.silenced(there)
        else:
            self._reset(there)

    def refused(self, leg: Leg) -> None:
        """The server was down when a message of the call arrived: a reset comes back, unless its machine is gone."""
        if leg.target.process.lost:
            self.silenced(leg)
        else:
            self._reset(leg)

    def _reset(self, there: Leg) -> None:
        self.fail_later(there.content, UnavailableError(f"{there.target.name} is down: the connection was reset."), "reset")

    def fail_later(self, part: ServerCall, error: BaseException, kind: str) -> None:
        """An error comes from a server, or the reset of its connection; it may be lost as other messages."""
        back = part.back
        word = Leg(back.source, back.target, 0, (), back.latency_s, None, error, is_word=True, kind=kind)
        self.transport.send(Legs([word]), self, self._failed)

    def _failed(self, words: Sequence[Leg]) -> None:
        self.fail(words[0].content)

    def leaving(self, legs: Legs) -> Legs | None:
        return legs

    def repeated(self, leg: Leg) -> None:
        self.repeats = True

    def silenced(self, leg: Leg) -> None:
        """A message of the call was lost, or waits at a paused task: the call ends by its time-out."""
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
