"""The commands of a run that are still to come, and when their time is: between which two events.

A command has its second. One that was done in another run of the program also has the number of events before it, so that it is done
between the same two events; both count from the start. A command that is due is done before the next event, and virtual time stands at its
second then, or at that of the next event, whichever is first.
"""

from __future__ import annotations

from collections.abc import Sequence

from simdist.session.commands import Command
from simdist.simulation.kernel import Clock

__all__ = ["Agenda"]

# Events that may happen before commands of other threads are looked after.
SLICE_EVENTS = 2_000


class Agenda:
    """What is still to be done in a run.

    Args:
        clock: of the run.
        commands: in order.

    Attributes:
        waiting: those that are still to come.
    """

    def __init__(self, clock: Clock, commands: Sequence[Command]) -> None:
        self._clock = clock
        self.waiting = list(commands)

    def go_by_time(self) -> None:
        """Let what is still to come, come at its second: after a command that was not foreseen, other events happen before it."""
        self.waiting = [command.by_time() for command in self.waiting]

    def next_s(self) -> float:
        """When the next event comes; the present second where none is to come."""
        return self._clock.queue[0][0] if self._clock.queue else self._clock.now

    def stand_at(self, now_s: float) -> None:
        """Let virtual time go on to a second, though not beyond the next event, nor beyond a command that comes before it."""
        command, now = self.due(), self._clock.now
        until_s = self.next_s() if command is None else self.second_of(command)
        self._clock.stand_at(min(max(now_s, now), max(until_s, now)))

    def until_a_command(self, most_events: int, until_s: float) -> tuple[int, float]:
        """How many of so many events may happen, and until which second of those before another one, so that no command is late."""
        most_events = min(most_events, SLICE_EVENTS)
        if self.waiting:
            command = self.waiting[0]
            until_s = min(until_s, command.at_s)
            if command.after_events is not None:
                most_events = min(most_events, max(1, command.after_events - self._clock.events))
        return most_events, until_s

    def due(self) -> Command | None:
        """The command whose time it is."""
        if not self.waiting:
            return None
        command = self.waiting[0]
        if command.after_events is not None and self._clock.events >= command.after_events:
            return command
        # Also where fewer events have happened: then the program is another one, and waits for ever for the rest.
        return command if self.next_s() > command.at_s or not self._clock.queue else None

    def second_of(self, command: Command) -> float:
        """At which second a command is done that is due: its own, unless the next event comes before."""
        return min(command.at_s, self.next_s()) if self._clock.queue else command.at_s
