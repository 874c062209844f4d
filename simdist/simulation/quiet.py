"""Flows that have all their links for themselves, in closed form.

Most transfers are alone: when they start, all their links are idle, and the moments at which they end are known at
once (`course.py`). So one event stands for each end, or one for all of them, and no link keeps a queue. When another
transfer comes to one of the links, the rest goes on as ordinary flows.

Invariants:

- The ends are those that ordinary flows would have had, to the last bit, also when another transfer comes.
- `link.quiet` is set from the start to the last end, or until another transfer comes, on all links of a course and on no other.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from math import inf
from typing import Any

from simpy.events import NORMAL

from simdist.simulation.course import Course
from simdist.simulation.links import Flow, Link
from simdist.simulation.settlement import Settlement

__all__ = ["ClosedForm", "QuietFlows", "let_go"]


class QuietFlows:
    """The loads of a course on their way.

    Attributes:
        done: is called with each load at its end; or
        all_done: with all of them at the last end.
        began_s: when the present stage began; with `all_done`, the first.
        stage: the present one; with `all_done`, the first.
        untold: loads that end at this moment and whose receivers do not know yet, the first one last.
        due_s: when the next event is; infinite when it stands for nothing any more.
        sequence: of the first flow.
        is_new: whether other events of the moment of their start may start flows on their links.
        is_quiet: whether no other transfer has come to their links, and they have not ended.
        flows: what they have become when another transfer came.
    """

    __slots__ = ("all_done", "began_s", "course", "done", "due_s", "flows", "is_new", "is_quiet", "sequence", "stage", "untold")

    def __init__(
        self, course: Course, done: Callable[[Any], object], all_done: Callable[[Any], object] | None, now: float, sequence: int
    ) -> None:
        self.course = course
        self.done = done
        self.all_done = all_done
        self.began_s = now
        self.sequence = sequence
        self.stage = 0
        self.untold: list[int] = []
        self.is_new = False
        self.is_quiet = True
        self.flows: list[Flow] = []
        if all_done is None:
            now += course.seconds[0]
        else:
            for seconds in course.seconds:
                now += seconds
        self.due_s = now

    def present(self, now: float) -> tuple[int, float, float]:
        """The stage at a moment, its beginning and its end in seconds.

        An end that has no event of its own comes after all else that happens in its moment: what was planned before a message
        was sent, such as a fault, would come before its end.
        """
        stage, began_s, seconds = self.stage, self.began_s, self.course.seconds
        if stage == len(seconds):
            return stage, began_s, began_s
        ends_s = began_s + seconds[stage]
        while self.all_done is not None and ends_s < now and stage + 1 < len(seconds):
            stage, began_s = stage + 1, ends_s
            ends_s = began_s + seconds[stage]
        return stage, began_s, ends_s

    def arrived(self, now: float) -> list[int]:
        """Loads that have ended, in this order."""
        stage, _, _ = self.present(now)
        return [number for ending in self.course.ending[:stage] for number in ending if number not in self.untold]

    def served(self, now: float) -> float:
        """The bytes that each load still under way has got."""
        stage, began_s, _ = self.present(now)
        course = self.course
        since = course.rates[stage] * (now - began_s) if stage < len(course.rates) else 0.0
        return sum(course.restarts[stage]) + course.served[stage] + since


def let_go(_: object) -> None:
    """What has ended, or was stopped, tells nobody that it has arrived."""


class ClosedForm(Settlement):
    """Flows on links, which are in closed form where they have their links for themselves."""

    def start_course(
        self, course: Course, done: Callable[[Any], object], all_done: Callable[[Any], object] | None = None
    ) -> QuietFlows | None:
        """Start the loads of a course in closed form, if their links are idle.

        Args:
            course: of the loads.
            done: is called with each load when it has arrived.
            all_done: where given, one event stands for all ends, and this is called with all loads. `done` is called only where
                another transfer comes to a link before: for those that had ended then, and for the others at their ends; it must
                start nothing (default None).

        Returns:
            The flows; None where they cannot be in closed form: then nothing was started.
        """
        if course.bottleneck is None:
            return None
        for link in course.links:
            if link.quiet is not None or link.flows or link.books:  # as `Link.is_idle`
                return None
        events = self._events
        quiet = QuietFlows(course, done, all_done, self.clock.now, next(self._sequence))
        quiet.is_new = len(course.loads) > 1 and (self._settling or (bool(events) and events[0][0] <= quiet.began_s))
        for link in course.links:
            link.quiet = quiet
        heappush(events, (quiet.due_s, NORMAL, next(self._event_numbers), self._end_stage if all_done is None else self._end_all, quiet))
        return quiet

    def _end_all(self, quiet: QuietFlows) -> None:
        """All loads have arrived."""
        all_done = quiet.all_done
        if not quiet.is_quiet or all_done is None:
            self._complete_rest(quiet)
            return
        _close(quiet)
        settling, self._settling = self._settling, True
        try:
            all_done(quiet.course.loads)
        finally:
            self._settling = settling
            if not settling and (self._changed or self._new):
                self._settle_soon()

    def _end_stage(self, quiet: QuietFlows) -> None:
        """Some of the loads have arrived."""
        if not quiet.is_quiet:
            self._complete_rest(quiet)
            return
        seconds = quiet.course.seconds
        quiet.untold = quiet.course.ending[quiet.stage][::-1]
        quiet.stage += 1
        quiet.began_s = quiet.due_s
        if quiet.stage < len(seconds):
            quiet.due_s += seconds[quiet.stage]
            heappush(self._events, (quiet.due_s, NORMAL, next(self._event_numbers), self._end_stage, quiet))
        settling, self._settling = self._settling, True  # as when a flow has ended: what starts now is settled below
        try:
            self._tell(quiet)
        finally:
            if quiet.untold and quiet.is_quiet:  # a receiver has failed
                self._unfold(quiet)
            self._settling = settling
            if not settling and (self._changed or self._new):
                self._settle_soon()

    def _complete_rest(self, quiet: QuietFlows) -> None:
        """Another transfer has come: their link may wait for this call."""
        bottleneck = quiet.course.bottleneck
        if bottleneck is not None and quiet.due_s == self.clock.now:
            self._complete(bottleneck)

    def _tell(self, quiet: QuietFlows) -> None:
        loads, untold, done = quiet.course.loads, quiet.untold, quiet.done
        is_last = quiet.stage == len(quiet.course.seconds)
        while quiet.is_quiet and untold:
            load = loads[untold.pop()]
            if is_last and not untold:
                _close(quiet)
            done(load)

    def _unfold(self, quiet: QuietFlows) -> None:
        """Let loads go on as ordinary flows, as if they had been such from the start; the caller settles."""
        course, now = quiet.course, self.clock.now
        loads, bottleneck = course.loads, course.bottleneck
        assert bottleneck is not None
        stage, began_s, ends_s = quiet.present(now)
        arrived = quiet.arrived(now)
        quiet.is_quiet = False
        for link in course.links:
            link.quiet = None
        for number in arrived:
            for link in loads[number].links:
                link.bytes_carried += loads[number].size_bytes
        gone, late = set(arrived), set(quiet.untold)
        for number, load in enumerate(loads):
            if number not in gone:
                flow = Flow(load.links, load.size_bytes, quiet.done, load, quiet.sequence + number / len(loads))
                for served in course.restarts[stage]:
                    flow.remaining -= served
                if number in late:
                    flow.remaining = course.served[stage]
                quiet.flows.append(flow)
                for link in load.links:
                    link.flows[flow] = None
        if quiet.is_new and stage == 0 and now == began_s:
            # Whoever comes in the moment of their start is shared with from the beginning.
            self._new = sorted(self._new + quiet.flows)
            quiet.due_s = inf
        else:
            if late:
                for flow in quiet.flows:
                    self._balance.enter(flow, bottleneck, now)
                bottleneck.level = course.rates[stage - 1]  # is settled when all have been told
            else:
                self._restore(quiet.flows, bottleneck, began_s)
            bottleneck.served = course.served[stage]
            bottleneck.due_s = ends_s = now if late else ends_s
            if ends_s == quiet.due_s and not late:  # that call comes in place of the one that the link would have asked for
                bottleneck.wake_s = ends_s
            else:
                quiet.due_s = inf
                self._call(bottleneck, ends_s)
        done, is_told_at_once = quiet.done, quiet.all_done is None
        quiet.untold = []
        quiet.done = quiet.all_done = let_go
        for number in () if is_told_at_once else arrived:
            done(loads[number])

    def _restore(self, flows: list[Flow], bottleneck: Link, began_s: float) -> None:
        """Bring the links into the state in which they would be since the stage began; what has changed at this moment comes after it."""
        balance, changed = self._balance, self._changed[:]
        self._changed.clear()
        for link in changed:
            link.dirty = False
        for flow in flows:
            balance.enter(flow, bottleneck, began_s)
        balance.settle(began_s)
        self._changed[:] = changed
        for link in changed:
            link.dirty = True

    def has_arrived(self, started: list[Flow | QuietFlows], argument: object) -> bool | None:
        """Whether of what was started the bytes with this argument have come; None: they are not among it. Looking changes nothing."""
        found = [come for one in started if (come := self._is_there(one, argument)) is not None]
        return any(found) if found else None

    def _is_there(self, one: Flow | QuietFlows, argument: object) -> bool | None:
        if isinstance(one, Flow):
            return one.done is None if one.argument is argument else None
        number = next((number for number, load in enumerate(one.course.loads) if load is argument), None)
        if number is None:
            return None
        if one.is_quiet:
            return number in one.arrived(self.clock.now)
        return all(flow.done is None for flow in one.flows if flow.argument is argument)  # what had ended before is no flow

    def flows_of(self, started: list[Flow | QuietFlows]) -> list[Flow]:
        """What was started, as ordinary flows from here on; those that have ended are left out."""
        flows: list[Flow] = []
        for one in started:
            if isinstance(one, Flow):
                flows.append(one)
                continue
            if one.is_quiet:
                self._unfold(one)
                if not self._settling:
                    self._settle_soon()
            flows += one.flows
        return [flow for flow in flows if flow.done is not None]


def _close(quiet: QuietFlows) -> None:
    """All have ended. Who has started them keeps them: without `let_go` the two would wait for Python's collector."""
    quiet.is_quiet = False
    quiet.done = quiet.all_done = let_go
    for link, num_bytes in quiet.course.carried:
        link.quiet = None
        link.bytes_carried += num_bytes
