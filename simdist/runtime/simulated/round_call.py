"""The call by which the coordinator lets all servers apply a round; it is repeated until each of them has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simdist.errors import TimedOutError, UnavailableError
from simdist.runtime.serving import Round
from simdist.runtime.simulated.calls import Call, CallPlan, ServerCall
from simdist.runtime.simulated.legs import Leg
from simdist.runtime.simulated.rounds import RoundServer
from simdist.runtime.simulated.served import Served
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.world import World
from simdist.runtime.work import Returned
from simdist.simulation.fiber import Gate
from simdist.trace.records import NO_CAUSE

__all__ = ["ApplyingRound"]

# So long the coordinator waits before it calls again a server that was down, or whose answer was lost.
REPEAT_S = 0.5


class RoundCall(Call):
    """One attempt to reach all servers; as `RoundCaller`."""

    __slots__ = ("complete", "processes", "rounds")

    def __init__(self, world: World, plan: CallPlan, replied: ApplyingRound, complete: Round, rounds: Mapping[str, RoundServer]) -> None:
        super().__init__(world.transport, world.chief, plan, replied)
        self.complete = complete
        self.rounds = rounds
        for legs in plan.legs:
            world.transport.send(legs, self, self._received)

    def _received(self, legs: Sequence[Leg]) -> None:
        for leg in legs:
            self._received_by(leg)

    def _received_by(self, leg: Leg) -> None:
        server = leg.target
        if not self.open:
            return
        if not server.alive:
            self.refused(leg)
        elif server.held is not None:
            server.held.append((self._received_by, leg))
            self.silenced(leg)
        else:
            self.rounds[server.name].complete(self.complete, self, leg, server.process)

    def applied(self, leg: Leg, record: int) -> None:
        """A server has applied the round: its word goes back."""
        part: ServerCall = leg.content
        if self.open:
            # Until its word has come, a crash of the server is a reason to call it again.
            self.transport.post(part.back, self._confirmed, (leg.target, record), lambda _: self.silenced(part.back))

    def _confirmed(self, word: tuple[Task, int]) -> None:
        server, record = word
        if server.calls.pop(self, self) is None:
            self.left -= 1
        if record != NO_CAUSE:
            self.cause = record
        if self.left == 0 and self.open:
            self.close()
            self.replied.answered(self)


class ApplyingRound:
    """A round that the servers apply; as `Handle`, without a value.

    Args:
        world: where they are.
        served: the servers.
        complete: the round.
    """

    value: Returned = None

    def __init__(self, world: World, served: Served, complete: Round) -> None:
        self.world = world
        self.served = served
        self.complete = complete
        self.error: BaseException | None = None
        self.is_over = False
        self._began_s = world.now
        self._listeners: list[Callable[[], None]] = []
        parts: list[ServerCall] = []
        for name in served.rounds:
            server, routes = world.tasks[name], world.routes
            part = ServerCall(world.servers[name], (), None)
            parts.append(part.travel(routes.word(world.chief, server, "round"), routes.word(server, world.chief, "round_reply")))
        self._plan = CallPlan(parts, len(parts), len(parts))
        self._call(None)

    def _call(self, _: object) -> None:
        if self.world.chief.alive:
            RoundCall(self.world, self._plan, self, self.complete, self.served.rounds)

    def answered(self, call: Call) -> None:
        """All have applied it."""
        self.world.chief.processor.last = call.cause
        call.plan.take_apart()
        self._end(None)

    def unanswered(self, call: Call, error: BaseException) -> None:
        """One has not answered: it is called again, unless what it held is lost."""
        servers, pause_s = call.plan.servers, None
        if isinstance(error, TimedOutError) or (isinstance(error, UnavailableError) and self.served.comes_back(call.plan.parts)):
            pause_s = self.served.repeats_after_s(servers, self._began_s, self.world.now, REPEAT_S)
        if pause_s is None:
            self._end(self.served.explained(error, call.plan.parts))
        else:
            self.world.clock.after(pause_s, self._call)

    def _end(self, error: BaseException | None) -> None:
        self.error, self.is_over = error, True
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def then(self, replied: Callable[[], None]) -> None:
        """Call a function when all have applied it."""
        if self.is_over:
            replied()
        else:
            self._listeners.append(replied)

    def wait(self) -> Returned:
        """Block until all have applied it."""
        gate = Gate(self.world.clock)
        self.then(gate.open)
        gate.wait(f"round {self.complete.clock}")
        if self.error is not None:
            raise self.error

    def accept(self) -> None:
        """Nothing travelled with it."""
