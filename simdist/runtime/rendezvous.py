"""Where the replicas of one step meet: who has come, who is missing, and what each of them gets.

The k-th exchange of one replica meets the k-th of every other. When all have come, the transfers of a collective begin, each
rank's from the moment when it came; a rank goes on when it has what it gets. What cannot succeed fails at once, for all that
wait and all that come later, and only for that exchange:

    what happens                          what the others get
    a replica comes with other shapes     InvalidArgumentError that names both
    the time-out is over                  DeadlineExceededError that names who is missing
    a member's task dies                  UnavailableError, one latency later
    a member gives up                     its error

Taught in lesson 04.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from simdist.collectives.base import Schedule
from simdist.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from simdist.program.exchange import Exchange
from simdist.program.values import Bundle
from simdist.runtime.combining import Combiner
from simdist.runtime.simulated import SimulatedRuntime
from simdist.runtime.task import Task
from simdist.runtime.transfers import Transfers, Wiring, idle, rehearse
from simdist.simulation.kernel import Gate
from simdist.simulation.network import Link

__all__ = ["Communication", "Member", "Rendezvous", "Way"]


NETWORK = "/network"
"""Ends the lane that shows what a device exchanges while it computes."""


@dataclass(frozen=True)
class Member:
    """A replica as the others know it: its rank, its task, and the device that it computes on."""

    rank: int
    task: Task
    place: str


@dataclass(frozen=True)
class Way:
    """How some replicas carry out an exchange.

    Args:
        algorithm: its name, for people.
        schedule: whose order of additions the numbers have.
        travel: the schedule of the bytes; as a rule the same.
        places: the devices of its ranks: those of the replicas, and perhaps one more that only passes on.
        alike: other places, for which it takes equally long; empty where there are none.
    """

    algorithm: str
    schedule: Schedule
    travel: Schedule
    places: tuple[str, ...]
    alike: tuple[str, ...] = ()


class Communication(Protocol):
    """What a strategy says about exchanges.

    Attributes:
        timeout_s: how long the first to come waits for the last; None for ever.
        spare: how many of the replicas a step does not wait for.
        wired: who sends what where, for exchanges that have been seen.
        rehearsed: how long they take where nobody is in the way.
        combiner: makes the numbers.
    """

    timeout_s: float | None
    spare: int
    wired: dict[Any, Wiring]
    rehearsed: dict[Any, tuple[list[float], list[float]]]
    combiner: Combiner

    def way(self, exchange: Exchange, places: tuple[str, ...]) -> Way:
        """How the replicas at these places do it."""
        ...


@dataclass(frozen=True, slots=True)
class Coming:
    """A replica's part in an exchange.

    Attributes:
        gate: opens when it has what it gets.
        place: where the trace shows it.
        began_s: when it came.
        recorded: whether the trace learns of it without anybody waiting.
    """

    gate: Gate
    exchanging: Exchanging
    place: str
    began_s: float
    recorded: bool


class Rendezvous:
    """The exchanges of some replicas, in order.

    Args:
        runtime: where they are.
        members: by rank.
        communication: the strategy's.
        dropped: is told which replicas a step does not wait for any more.
    """

    def __init__(
        self,
        runtime: SimulatedRuntime,
        members: Sequence[Member],
        communication: Communication,
        dropped: Callable[[list[int]], None] = lambda ranks: None,
    ) -> None:
        self.runtime = runtime
        self.members = list(members)
        self.active = [member.rank for member in members]
        self.communication = communication
        self.dropped = dropped
        self.numbers = [0] * len(members)
        self.queue: list[Exchanging] = []  # those to which all have come; the first one's bytes travel
        self.pending: dict[int, Exchanging] = {}
        self.failed: dict[int, BaseException] = {}
        self.broken: BaseException | None = None
        runtime.lost.append(self._lost)

    def meet(self, rank: int, exchange: Exchange, given: Bundle, what: str = "") -> Bundle:
        """Take part in this replica's next exchange; block until it has what it gets.

        Raises:
            InvalidArgumentError, DeadlineExceededError, UnavailableError: see above.
        """
        return self.wait(self.come(rank, exchange, given))

    def come(self, rank: int, exchange: Exchange, given: Bundle, lane: str = "") -> Coming:
        """Be there for this replica's next exchange, and go on; `wait` for it later.

        Args:
            rank: of the replica.
            exchange: what it came for.
            given: its arrays.
            lane: where the trace shows it; default the replica's own device.

        Raises:
            As `meet`.
        """
        number = self.numbers[rank]
        self.numbers[rank] += 1
        error = self.broken or self.failed.get(number)
        if error is not None:
            raise error
        if number not in self.pending:
            self.pending[number] = Exchanging(self, number, exchange)
        exchanging, began_s, place = self.pending[number], self.runtime.now, lane or self.members[rank].place
        gate = exchanging.come(rank, exchange, given)
        if lane:
            gate.then(lambda gate: gate._ok and self._record(place, exchanging, began_s, waited=False))
        return Coming(gate, exchanging, place, began_s, bool(lane))

    def wait(self, coming: Coming) -> Bundle:
        """Block until the replica has what it gets."""
        began_s = self.runtime.now
        result: Bundle = self.runtime.clock.wait(coming.gate, coming.exchanging.awaited())
        if not coming.recorded:
            self._record(coming.place, coming.exchanging, coming.began_s)
        elif self.runtime.now > began_s:
            device = coming.place.removesuffix(NETWORK)
            self.runtime.trace.span(device, "wait", f"wait for {coming.exchanging.name}", began_s, self.runtime.now)
        return result

    def _record(self, place: str, exchanging: Exchanging, began: float, waited: bool = True) -> None:
        trace, now, name = self.runtime.trace, self.runtime.now, exchanging.name
        if exchanging.begun_s > began and waited:
            trace.span(place, "wait", f"wait for {name}", began, exchanging.begun_s)
        algorithm = exchanging.way.algorithm if exchanging.way else ""
        trace.span(
            place, "collective", name, max(began, exchanging.begun_s), now, bytes=exchanging.exchange.size_bytes, algorithm=algorithm
        )

    def admits(self, rank: int) -> bool:
        """Whether a replica still takes part, and exchanges can succeed."""
        return self.broken is None and rank in self.active

    def settle(self, exchanging: Exchanging, error: BaseException | None) -> None:
        """An exchange is over, for good or bad."""
        self.pending.pop(exchanging.number, None)
        if exchanging in self.queue:
            first = self.queue[0] is exchanging
            self.queue.remove(exchanging)
            if first and self.queue:
                self.queue[0].travel()
        if error is not None:
            self.failed[exchanging.number] = error

    def break_up(self, error: BaseException, spare_begun: bool = False) -> None:
        """No exchange of these members can succeed any more; with `spare_begun`, those may end to which all have come."""
        if self.broken is None:
            self.broken = error
        for exchanging in list(self.pending.values()):
            if not (spare_begun and exchanging.ranks):
                exchanging.fail(error)

    def close(self) -> None:
        """These members do not meet any more."""
        if self._lost in self.runtime.lost:
            self.runtime.lost.remove(self._lost)

    def _lost(self, task: Task) -> None:
        """A task has died: whoever talks to it learns of it one latency later."""
        if not any(member.task is task and member.rank in self.active for member in self.members):
            return
        others = [member.task for member in self.members if member.task is not task]
        error = UnavailableError(
            f"{task.name} died, and no all-reduce with it can end. Launch the mains with restart='always' to start again from the "
            "last checkpoint."
        )
        delay_s = self.runtime.latency(task, others[0]) if others else 0.0
        self.runtime.clock.after(delay_s, lambda _: self._noticed(task, error))

    def _noticed(self, task: Task, error: UnavailableError) -> None:
        if self.broken is None:
            self.runtime.trace.instant(task.name, "detect", f"{task.name} is down", self.runtime.now, reason="connection reset")
        self.break_up(error)

    def drop(self, ranks: list[int]) -> None:
        """A step goes on without these."""
        self.active = [rank for rank in self.active if rank not in ranks]
        self.dropped(ranks)


class Exchanging:
    """One exchange, from the first who comes to the last who has what it gets."""

    def __init__(self, rendezvous: Rendezvous, number: int, exchange: Exchange) -> None:
        self.rendezvous = rendezvous
        self.number = number
        self.exchange = exchange
        self.given: dict[int, Bundle] = {}
        self.gates: dict[int, Gate] = {}
        self.began_s: dict[int, float] = {}
        self.first: int | None = None
        self.begun_s = 0.0
        self.way: Way | None = None
        self.transfers: Transfers | None = None
        self.ranks: list[int] = []
        self.results: list[Bundle] = []
        self.left = 0
        self.over = False
        timeout_s = rendezvous.communication.timeout_s
        if timeout_s is not None:
            rendezvous.runtime.clock.after(timeout_s, self._expired, timeout_s)

    def come(self, rank: int, exchange: Exchange, given: Bundle) -> Gate:
        """A replica is there; its gate opens when it has what it gets."""
        gate = self.gates[rank] = self.rendezvous.runtime.clock.gate()
        if self.first is None:
            self.first = rank
        elif not exchange.agrees_with(self.exchange):
            self.fail(
                InvalidArgumentError(
                    f"{self._name(self.first)} came to {self.exchange}, but {self._name(rank)} to {exchange}, as exchange {self.number} of "
                    "their group. All replicas must build the same model and run the same step; compare their mains."
                )
            )
            return gate
        self.given[rank] = given
        active = self.rendezvous.active
        if len(self.given) >= max(1, len(active) - self.rendezvous.communication.spare * (len(active) == len(self.rendezvous.members))):
            self._begin()
        return gate

    @property
    def name(self) -> str:
        """What it is for, in traces."""
        return f"{self.exchange.kind} {self.exchange.label}".strip()

    def awaited(self) -> str:
        """What a replica waits for, in words."""
        missing = self.missing()
        return f"{self.exchange}" + (
            f", to which {', '.join(missing[:8])} {'has' if len(missing) == 1 else 'have'} not come" if missing else ""
        )

    def missing(self) -> list[str]:
        """Who has not come."""
        return [self._name(rank) for rank in self.rendezvous.active if rank not in self.gates]

    def _name(self, rank: int) -> str:
        member = self.rendezvous.members[rank]
        return member.place if member.place != member.task.name else member.task.name

    # -- the collective -------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        rendezvous, exchange = self.rendezvous, self.exchange
        self.ranks = sorted(self.given)
        late = [rank for rank in rendezvous.active if rank not in self.given]
        if late:
            rendezvous.drop(late)
        places = tuple(rendezvous.members[rank].place for rank in self.ranks)
        communication = rendezvous.communication
        self.way = communication.way(exchange, places)
        now = rendezvous.runtime.now
        where = (places[0], rendezvous.members[self.ranks[0]].task.steps, now)
        given = [self.given[rank] for rank in self.ranks]
        # Where gradients of some are dropped, those of the others stand for them.
        scale = len(rendezvous.members) / len(places) if communication.spare and exchange.label == "gradients" else 1
        self.results = communication.combiner.results(exchange, self.way.schedule, given, scale, where)
        self.left = len(places)
        rendezvous.queue.append(self)
        if len(rendezvous.queue) == 1:
            self.travel()

    def travel(self) -> None:
        """Send the bytes, when the exchanges before have ended; where nobody is in the way, as it was rehearsed."""
        way = self.way
        assert way is not None
        runtime = self.rendezvous.runtime
        self.begun_s = runtime.now
        wiring = self._wiring(way, way.alike or way.places)
        for place, num_bytes in zip(way.places, wiring.bytes_sent, strict=True):
            if num_bytes:
                runtime.trace.total(place, "bytes_sent", num_bytes)
        carried = self._carried(way, wiring)
        alone = len(runtime.clock.fibers) <= len(self.rendezvous.members) and idle(list(carried))
        if alone and not (way.alike and len({link.bandwidth_bytes_per_s for link in carried}) > 1):
            self._as_rehearsed(wiring, carried)
            return
        real = self._wiring(way, way.places) if way.alike else wiring
        self.transfers = Transfers(runtime.clock, runtime.links, real, self._done)
        for place in range(len(way.places)):
            self.transfers.begin(place)

    def _wiring(self, way: Way, places: tuple[str, ...]) -> Wiring:
        known, runtime = self.rendezvous.communication.wired, self.rendezvous.runtime
        key = (way.travel.kind, way.travel.algorithm, places, self.exchange.size_bytes)
        if key in known:
            return known[key]
        made = Wiring(way.travel, lambda a, b: runtime.between(places[a], places[b]), self._size_bytes(len(self.ranks)))
        if not way.alike or places == way.alike:
            # Whoever is dropped differs from step to step: only what comes again is kept.
            known[key] = made
        return made

    def _carried(self, way: Way, wiring: Wiring) -> dict[Link, float]:
        """What each link will carry, on the links of these places."""
        if not way.alike:
            return wiring.carried
        fabric, here = self.rendezvous.runtime.fabric, dict(zip(way.alike, way.places, strict=True))
        named = ((link.name.rpartition("/"), num_bytes) for link, num_bytes in wiring.carried.items())
        return {fabric.link(f"{here[place]}/{port}"): num_bytes for (place, _, port), num_bytes in named}

    def _as_rehearsed(self, wiring: Wiring, carried: dict[Link, float]) -> None:
        rehearsed, capacities = self.rendezvous.communication.rehearsed, [link.bandwidth_bytes_per_s for link in carried]
        known = rehearsed.get(wiring)
        if known is None or known[0] != capacities:
            known = rehearsed[wiring] = (capacities, rehearse(wiring))
        for link, num_bytes in carried.items():
            link.bytes_carried += num_bytes
        for place, seconds in enumerate(known[1]):
            self.rendezvous.runtime.clock.after(seconds, self._done, place)

    def _size_bytes(self, ranks: int) -> float:
        """The data of one rank, as the schedule's chunks count it."""
        return self.exchange.size_bytes * (ranks if self.exchange.kind == "all_gather" else 1)

    def _done(self, place: int) -> None:
        if self.over or place >= len(self.ranks):
            return
        self.left -= 1
        if self.left == 0:
            self.over = True
            self.rendezvous.settle(self, None)
        self.gates[self.ranks[place]].open(self.results[place])

    # -- failures -------------------------------------------------------------------------------------------------

    def _expired(self, timeout_s: float) -> None:
        if not self.over and not self.ranks:
            missing = self.missing()
            self.fail(
                DeadlineExceededError(
                    f"{self.exchange} was given up after {timeout_s:g} s: {', '.join(missing)} did not come. Look at what "
                    f"{'it does' if len(missing) == 1 else 'they do'} instead, or raise timeout_seconds."
                )
            )

    def fail(self, error: BaseException) -> None:
        """Nobody gets anything."""
        if self.over:
            return
        self.over = True
        if self.transfers is not None:
            self.transfers.stop()
        self.rendezvous.settle(self, error)
        for gate in self.gates.values():
            if gate.callbacks is not None:
                gate.fail(error)
