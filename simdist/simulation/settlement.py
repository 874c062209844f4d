"""Flows end, and links are shared anew.

Each link that limits flows asks the clock for one call, at the moment when the first of its flows ends. A call that was
asked for stays with the clock when the end is put off; it then asks for another. Only an end that comes nearer needs a
new one.

All changes of one moment are settled together, after all other events of that moment, because no byte moves in no time
(`balance.py`): a step that starts a thousand messages shares the links once.

This file puts its own entries into the queue of SimPy's environment: an end needs an absolute time, and a settlement a
later place within its moment than SimPy knows.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from math import inf

from simpy.events import NORMAL

from simdist.simulation.balance import Balance, next_end
from simdist.simulation.kernel import Clock
from simdist.simulation.links import RESTART_BYTES, Flow, Link, guest_leaves, restart

__all__ = ["Settlement"]

# After everything else that happens in a moment.
AT_LAST = NORMAL + 1


class Settlement:
    """Ends flows, and settles what has changed in a moment.

    Args:
        clock: of the cluster.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._events = clock.queue
        self._event_numbers = clock.sequence
        self._sequence = count()
        self._balance = Balance()
        self._changed = self._balance.changed
        self._new: list[Flow] = []
        self._settling = False

    def _complete(self, link: Link) -> None:
        """The clock calls at the end of a flow, or where that was before it was put off."""
        now = self.clock.now
        if now != link.wake_s:
            return
        link.wake_s = inf
        if now < link.due_s:
            if link.due_s < inf:
                self._call(link, link.due_s)
            return
        if self._settling:
            self._end_flows(link, now)
            return
        self._settling = True  # whatever starts when a flow has ended is settled below
        try:
            self._end_flows(link, now)
        finally:
            self._settling = False
            if self._changed or self._new:
                self._settle_soon()

    def _end_flows(self, link: Link, now: float) -> None:
        """End the flow that is due, and those of the same size that started with it."""
        queue, changed = link.queue, self._changed
        tied = True
        while tied and link.due_s == now:  # nobody stopped it in between
            ends_at, _, flow = heappop(queue)
            # The clock's rounding must not leave a last fraction of a byte behind.
            link.served = ends_at
            link.updated_s = now
            if ends_at > RESTART_BYTES:
                restart(link)
                ends_at = 0.0
            link.due_s = inf
            num_bytes, done = flow.num_bytes, flow.done
            flow.bottleneck = flow.done = None
            flow.remaining = 0.0
            for other in flow.links:
                del other.flows[flow]
                other.bytes_carried += num_bytes
                if other.books and other is not link:
                    guest_leaves(other, link)
                    if not other.dirty:
                        other.dirty = True
                        changed.append(other)
            link.num_own -= 1
            tied = False
            if link.num_own:
                if not link.dirty:
                    link.dirty = True
                    changed.append(link)
                if queue[0][0] <= ends_at and next_end(link) <= now:
                    tied, link.due_s = True, now
            else:
                self._balance.rest(link)
                if link.flows:
                    self._balance.mark(link)
                else:
                    link.books = False
            assert done is not None
            done(flow.argument)

    def _call(self, link: Link, due: float) -> None:
        """Ask the clock for a call at the next end."""
        link.wake_s = due
        heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, link))

    # -- all that happened in a moment -------------------------------------------------------------------------------

    def _settle_soon(self) -> None:
        """Settle now if nothing else is to happen in this moment, and after all of it otherwise."""
        events, now = self._events, self.clock.now
        if events and events[0][0] <= now:
            self._settling = True
            heappush(events, (now, AT_LAST, next(self._event_numbers), self._settle, None))
        else:
            self._settle(None)

    def _settle(self, _argument: None) -> None:
        now, balance, changed = self.clock.now, self._balance, self._changed
        self._settling = False
        if self._new:
            new, self._new = self._new, []
            for flow in new:
                if flow.done is not None:
                    balance.join(flow, now)
        balance.settle(now)
        for link in changed:
            if not link.num_own:
                continue
            ends_at, _, first = link.queue[0]
            if first.bottleneck is link and first.ends_at == ends_at and link.level:
                due = link.updated_s + (ends_at - link.served) / link.level
            else:
                due = next_end(link)
            link.due_s = due = now if due < now else due
            if due < link.wake_s:
                link.wake_s = due
                heappush(self._events, (due, NORMAL, next(self._event_numbers), self._complete, link))
        changed.clear()
