"""Calls from a task to parameter servers: reading the present versions of groups, and pushing updates.

A call to several servers is one object: its parts travel side by side, and one gate opens when the last has come. All
parts that take equally long until their next event share that event.

- Reading: the request (no bytes) arrives one latency later; the server answers with the versions that it has then; the
  answer takes a latency and the time that its bytes need.
- Pushing: a latency, then the bytes; the server's device applies the update when it is free; the confirmation (no bytes)
  takes a latency.

A crash of a server breaks the call: its client learns of it one latency later. A crash of the client ends the call, and
what has arrived of it but was not applied yet is refused.

Not simulated: message headers, and the server's processor time for answering a read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simdist.errors import UnavailableError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.simulated.task import Life, Task
from simdist.simulation.kernel import Gate
from simdist.simulation.network import Flow, Link
from simdist.variables.state import Group

if TYPE_CHECKING:
    from simdist.runtime.simulated.engine import SimulatedRuntime

__all__ = ["Call", "Part", "Plan", "Pushing", "Reading"]


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """What a call does at one server; everything that is the same each time is worked out once.

    Attributes:
        groups: what is read, with its place in the result; or
        update: what is applied, with the operand of this place.
        route: the links that the bytes travel over.
        counted: the trace's total that counts the bytes.
        request_s, reply_s: latency to the server, and back.
    """

    server: Task
    groups: tuple[tuple[Group, int], ...]
    update: Apply | None
    place: int
    size_bytes: int
    route: tuple[Link, ...]
    counted: tuple[str, str]
    request_s: float
    reply_s: float


class Plan:
    """The parts of a call, those with equal latencies together."""

    def __init__(self, parts: Sequence[Part], count: int) -> None:
        self.parts = parts
        self.count = count
        self.size_bytes = sum(part.size_bytes for part in parts)
        self.all_travel = all(part.route and part.size_bytes > 0 for part in parts)
        self.waves: dict[tuple[float, float], list[Part]] = {}
        for part in parts:
            self.waves.setdefault((part.request_s, part.reply_s), []).append(part)


class Call:
    """A call in flight. `gate` opens when it is answered, or fails when a server is down."""

    __slots__ = ("client", "clock", "flows", "gate", "left", "open", "plan", "runtime")

    def __init__(self, runtime: SimulatedRuntime, client: Task, plan: Plan) -> None:
        self.runtime = runtime
        self.clock = runtime.clock
        self.client = client
        self.plan = plan
        self.left = len(plan.parts)
        self.gate = Gate(runtime.clock)
        self.flows: list[Flow] = []
        self.open = True
        client.calls[self] = None
        for part in plan.parts:
            part.server.calls[self] = None

    def close(self) -> None:
        """The call is over: nobody waits for anything of it."""
        self.open = False
        self.client.calls.pop(self, None)
        for part in self.plan.parts:
            part.server.calls.pop(self, None)

    def lost(self, task: Task) -> None:
        """A task of this call has died."""
        if task is self.client:
            self._drop()
        else:
            self.clock.after(self.runtime.latency(task, self.client), self._fail, task)

    def refused(self, part: Part) -> None:
        """The server was down when the call arrived: a reset comes back."""
        self.clock.after(part.reply_s, self._fail, part.server)

    def _fail(self, server: Task) -> None:
        self.fail(UnavailableError(f"{server.name} is down: the connection was reset."))

    def fail(self, error: BaseException) -> None:
        """End the call with an error at its client."""
        if self.open:
            self._drop()
            self.gate.fail(error)

    def _drop(self) -> None:
        for flow in self.flows:
            self.runtime.links.stop(flow)
        self.close()

    def _send(self, flows: list[Any], parts: Sequence[Part]) -> None:
        totals = self.runtime.trace.totals
        for part in parts:
            totals[part.counted] = totals.get(part.counted, 0) + part.size_bytes
        if not self.plan.all_travel:
            for route, size_bytes, done, argument in flows:
                if not route or size_bytes <= 0:
                    self.clock.after(0.0, done, argument)
            flows = [flow for flow in flows if flow[0] and flow[1] > 0]
        started = self.runtime.links.start_all(flows)
        self.flows = [*self.flows, *started] if self.flows else started


class Reading(Call):
    """Reads groups from servers.

    Attributes:
        found: the versions, by place.
        versions: their numbers, by place.
    """

    __slots__ = ("found", "versions")

    def __init__(self, runtime: SimulatedRuntime, client: Task, plan: Plan) -> None:
        super().__init__(runtime, client, plan)
        self.found: list[Bundle | None] = [None] * plan.count
        self.versions = [0] * plan.count
        for (request_s, _), wave in plan.waves.items():
            self.clock.after(request_s, self._asked, wave)

    def _asked(self, wave: list[Part]) -> None:
        if not self.open:
            return
        found, versions = self.found, self.versions
        for part in wave:
            if not part.server.life.alive:
                self.refused(part)
                wave = [other for other in wave if other is not part]
                continue
            for group, place in part.groups:
                found[place] = bundle = group.bundle
                versions[place] = group.version
                if bundle is None:
                    self.clock.after(part.reply_s, self.fail, group.lost_error())
        if wave:
            self.clock.after(wave[0].reply_s, self._answer, wave)

    def _answer(self, wave: list[Part]) -> None:
        if not self.open:
            return
        arrived = self._arrived
        # A server that has crashed since it was asked has forgotten this call.
        wave = [part for part in wave if self in part.server.calls]
        self._send([(part.route, part.size_bytes, arrived, part.server) for part in wave], wave)

    def _arrived(self, server: Task) -> None:
        # From here on a crash of this server does not matter; before, it takes back what was on its way.
        if server.calls.pop(self, self) is None:
            self.left -= 1
            if self.left == 0 and self.open:
                self.close()
                self.gate.open()


class Pushing(Call):
    """Pushes one update to servers; `operands` are the numbers, by place."""

    __slots__ = ("confirmed_s", "operands", "task")

    def __init__(self, task: Any, plan: Plan, operands: Sequence[Bundle]) -> None:
        super().__init__(task.runtime, task.task, plan)
        self.task = task
        self.operands = operands
        self.confirmed_s = 0.0
        for (request_s, _), wave in plan.waves.items():
            self.clock.after(request_s, self._begin, wave)

    def _begin(self, wave: list[Part]) -> None:
        if not self.open:
            return
        received, flows, sent = self._received, list[Any](), list[Part]()
        for part in wave:
            life = part.server.life
            if life.alive:
                flows.append((part.route, part.size_bytes, received, (part, life)))
                sent.append(part)
            else:
                self.refused(part)
        self._send(flows, sent)

    def _received(self, arrived: tuple[Part, Life]) -> None:
        part, life = arrived
        if self.open and life.alive:
            now = self.clock.env._now
            try:
                start, end = part.server.occupy(now, part.update.cost)  # pyright: ignore[reportOptionalMemberAccess]
            except Exception as error:
                self.fail(error)  # to whoever waits; nobody can catch it here
                return
            self.clock.after(end - now, self._apply, (part, life, start, end))

    def _apply(self, done: tuple[Part, Life, float, float]) -> None:
        part, life, start, end = done
        # An update of an incarnation that is dead by now is refused: nobody waits for it any more.
        if not self.open or not life.alive:
            return
        update = part.update
        assert update is not None
        if update.group.bundle is None:
            self.clock.after(part.reply_s, self.fail, update.group.lost_error())
            return
        try:
            self.task.commit(part.server, update, self.operands[part.place], start, end)
        except Exception as error:
            self.fail(error)
            return
        part.server.calls.pop(self, None)
        confirmed_s = end + part.reply_s
        if confirmed_s > self.confirmed_s:
            self.confirmed_s = confirmed_s
        self.left -= 1
        if self.left == 0:
            self.clock.after(self.confirmed_s - end, self._confirmed)
        for listener in self.runtime.step_ended:
            listener(part.server.name)

    def _confirmed(self, _: Any) -> None:
        if self.open:
            self.close()
            self.gate.open()
