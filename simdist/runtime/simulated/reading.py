"""A read: a call that asks servers for the present versions of groups."""

from __future__ import annotations

from collections.abc import Sequence

from simdist.program.values import Bundle
from simdist.runtime.simulated.calls import Call, CallPlan, Replied, ServerCall
from simdist.runtime.simulated.legs import Leg, Legs
from simdist.runtime.simulated.served import Errand
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Transport

__all__ = ["Reading"]


class Reading(Call):
    """A read of groups from servers.

    Attributes:
        groups: which, by place.
        found: the versions, by place.
        versions: their numbers, by place.
        errand: what it tells the servers; None where workers do not proceed in rounds.
    """

    __slots__ = ("errand", "found", "groups", "versions")

    def __init__(
        self,
        transport: Transport,
        client: Task,
        plan: CallPlan,
        replied: Replied,
        groups: tuple[int, ...],
        errand: Errand | None = None,
        count: int | None = None,
    ) -> None:
        super().__init__(transport, client, plan, replied)
        self.errand = errand if errand is not None and errand.rounds is not None else None
        self.groups = groups
        self.found: list[Bundle | None] = [None] * (plan.count if count is None else count)
        self.versions = [0] * len(self.found)
        for legs in plan.legs:
            transport.send(legs, self, self._asked)

    def repeat(self) -> Reading:
        """Ask once more; what lies on the client's own task stays as it was read."""
        again = Reading(self.transport, self.client, self.plan, self.replied, self.groups, self.errand)
        asked = {position for part in self.plan.parts for _, position in part.groups}
        for position, found in enumerate(self.found):
            if position not in asked:
                again.found[position], again.versions[position] = found, self.versions[position]
        return again

    def _asked(self, legs: Sequence[Leg]) -> None:
        back: list[ServerCall] = []
        for leg in legs:
            part: ServerCall = leg.content
            if not leg.target.process.alive:
                self.refused(leg)
            elif leg.target.held is not None:
                leg.target.held.append((self._asked_late, leg))
                self.silenced(leg)
            elif self.errand is not None and self._must_wait(self.errand, leg):
                pass  # it is asked again when the rounds are applied that this read needs
            elif self.repeats and all(self.found[position] is not None for _, position in part.groups):
                back.append(part)  # it was asked before, and gives the same answer
            elif (error := part.server.answer(part.groups, self.found, self.versions)) is not None:
                self.fail_later(part, error, "read_reply")
            else:
                back.append(part)
        if back:
            self.answered_now(back)
            self.transport.send(self.plan.replies(tuple(back)), self, self._arrived, self._all_arrived)

    def _must_wait(self, errand: Errand, leg: Leg) -> bool:
        rounds = errand.served.rounds.get(leg.target.name)
        return rounds is not None and rounds.wait(errand.ticket.needs, self._asked_after_rounds, leg)

    def _asked_after_rounds(self, leg: Leg) -> None:
        """The rounds are applied that this read needs: it has waited for the last change of the server."""
        self.cause = max(self.cause, leg.target.processor.last)
        self._asked_late(leg)

    def answered_now(self, parts: Sequence[ServerCall]) -> None:
        """Servers have answered these parts at this moment."""

    def _asked_late(self, leg: Leg) -> None:
        if self.open:
            self._asked([leg])

    def leaving(self, legs: Legs) -> Legs | None:
        # A server that has crashed since it was asked has forgotten this call.
        for leg in legs.all:
            if self not in leg.source.calls:
                return legs.only(lambda leg: self in leg.source.calls)
        return legs

    def lost(self, task: Task) -> None:
        # The crash of a server whose bytes have come does not matter; those that are in closed form are asked first.
        task.calls[self] = None
        self.flows[:] = self.transport.links.flows_of(self.flows)
        if task is self.client or task.calls.pop(self, self) is None:
            super().lost(task)

    def _all_arrived(self, legs: Sequence[Leg]) -> None:
        for leg in legs:
            if leg.source.calls.pop(self, self) is None:
                self.left -= 1
        if self.left == 0:
            self._found(None)

    def _arrived(self, leg: Leg) -> None:
        # From here on a crash of this server does not matter; before, it takes back what was on its way.
        if leg.source.calls.pop(self, self) is not None:
            return
        self.left -= 1
        if self.left == 0:
            self._found(None)

    def _found(self, _: object) -> None:
        if self.client.held is not None:
            self.client.held.append((self._found, None))
        elif self.open:
            self.close()
            self.replied.answered(self)
