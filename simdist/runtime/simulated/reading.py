"""A call that asks servers for the present versions of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simdist.program.values import Bundle
from simdist.runtime.simulated.calls import Call, Plan, Replied, ServerCall
from simdist.runtime.simulated.task import Task
from simdist.runtime.simulated.transport import Leg, Transport

__all__ = ["Reading"]


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
            part: ServerCall = leg.content
            if not leg.target.process.alive:
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
