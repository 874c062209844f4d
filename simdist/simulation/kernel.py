"""The clock: virtual time, functions that block in it, and the event loop that wakes them.

A task runs Python functions, each a *fiber*: a greenlet on a SimPy environment. A blocking call hands the clock a gate and gives up the
processor until that gate opens; in a notebook cell, it runs the environment until then. Time, the queue of events and their
order (time, priority, sequence) are SimPy's. Most entries of the queue hold a function and its argument, and not SimPy's event.

Invariants:

- Virtual time never runs backwards; only a blocking call of the driver moves it. No event is due at NaN, or after `END_S`.
- A wait that cannot end is an error that names who waits for what. *Daemon* work (heartbeats) ends no wait.
- Events of one moment fire in the order in which they were scheduled, or in one drawn from `tie_seed`.
- A fiber that ends opens its `finished`, with a result or an error: `TaskKilled` where it was killed, or left behind.

What may live in this file: time, who runs. The loop is in loop.py. Not: networks, tasks, faults, numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from heapq import heappush
from threading import get_ident
from typing import Any, NoReturn, TypeAlias, TypeVar, overload

import greenlet
import simpy
from simpy.events import NORMAL

from simdist.arguments import END_S
from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError
from simdist.interrupts import noted_interrupts, raise_noted
from simdist.process_state import TaskContext, active
from simdist.simulation.dead_code import refuse, warn_of
from simdist.simulation.endless import no_time_to_wait
from simdist.simulation.fiber import Awaited, Fiber, Gate, TaskKilled, Value, Waiter, current_fiber, running, words
from simdist.simulation.loop import FEW_EVENTS, Pauses, run_events, run_many_events, shuffled

__all__ = ["Clock", "Fiber", "Gate", "TaskKilled", "current_fiber"]

A = TypeVar("A")
Entry: TypeAlias = tuple[Any, ...]  # (time, priority, sequence, event) of SimPy's, or (time, priority, sequence, function, argument)


class Clock:
    """The clock and the fibers of one cluster.

    Args:
        tie_seed: draw the order of events of one moment from this seed, to search for programs that depend on it;
            None: the order in which they were scheduled.

    Attributes:
        now: virtual seconds since the start. An attribute, because hot code reads it; only the loop sets it.
        queue, sequence: what is to come, as a heap, and the numbers of what is put there.
        events, events_of_moment: how many have happened, and how many of them in a row at the present moment.
        pauses: where a run may stand still between events; None: nowhere.

    Example:
        >>> clock = Clock()
        >>> fiber = clock.spawn("worker:0", lambda: clock.sleep(2.0) or clock.now)
        >>> clock.join(fiber)
        2.0
    """

    def __init__(self, tie_seed: int | None = None) -> None:
        self.env = simpy.Environment()
        self.now = 0.0
        self.fibers: list[Fiber] = []
        self.steps: dict[Waiter, None] = {}  # what goes on by callbacks, and not in the place of a fiber
        self.daemons = 0
        self.queue: list[Entry] = self.env._queue
        self.sequence: Iterator[int | tuple[float, int]] = self.env._eid if tie_seed is None else shuffled(tie_seed)
        self._hub: greenlet.greenlet | None = None
        self._thread = get_ident()
        self._stops: list[BaseException] = []  # what ends the driver's wait before the next event
        self.events = self.events_of_moment = 0
        self.pauses: Pauses | None = None
        self.absences: Callable[[], Sequence[str]] = list  # tasks that are not there, in words; set by who knows tasks
        self._driving = self._closed = False

    # -- what is to come ------------------------------------------------------------------------------------------

    def gate(self) -> Gate:
        """A new gate, for which fibers can wait."""
        return Gate(self)

    @overload
    def after(self, delay_s: float, function: Callable[[None], object]) -> None: ...
    @overload
    def after(self, delay_s: float, function: Callable[[A], object], argument: A) -> None: ...
    def after(self, delay_s: float, function: Callable[[A], object], argument: A | None = None) -> None:
        """Call `function(argument)` after `delay_s`.

        Raises:
            InvalidArgumentError: the delay is negative, not a number, or endless.
        """
        if not 0.0 <= delay_s < END_S:
            raise no_time_to_wait(delay_s)
        heappush(self.queue, (self.now + delay_s, NORMAL, next(self.sequence), function, argument))

    def after_daemon(self, delay_s: float, function: Callable[[], object]) -> None:
        """Like `after`, but the call ends no wait: it does not keep a run alive."""
        self.after(delay_s, self._fire_daemon, function)
        self.daemons += 1

    def at(self, second: float, function: Callable[[], object], is_daemon: bool) -> None:
        """Call `function()` at a second to come, to its last bit: a sum of the present one and a delay may be another."""
        self.daemons += is_daemon
        entry = self._fire_daemon if is_daemon else lambda call: call()
        heappush(self.queue, (max(second, self.now), NORMAL, next(self.sequence), entry, function))

    def _fire_daemon(self, function: Callable[[], object]) -> None:
        self.daemons -= 1
        function()

    def idle_s(self) -> float:
        """Seconds until the next event; 0 if no event is pending."""
        return self.queue[0][0] - self.now if self.queue else 0.0

    # -- blocking -------------------------------------------------------------------------------------------------

    def wait(self, gate: Awaited, what: str | Callable[[], str] = "") -> Value:
        """Block until a gate (or an event of SimPy's) opens; return its value, or raise its error.

        Raises:
            DeadlineExceededError: nothing that is still to happen could open the gate.
            FailedPreconditionError: called from another thread, from a callback of the loop itself, or after `close`.
        """
        fiber = running.fiber
        if fiber is not None and fiber.clock is self:
            if fiber.dead:
                refuse(fiber)
            if gate.callbacks is not None:
                self._block(fiber, gate, what)
        elif gate.callbacks is not None:
            self._drive(gate, what)
        if gate.ok:
            return gate.value
        if type(gate) is not Gate:
            gate.defused = True
        raise gate.value

    def sleep(self, seconds: float) -> None:
        """Block for so many virtual seconds.

        Raises:
            InvalidArgumentError: they are negative, not a number, or endless.
            DeadlineExceededError, FailedPreconditionError: as `wait`.
        """
        if not 0.0 <= seconds < END_S:
            raise no_time_to_wait(seconds)
        fiber = running.fiber
        if fiber is None or fiber.clock is not self or fiber.dead:
            gate = Gate(self)
            self.after(seconds, gate.open)
            self.wait(gate, "the end of a sleep")
            return
        # The most frequent wait of all needs no gate: what wakes the fiber is recognised by its identity.
        fiber.waiting, fiber.waits_for = sleeper, _ = (fiber,), "the end of a sleep"
        if fiber.is_daemon:
            self.after_daemon(seconds, lambda: self._wake_sleeper(sleeper))
        else:
            heappush(self.queue, (self.now + seconds, NORMAL, next(self.sequence), self._wake_sleeper, sleeper))
        self._give_way(fiber)

    def join(self, fiber: Fiber) -> Value:
        """Block until `fiber` has ended; return its result or raise its error."""
        self.wait(fiber.finished, f"the end of {fiber.lane}")
        if fiber.error is not None:
            raise fiber.error
        return fiber.result

    def _block(self, fiber: Fiber, gate: Awaited, what: str | Callable[[], str]) -> None:
        assert self._hub is not None
        fiber.waiting, fiber.waits_for = gate, what
        if type(gate) is not Gate:
            assert isinstance(gate.callbacks, list)
            gate.callbacks.append(lambda event: self.wake(fiber, event))
        elif gate.fiber is None:
            gate.fiber = fiber
        else:
            gate.then(lambda gate: self.wake(fiber, gate))
        self._give_way(fiber)

    def _give_way(self, fiber: Fiber) -> None:
        try:
            self._hub.switch()  # pyright: ignore[reportOptionalMemberAccess]
        except greenlet.error:
            fiber.waiting = None  # a thread that the fiber has started cannot wait in its place
            self.require_thread()
            raise
        if fiber.dead:
            refuse(fiber)

    def leave(self, fiber: Fiber, error: BaseException) -> NoReturn:
        """Leave the fiber that runs where it stands: its code does not run again, and fibers that wait for it see this error."""
        fiber.give_up(error)
        while True:
            assert self._hub is not None
            self._hub.switch()

    def require_thread(self) -> None:
        """Refuse a call from another thread than the one that made the clock.

        Raises:
            FailedPreconditionError: it is one.
        """
        if get_ident() != self._thread:
            raise FailedPreconditionError(
                "A cluster was used from another thread than the one that made it. Virtual time has one thread: "
                "make the call there, or queue a command for it."
            )

    def require_open(self, what: str) -> None:
        """Refuse a call that needs virtual time to go on.

        Raises:
            FailedPreconditionError: the clock has been closed.
        """
        if self._closed:
            raise FailedPreconditionError(f"{what} after the cluster was closed: its tasks have ended. Make another with cluster.fresh().")

    # -- fibers ---------------------------------------------------------------------------------------------------

    def spawn(self, lane: str, function: Callable[[], object], context: TaskContext | None = None) -> Fiber:
        """Start `function` as a fiber at the present moment."""
        fiber = Fiber(self, lane, function, context or TaskContext())
        self.fibers.append(fiber)
        fiber.waiting, fiber.waits_for = fiber, "its start"
        self.after(0.0, self._enter, (fiber, fiber))
        return fiber

    def wake(self, fiber: Fiber, gate: object) -> None:
        """Let a fiber go on whose gate has opened: at once from the loop, as the next event from another fiber."""
        current = running.fiber
        if current is not None and current.clock is self:
            self.after(0.0, self._enter, (fiber, gate))
        elif fiber.waiting is gate:
            self._switch(fiber)

    def _enter(self, who: tuple[Fiber, object]) -> None:
        # A gate that opens too late finds the fiber at another one, or dead; one that was killed before its start has no code to enter.
        fiber = who[0]
        if fiber.waiting is who[1] and not (fiber.dead and not fiber.greenlet):
            self._switch(fiber)

    def _wake_sleeper(self, sleeper: tuple[Fiber]) -> None:
        if sleeper[0].waiting is sleeper:
            self._switch(sleeper[0])

    def _switch(self, fiber: Fiber) -> None:
        """Run a fiber until it blocks. Its context stays in place until another fiber, or the driver, needs its own."""
        if fiber.held is not None and not fiber.dead:
            fiber.held.append((self._enter, (fiber, fiber.waiting)))
            return
        previous, own = running.fiber, fiber.greenlet
        if own.parent is not self._hub:
            own.parent = greenlet.getcurrent()
        if fiber.context is not active.context:
            fiber.context.replace(active.context)
        running.fiber = fiber
        fiber.waiting = None
        try:
            if fiber.dead:
                own.throw(TaskKilled(f"{fiber.lane} is dead"))
            else:
                own.switch()
        finally:
            running.fiber = previous

    @contextmanager
    def inside(self, context: TaskContext) -> Iterator[None]:
        """Give the fiber that runs another context for a while; it keeps it while it blocks."""
        fiber = running.fiber
        assert fiber is not None
        outer, fiber.context = fiber.context, context
        context.replace(active.context)
        try:
            yield
        finally:
            fiber.context = outer
            outer.replace(active.context)

    def kill(self, fiber: Fiber) -> None:
        """End `fiber` now: it is dead before any of its code runs again, and stays so."""
        if fiber.dead or fiber.ended:
            return
        fiber.dead = True
        if fiber is running.fiber:
            raise TaskKilled(f"{fiber.lane} is dead")
        if greenlet.getcurrent() is self._hub or running.fiber is None:
            self._throw(fiber)
        else:
            self.after(0.0, self._throw, fiber)

    def _throw(self, fiber: Fiber) -> None:
        if fiber.ended:
            return
        fiber.waiting = None
        if not fiber.greenlet:  # it has not run a line yet: there is nothing to interrupt
            fiber.give_up(TaskKilled(f"{fiber.lane} is dead"))
            return
        hub, self._hub = self._hub, greenlet.getcurrent()
        outer = active.context
        try:
            self._switch(fiber)
        finally:
            self._hub = hub
            _restore(outer)
        warn_of(fiber)

    @property
    def is_driving(self) -> bool:
        """Whether the driver waits, and events happen."""
        return self._driving

    @property
    def is_closed(self) -> bool:
        """Whether nothing happens on this clock any more."""
        return self._closed

    def interrupt_driver(self, error: BaseException) -> None:
        """Raise `error` from the blocking call that the driver is in."""
        self._stops.append(error)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Run code that may read, but not wait, in any fiber: a blocking call inside is refused."""
        fiber, driving = running.fiber, self._driving
        running.fiber, self._driving = None, True
        try:
            yield
        finally:
            running.fiber, self._driving = fiber, driving

    def close(self) -> None:
        """End all fibers, in the order in which they started; no event happens on this clock any more."""
        self._closed = True
        with ExitStack() as kills:  # all of them, though a warning of one is an error
            for fiber in reversed(self.fibers):
                kills.callback(self.kill, fiber)

    # -- the loop -------------------------------------------------------------------------------------------------

    def _drive(self, gate: Awaited, what: str | Callable[[], str]) -> None:
        """Run events until `gate` is open."""
        self.require_thread()
        if self._closed:
            self.require_open(f"Waiting for {words(what) or 'an event'}")
        if self._driving:
            raise FailedPreconditionError(
                "A blocking call was made from inside the event loop (a callback or a when= predicate), which may look at values, but "
                "cannot wait; or beside a session that stands still, whose time passes in session.advance() alone."
            )
        # A run that stands still between events keeps no other thread out.
        with nullcontext() if self.pauses is not None else driving_thread:
            self._drive_here(gate, what)

    def _drive_here(self, gate: Awaited, what: str | Callable[[], str]) -> None:
        self.events_of_moment = 0
        self._driving, self._hub, outer_hub, outer = True, greenlet.getcurrent(), self._hub, active.context
        try:
            if self.pauses is not None:
                self._drive_with(self.pauses, gate, what)
                return
            with noted_interrupts(self._stops):
                run_events(self, gate, what, self._stops, FEW_EVENTS)
                if gate.callbacks is not None:
                    run_many_events(self, gate, what, self._stops, sys.maxsize)
            raise_noted(self._stops)
        finally:
            self._driving, self._hub = False, outer_hub
            _restore(outer)

    def _drive_with(self, pauses: Pauses, gate: Awaited, what: str | Callable[[], str]) -> None:
        """Run events in slices; between them, other code may run."""
        while gate.callbacks is not None:
            most_events, until_s = pauses.before_events()
            try:
                with driving_thread, noted_interrupts(self._stops):
                    run_events(self, gate, what, self._stops, most_events, until_s)
            except KeyboardInterrupt:
                if self._stops:  # a second one, which came while an event happened
                    self._stops.clear()
                    raise
                pauses.interrupted()

    def stand_at(self, now_s: float) -> None:
        """Let the present moment be a later one, before which nothing is to come: a session stands still there."""
        assert self.now <= now_s <= (self.queue[0][0] if self.queue else now_s)
        if now_s > self.now:
            self.env._now = self.now = now_s
            self.events_of_moment = 0


def _restore(context: TaskContext) -> None:  # that the process had before some fibers ran
    if context is not active.context:
        context.replace(active.context)
