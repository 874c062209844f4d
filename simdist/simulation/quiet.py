"""Flows that have all their links for themselves, in closed form.

Most transfers meet nobody: when they start, all their links are idle. Where one link limits all flows of such a transfer
from its start to its end, the moments at which they end are known at once: with n flows under way each gets the n-th
part of that link, and the next one to end is the shortest. So one event stands for each end, or one for all of them, and
no link keeps a queue. When somebody else comes to one of the links, the rest goes on as ordinary flows (`SharedLinks`).

Invariant: the ends are those that ordinary flows would have had, to the last bit, because they are worked out by the same
operations in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappush
from typing import Any, Protocol

from simpy.events import NORMAL

from simdist.simulation.kernel import Clock
from simdist.simulation.links import Flow, Link

__all__ = ["ClosedForm", "Course", "Load", "QuietFlows", "let_go"]


class Load(Protocol):
    """Bytes that are to travel, and the links of their route: one or more, each once."""

    @property
    def links(self) -> tuple[Link, ...]: ...
    @property
    def size_bytes(self) -> float: ...


class Course:
    """The course of some loads that start together on idle links: worked out once, for as long as no bandwidth changes.

    Args:
        loads: that start together.
        epoch: of the bandwidths.

    Attributes:
        links: all links, each once.
        carried: the bytes that each link carries in all.
        bottleneck: the link that limits all flows from start to end; None where there is no such link.
        stages: for each end: the bytes that a flow has got then, those since the end before, the rate of a flow in
            bytes per second, and which loads end.
    """

    __slots__ = ("bottleneck", "carried", "epoch", "links", "loads", "stages")

    def __init__(self, loads: Sequence[Load], epoch: int) -> None:
        self.loads = loads
        self.epoch = epoch
        carried: dict[Link, float] = {}
        for load in loads:
            for link in load.links:
                carried[link] = carried.get(link, 0.0) + load.size_bytes
        self.links = list(carried)
        self.carried = list(carried.items())
        self.bottleneck = _narrowest(loads)
        self.stages: list[tuple[float, float, float, list[int]]] = []
        if self.bottleneck is not None and not self._find_stages(self.bottleneck):
            self.bottleneck = None

    def _find_stages(self, bottleneck: Link) -> bool:
        """Whether this link limits all flows until they end."""
        loads, served, under_way = self.loads, 0.0, list(range(len(self.loads)))
        while under_way:
            rate = bottleneck.bandwidth_bytes_per_s / len(under_way)
            flows: dict[Link, int] = {}
            for number in under_way:
                for link in loads[number].links:
                    flows[link] = flows.get(link, 0) + 1
            if any(link.bandwidth_bytes_per_s / count < rate for link, count in flows.items()):
                return False
            size_bytes = min(loads[number].size_bytes for number in under_way)
            ending = [number for number in under_way if loads[number].size_bytes == size_bytes]
            self.stages.append((size_bytes, size_bytes - served, rate, ending))
            served = size_bytes
            under_way = [number for number in under_way if number not in ending]
        return True


def _narrowest(loads: Sequence[Load]) -> Link | None:
    """The link with the smallest part for each flow, if all loads travel over it."""
    common = [link for link in loads[0].links if all(link in load.links for load in loads[1:])]
    narrowest = min(common, key=lambda link: link.bandwidth_bytes_per_s, default=None)
    return narrowest if narrowest is not None and narrowest.bandwidth_bytes_per_s > 0 else None


class QuietFlows:
    """The loads of a course on their way.

    Attributes:
        done: is called with each load at its end; or
        all_done: with all of them at the last end.
        began_s: when the present stage began; with `all_done`, the first.
        stage: the present one; with `all_done`, the first.
        due_s: when the next event is.
        sequence: of the first flow.
        is_new: whether other events of the moment of their start may start flows on their links.
        is_quiet: whether nobody has come to their links, and they have not ended.
        flows: what they have become when somebody came.
    """

    __slots__ = ("all_done", "began_s", "course", "done", "due_s", "flows", "is_new", "is_quiet", "sequence", "stage")

    def __init__(
        self, course: Course, done: Callable[[Any], object], all_done: Callable[[Any], object] | None, now: float, sequence: int
    ) -> None:
        self.course = course
        self.done = done
        self.all_done = all_done
        self.began_s = now
        self.sequence = sequence
        self.stage = 0
        self.is_new = False
        self.is_quiet = True
        self.flows: list[Flow] = []
        if all_done is None:
            _, more, rate, _ = course.stages[0]
            now += more / rate
        else:
            for _, more, rate, _ in course.stages:
                now += more / rate
        self.due_s = now

    def present(self, now: float) -> tuple[int, float, float]:
        """The stage at a moment, its beginning and its end in seconds; an end that has no event of its own is over when it is due."""
        stage, began_s = self.stage, self.began_s
        stages = self.course.stages
        ends_s = began_s + stages[stage][1] / stages[stage][2]
        while self.all_done is not None and ends_s <= now and stage + 1 < len(stages):
            stage, began_s = stage + 1, ends_s
            ends_s = began_s + stages[stage][1] / stages[stage][2]
        return stage, began_s, ends_s

    def served(self, now: float) -> float:
        """The bytes that each flow still under way has got."""
        stage, began_s, _ = self.present(now)
        size_bytes, more, rate, _ = self.course.stages[stage]
        return size_bytes - more + rate * (now - began_s)


def let_go(_: object) -> None:
    """What has ended, or was stopped, tells nobody that it has arrived."""


class ClosedForm:
    """Starts and ends flows that have their links for themselves.

    Args:
        clock: of the cluster.
        sequence: numbers flows.
    """

    def __init__(self, clock: Clock, sequence: Iterator[int]) -> None:
        self.clock = clock
        self._events = clock.queue
        self._event_numbers = clock.sequence
        self._sequence = sequence

    def start(self, course: Course, done: Callable[[Any], object], all_done: Callable[[Any], object] | None = None) -> QuietFlows | None:
        """Start the loads of a course in closed form.

        Args:
            course: of the loads.
            done: is called with each load when it has arrived.
            all_done: where given, one event stands for all ends, and this is called with all loads. `done` is called only where
                somebody comes to a link before: for those that had ended then, and for the others at their ends; it must start nothing
                (default None).

        Returns:
            The flows; None where they cannot be in closed form: then nothing was started.
        """
        if course.bottleneck is None:
            return None
        for link in course.links:
            if link.quiet is not None or link.flows or link.books:
                return None
        quiet = QuietFlows(course, done, all_done, self.clock.now, next(self._sequence))
        quiet.is_new = len(course.loads) > 1 and bool(self._events) and self._events[0][0] <= quiet.began_s
        for link in course.links:
            link.quiet = quiet
        end = self._end_stage if all_done is None else self._end_all
        heappush(self._events, (quiet.due_s, NORMAL, next(self._event_numbers), end, quiet))
        return quiet

    def _end_all(self, quiet: QuietFlows) -> None:
        """All loads have arrived."""
        all_done = quiet.all_done
        if quiet.is_quiet and all_done is not None:
            _close(quiet)
            quiet.done = quiet.all_done = let_go
            all_done(quiet.course.loads)

    def _end_stage(self, quiet: QuietFlows) -> None:
        """Some of the loads have arrived."""
        if not quiet.is_quiet:
            return
        course, done = quiet.course, quiet.done
        ending = course.stages[quiet.stage][3]
        if quiet.stage + 1 == len(course.stages):
            _close(quiet)
        else:
            quiet.stage += 1
            quiet.began_s = quiet.due_s
            _, more, rate, _ = course.stages[quiet.stage]
            quiet.due_s += more / rate
            heappush(self._events, (quiet.due_s, NORMAL, next(self._event_numbers), self._end_stage, quiet))
        for number in ending:
            if quiet.done is done:  # nobody has stopped the rest meanwhile
                done(course.loads[number])
        if not quiet.is_quiet:
            # Who has started them keeps them: without this the two would wait for Python's collector.
            quiet.done = let_go


def _close(quiet: QuietFlows) -> None:
    quiet.is_quiet = False
    for link, num_bytes in quiet.course.carried:
        link.quiet = None
        link.bytes_carried += num_bytes
