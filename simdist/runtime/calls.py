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
from typing import TYPE_CHECKING, Any

from simdist.errors import UnavailableError
from simdist.program.values import Bundle
from simdist.runtime.linked import Apply
from simdist.runtime.task import Life, Task
from simdist.simulation.network import Flow
from simdist.variables.state import Group

if TYPE_CHECKING:
    from simdist.runtime.simulated import SimulatedRuntime

__all__ = ["Call", "Pushing", "Reading"]


class Call:
    """A call in flight. `gate` opens when it is answered, or fails when a server is down."""

    __slots__ = ("__weakref__", "client", "flows", "gate", "left", "open", "runtime", "servers")

    def __init__(self, runtime: SimulatedRuntime, client: Task, servers: Sequence[Task]) -> None:
        self.runtime = runtime
        self.client = client
        self.servers = servers
        self.left = len(servers)
        self.gate = runtime.clock.gate()
        self.flows: list[Flow] = []
        self.open = True
        client.calls[self] = None
        for server in servers:
            server.calls[self] = None

    def close(self) -> None:
        """The call is over: nobody waits for anything of it."""
        self.open = False
        self.client.calls.pop(self, None)
        for server in self.servers:
            server.calls.pop(self, None)

    def lost(self, task: Task) -> None:
        """A task of this call has died."""
        if task is self.client:
            self._drop()
        else:
            self.runtime.clock.after(self.runtime.latency(task, self.client), self._fail, task)

    def refused(self, server: Task) -> None:
        """The server was down when the call arrived: a reset comes back."""
        self.runtime.clock.after(self.runtime.latency(server, self.client), self._fail, server)

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


class Reading(Call):
    """Reads groups from servers.

    Args:
        parts: for each server what is read there: groups with their places in the result, and the bytes of all.
        count: how many groups there are in all.

    Attributes:
        found: the versions, by place.
        versions: their numbers, by place.
    """

    __slots__ = ("found", "parts", "versions")

    def __init__(self, runtime: SimulatedRuntime, client: Task, parts: Sequence[ReadPart], count: int) -> None:
        super().__init__(runtime, client, [part[0] for part in parts])
        self.found: list[Bundle | None] = [None] * count
        self.versions = [0] * count
        for delay_s, wave in by_delay(parts, [runtime.latency(client, part[0]) for part in parts]):
            runtime.clock.after(delay_s, self._asked, wave)

    def _asked(self, wave: Sequence[ReadPart]) -> None:
        if not self.open:
            return
        runtime, client, answered = self.runtime, self.client, list[ReadPart]()
        for part in wave:
            server, groups, _ = part
            if not server.life.alive:
                self.refused(server)
                continue
            try:
                for group, place in groups:
                    self.found[place] = group.present()
                    self.versions[place] = group.version
                answered.append(part)
            except UnavailableError as error:
                runtime.clock.after(runtime.latency(server, client), self.fail, error)
        for delay_s, answers in by_delay(answered, [runtime.latency(part[0], client) for part in answered]):
            runtime.clock.after(delay_s, self._answer, answers)

    def _answer(self, wave: Sequence[ReadPart]) -> None:
        if self.open:
            client, arrived = self.client, self._arrived
            self.flows += self.runtime.transfer([(server, client, size, arrived, None) for server, _, size in wave])

    def _arrived(self, _: Any) -> None:
        self.left -= 1
        if self.left == 0 and self.open:
            self.close()
            self.gate.open()


# A server, the groups that are read there with their places, their bytes.
ReadPart = tuple[Task, list[tuple[Group, int]], int]


class Pushing(Call):
    """Pushes one update to servers."""

    __slots__ = ("confirmed_s", "task", "updates")

    def __init__(self, task: Any, updates: Sequence[PushPart]) -> None:
        runtime: SimulatedRuntime = task.runtime
        super().__init__(runtime, task.task, [update[0] for update in updates])
        self.task = task
        self.confirmed_s = 0.0
        for delay_s, wave in by_delay(updates, [runtime.latency(task.task, update[0]) for update in updates]):
            runtime.clock.after(delay_s, self._begin, wave)

    def _begin(self, wave: Sequence[PushPart]) -> None:
        if not self.open:
            return
        runtime, client, received, flows = self.runtime, self.client, self._received, list[Any]()
        for update in wave:
            server = update[0]
            if server.life.alive:
                flows.append((client, server, update[1].size_bytes, received, (update, server.life)))
            else:
                self.refused(server)
        self.flows += runtime.transfer(flows)

    def _received(self, arrived: tuple[PushPart, Life]) -> None:
        update, life = arrived
        if self.open and life.alive:
            clock = self.runtime.clock
            now = clock.env._now
            start, end = update[0].occupy(now, update[1].cost)
            clock.after(end - now, self._apply, (update, life, start, end))

    def _apply(self, done: tuple[PushPart, Life, float, float]) -> None:
        (server, part, bundle), life, start, end = done
        # An update of an incarnation that is dead by now is refused: nobody waits for it any more.
        if not self.open or not life.alive:
            return
        try:
            self.task.commit(server, part, bundle, start, end)
        except UnavailableError as error:
            self.runtime.clock.after(self.runtime.latency(server, self.client), self.fail, error)
            return
        server.calls.pop(self, None)
        self.confirmed_s = max(self.confirmed_s, end + self.runtime.latency(server, self.client))
        self.left -= 1
        if self.left == 0:
            self.runtime.clock.after(self.confirmed_s - end, self._confirmed)

    def _confirmed(self, _: Any) -> None:
        if self.open:
            self.close()
            self.gate.open()


# A server, what is done there, and with which numbers.
PushPart = tuple[Task, Apply, Bundle]


def by_delay(items: Sequence[Any], delays_s: Sequence[float]) -> list[tuple[float, Sequence[Any]]]:
    """Items that wait equally long, together."""
    if not items:
        return []
    if all(delay_s == delays_s[0] for delay_s in delays_s):
        return [(delays_s[0], items)]
    waves: dict[float, list[Any]] = {}
    for item, delay_s in zip(items, delays_s, strict=True):
        waves.setdefault(delay_s, []).append(item)
    return list(waves.items())
