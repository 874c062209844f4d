"""A call that sends servers their parts of an update, and waits until they have confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.values import Bundle
from simdist.runtime.simulated.calls import Call, Plan, Replied, ServerCall
from simdist.runtime.simulated.pricing import PricedProgram
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.runtime.simulated.transport import Leg, Transport

__all__ = ["Pushing"]


class Pushing(Call):
    """Pushes one update to servers; `operands` are the numbers, by place.

    Attributes:
        priced: the prices of its program.
        read_versions: what its step has read last, by group.
        step: of the client, for error messages.
        processes: of the servers to which bytes have left, until they have confirmed.
    """

    __slots__ = ("confirmations", "confirmed_s", "operands", "priced", "processes", "read_versions", "step")

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
        self.processes: dict[Leg, Incarnation] = {}
        for legs in plan.legs:
            transport.send(legs, self, self._received)

    def leaving(self, legs: Sequence[Leg]) -> Sequence[Leg]:
        going: list[Leg] = []
        for leg in legs:
            if leg.target.process.alive:
                self.processes[leg] = leg.target.process
                going.append(leg)
            else:
                self.refused(leg)
        return going

    def _received(self, leg: Leg) -> None:
        process = self.processes.get(leg)
        if process is None or not (self.open and process.alive):
            return
        if leg.target.held is not None:
            leg.target.held.append((self._received, leg))
            self.silenced(leg)
            return
        try:
            leg.content.server.receive(self, leg.content, process)
        except Exception as error:
            self.fail(error)  # to whoever waits; nobody can catch it here

    def confirm(self, part: ServerCall, applied_s: float) -> None:
        """A server has applied its part: the word of it is on its way."""
        part.there.target.calls.pop(self, None)
        if self.transport.blocked and not self.transport.passes(part.back):
            self.silenced(part.back)
            return
        if self.processes.pop(part.there, None) is None:
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
