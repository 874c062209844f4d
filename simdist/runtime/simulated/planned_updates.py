"""The updates that a server has received, and when its device will be busy with each; what changes these plans.

A plan is made when an update arrives, and the clock asks for it at its planned end. Updates that others have sent are work of the server's
process, and stand still with it: a pause puts off the end of the one that has begun, and all that wait, by its length. Where the task
becomes slower or faster, what has not begun takes longer or shorter. A plan is brought up to date when it is used.

Invariant: updates end in the order in which they arrived.

Not simulated: another pace of updates between which the device does something else, such as to repeat those of another server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TypeVar

from simdist.arguments import END_S
from simdist.runtime.simulated.calls import ServerCall
from simdist.runtime.simulated.pushing import Pushing
from simdist.runtime.simulated.task import Incarnation, Task
from simdist.simulation.kernel import Clock

__all__ = ["Planned", "PlannedUpdates"]

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Planned:
    """An update that was received, and when the device will be busy with it.

    Attributes:
        push, part, process: whose it is, which part of that, and for which incarnation.
        received_s, start_s, end_s: when it was received, and the plan.
        known: how many changes of plans are counted in it.
        is_moved: whether it may not be at its end yet when the clock asks for it.
        is_over: whether nothing more is to be done for it.
    """

    push: Pushing
    part: ServerCall
    process: Incarnation
    received_s: float
    start_s: float
    end_s: float
    known: int = 0
    is_moved: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True)
class _Change:
    """What was planned from a moment on comes later by the length of a pause, or the time from there on is stretched."""

    from_s: float
    later_s: float = 0.0
    ratio: float = 1.0

    def of(self, second: float) -> float:
        """When something happens that was planned for this second."""
        if second < self.from_s:
            return second
        return second + self.later_s if self.ratio == 1.0 else self.from_s + self.ratio * (second - self.from_s)


class PlannedUpdates:
    """The plans of one server, through all its incarnations.

    Args:
        task: the server.
        clock: of the cluster.
        due: is called with each update at its planned end, and where that was before it was put off.

    Attributes:
        num_changes: how many changes of plans there were; a plan that knows them all is right.
        waiting: updates that the device could not begin at once, and that are not over; it may have begun since.
    """

    def __init__(self, task: Task, clock: Clock, due: Callable[[Planned], None]) -> None:
        self.task = task
        self.clock = clock
        self.due = due
        self.num_changes = 0
        self._changes: list[_Change] = []
        self.waiting: deque[Planned] = deque()
        self._busy_until_s = 0.0
        self._stood_still_until_s = -1.0

    def add(self, planned: Planned) -> None:
        """Plan one more, after all others."""
        planned.known = self.num_changes
        self.occupied(planned.end_s)
        if planned.start_s > planned.received_s:
            self.waiting.append(planned)
        self.clock.after(planned.end_s - planned.received_s, self.due, planned)

    def occupied(self, end_s: float) -> None:
        """The device works until then for others, at updates or at a round: also that stands still with the process."""
        self._busy_until_s = end_s

    def forget_ended(self) -> None:
        """Keep no update that is over, and not the variables of its program."""
        while self.waiting and self.waiting[0].is_over:
            self.waiting.popleft()

    def clear(self) -> None:
        """The process has died: none of them is applied any more."""
        self.waiting.clear()

    def is_due(self, planned: Planned) -> bool:
        """Whether an update has ended, by a plan that has changed. If not, the clock will ask for it at its end."""
        self._bring_up_to_date(planned)
        left_s = planned.end_s - self.clock.now
        if left_s > 0.0:
            self.clock.after(left_s, self.due, planned)
            return False
        return True  # also if it had ended when a pause began: before what arrived after that

    def stood_still(self, from_s: float, until_s: float) -> None:
        """The task goes on after a pause: what it has received is applied later by the length of the pause."""
        self._stood_still_until_s = until_s
        self._change(_Change(from_s, until_s - from_s))

    def has_stood_still_since(self, start_s: float) -> bool:
        """Whether a pause has ended after this moment."""
        return self._stood_still_until_s > start_s

    def at_another_pace(self, change: Callable[[], T]) -> T:
        """Change how slow the task is: what its device has not begun takes as long as if it came now."""
        before, processor, now = self.task.slowness, self.task.processor, self.clock.now
        changed = change()
        ratio = self.task.slowness / before if before else 0.0
        begun_s = now if self.task.held is None else self.task.held_since_s
        waiting = [planned for planned in self.waiting if not planned.is_over and self._bring_up_to_date(planned) > begun_s]
        if not waiting or not (ratio > 0.0 and isfinite(ratio) and ratio != 1.0):
            return changed
        another = _Change(waiting[0].start_s, ratio=ratio)
        are_all = all(one.end_s == following.start_s for one, following in pairwise(waiting)) and waiting[-1].end_s == processor.free_s
        if are_all and another.of(processor.free_s) < END_S:
            self._change(another)
            for planned in waiting:
                self._bring_up_to_date(planned)
                planned.is_moved = True
                if ratio < 1.0:  # it may end before the clock asks for it
                    self.clock.after(max(0.0, planned.end_s - now), self.due, planned)
        return changed

    def _change(self, change: _Change) -> None:
        self._changes.append(change)
        self.num_changes += 1
        if self._busy_until_s > change.from_s:
            self._busy_until_s = change.of(self._busy_until_s)
            self.task.processor.free_s = change.of(self.task.processor.free_s)

    def _bring_up_to_date(self, planned: Planned) -> float:
        """Count the changes that it does not know yet; returns its start."""
        if planned.known < self.num_changes:
            for change in self._changes[planned.known :]:
                planned.start_s, planned.end_s = change.of(planned.start_s), change.of(planned.end_s)
            planned.known = self.num_changes
        return planned.start_s
