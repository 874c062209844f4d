"""A push: a call that sends servers their parts of an update, and waits until they have confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.program.values import Bundle
from simdist.runtime.linked_rows import RowOperands
from simdist.runtime.simulated.calls import Call, CallPlan, Replied, ServerCall
from simdist.runtime.simulated.legs import Leg, Legs
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.remembered import PushIdentity
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transport import Transport
from simdist.trace.records import NO_CAUSE

__all__ = ["Pushing"]


class Pushing(Call):
    """A push of one update to servers: `operands` are the numbers, by position.

    Attributes:
        identity: what servers know it by, where closures count exactly once; None: by the marks in `applied`.
        applied: what servers have marked that they have applied, by part; shared with the calls that repeat this one.
        priced: the prices of its program.
        read_versions: what its step has read last, by group.
        received: by part, the incarnation of the server that received it last, of a push whose messages may come more than once.
        step: of the client, for error messages.
        began_after: the number of the record after which it was sent.
        processes: of the servers to which bytes have left, by their parts.
        confirmations: by part, when its server's word left, and how late that is.
        errand: what it tells the servers; None: nothing.
        rounds: of the servers that keep it for its round; None where it counts at once.
    """

    __slots__ = (
        "applied",
        "began_after",
        "confirmations",
        "confirmed_s",
        "errand",
        "identity",
        "operands",
        "priced",
        "processes",
        "read_versions",
        "received",
        "rounds",
        "step",
    )

    def __init__(
        self,
        transport: Transport,
        client: Task,
        plan: CallPlan,
        replied: Replied,
        operands: Sequence[Bundle | RowOperands],
        priced: PricedProgram,
        read_versions: dict[int, int],
        errand: Errand | None = None,
        identity: PushIdentity | None = None,
        applied: dict[ServerCall, object] | None = None,
    ) -> None:
        super().__init__(transport, client, plan, replied)
        self.errand = errand
        self.rounds = None if errand is None else errand.rounds
        self.identity = identity
        self.applied: dict[ServerCall, object] = {} if applied is None else applied
        self.operands = operands
        self.priced = priced
        self.read_versions = read_versions
        self.step = client.steps
        self.began_after = self.cause
        self.confirmed_s = 0.0
        self.confirmations: dict[ServerCall, tuple[float, float]] = {}
        self.processes: dict[ServerCall, Incarnation] = {}
        self.received: dict[ServerCall, Incarnation] = {}
        for legs in plan.legs:
            transport.send(legs, self, self._received)

    def repeat(self) -> Pushing:
        """Send it once more; servers know what they have applied."""
        return Pushing(
            self.transport,
            self.client,
            self.plan,
            self.replied,
            self.operands,
            self.priced,
            self.read_versions,
            self.errand,
            self.identity,
            self.applied,
        )

    def _is_under_way(self, part: ServerCall, leg: Leg) -> bool:
        # What has left without bytes that travel is there.
        return super()._is_under_way(part, leg) and (part not in self.processes or leg.travels)

    def leaving(self, legs: Legs) -> Legs | None:
        going = legs.only(self._leaves)
        for leg in legs.all if going is not legs else ():
            if leg.content not in self.processes:
                self.refused(leg)
        return going

    def _leaves(self, leg: Leg) -> bool:
        process = leg.target.process
        if process.alive:
            self.processes[leg.content] = process
        return process.alive

    def _received(self, leg: Leg) -> None:
        process = self.processes.get(leg.content)
        if process is None or not (self.open and process.alive):
            return
        if leg.target.held is not None:
            leg.target.held.append((self._received, leg))
            self.silenced(leg)
            return
        try:
            leg.content.server.receive(self, leg.content, process)
        except Exception as error:
            self.fail(error)  # to the caller that waits; it cannot be caught here

    def confirm(self, part: ServerCall, applied_s: float, applied: int = NO_CAUSE) -> None:
        """A server has applied its part, as this record says, or keeps it without a record: its confirmation is sent."""
        part.there.target.calls.pop(self, None)
        transport, late_s = self.transport, 0.0
        if transport.blocked or transport.disturbances.pairs:
            fates = transport.fates(part.back)
            if not fates:
                self.silenced(part.back)
                return
            late_s = min(fates)  # of several copies the first one counts
        if part in self.confirmations:
            return  # a copy came later, perhaps after this word: it must not stand for another part
        self.confirmations[part] = applied_s, late_s
        confirmed_s = applied_s + part.back.latency_s + late_s
        if confirmed_s > self.confirmed_s:
            self.confirmed_s = confirmed_s
            self.cause = applied if applied != NO_CAUSE else self.began_after
        self.left -= 1
        if self.left == 0:
            transport.clock.after(self.confirmed_s - applied_s, self._confirmed)

    def _confirmed(self, _: object) -> None:
        for part, (sent_s, late_s) in self.confirmations.items() if self.transport.cut_s else ():
            if self.transport.was_cut(part.back, sent_s, late_s):
                self.silenced(part.back)
                return
        if self.client.held is not None:
            self.client.held.append((self._confirmed, None))
        elif self.open:
            self.close()
            self.replied.answered(self)
