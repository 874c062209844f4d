"""One exchange between replicas: they come, the bytes travel, each gets what is its own; or it fails for all of them.

Taught in lesson 03.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simdist.errors import DeadlineExceededError, InvalidArgumentError
from simdist.program.exchange import Exchange
from simdist.program.values import Bundle
from simdist.runtime.simulated.members import Way
from simdist.runtime.simulated.transfers import Transfers, Wiring, idle, rehearse
from simdist.simulation.kernel import Gate
from simdist.simulation.network import Link

if TYPE_CHECKING:
    from simdist.runtime.simulated.rendezvous import Rendezvous

__all__ = ["Exchanging"]


class Exchanging:
    """One exchange, from the first who comes to the last who has what it gets."""

    def __init__(self, rendezvous: Rendezvous, number: int, exchange: Exchange) -> None:
        self.rendezvous = rendezvous
        self.number = number
        self.exchange = exchange
        self.given: dict[int, Bundle] = {}
        self.gates: dict[int, Gate] = {}
        self.first: int | None = None
        self.begun_s = 0.0
        self.way: Way | None = None
        self.transfers: Transfers | None = None
        self.ranks: list[int] = []
        self.results: list[Bundle] = []
        self.left = 0
        self.over = False
        self.watch: list[Exchanging] = []  # what the time-out finds; empty when it is over, so that nothing is kept until then
        timeout_s = getattr(exchange.options, "timeout_seconds", None) or rendezvous.communication.timeout_s
        if timeout_s is not None:
            self.watch.append(self)
            rendezvous.runtime.clock.after(timeout_s, _expired, (self.watch, timeout_s))

    def come(self, rank: int, exchange: Exchange, given: Bundle) -> Gate:
        """A replica is there; its gate opens when it has what it gets."""
        gate = self.gates[rank] = self.rendezvous.runtime.clock.gate()
        if self.first is None:
            self.first = rank
        elif not exchange.agrees_with(self.exchange):
            self.fail(
                InvalidArgumentError(
                    f"{self._name(self.first)} came to {self.exchange}, but {self._name(rank)} to {exchange}, as exchange {self.number} of "
                    f"their group. {_remedy(self.exchange, exchange)}"
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
        return self.rendezvous.members[rank].place

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
        # Where gradients of some are dropped, or their part of a mean, those of the others stand for them.
        stand_in = communication.spare and (exchange.averaged or exchange.label == "gradients")
        scale = len(rendezvous.members) / len(places) if stand_in else 1
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
        key = (id(way.travel), places, self.exchange.size_bytes)
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
            self._end(None)
        self.gates[self.ranks[place]].open(self.results[place])

    # -- failures -------------------------------------------------------------------------------------------------

    def expire(self, timeout_s: float) -> None:
        """The time-out is over; whoever has come gives up, unless all have."""
        if not self.ranks:
            missing = self.missing()
            self.fail(
                DeadlineExceededError(
                    f"{self.exchange} was given up after {timeout_s:g} s: {', '.join(missing)} did not come. Look at what "
                    f"{'it does' if len(missing) == 1 else 'they do'} instead, or raise timeout_seconds."
                )
            )

    def _end(self, error: BaseException | None) -> None:
        self.over = True
        self.watch.clear()
        self.rendezvous.settle(self, error)

    def fail(self, error: BaseException) -> None:
        """Nobody gets anything."""
        if self.over:
            return
        if self.transfers is not None:
            self.transfers.stop()
        self._end(error)
        for gate in self.gates.values():
            if gate.callbacks is not None:
                gate.fail(error)


def _expired(watched: tuple[list[Exchanging], float]) -> None:
    watch, timeout_s = watched
    for exchanging in list(watch):
        exchanging.expire(timeout_s)


def _remedy(one: Exchange, other: Exchange) -> str:
    """What to do about two exchanges that do not agree."""
    if one.kind == other.kind == "all_gather" and len(one.operands) == len(other.operands):
        return (
            "A main writes its step down before it knows the lengths of the others, so what it gathers in a step must have one shape. "
            "Return the value from the step and use strategy.gather, which joins different lengths; or pad it to a common length."
        )
    return "All replicas must build the same model and run the same step; compare their mains."
