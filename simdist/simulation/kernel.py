"""Virtual time: functions that block, and the loop that wakes them.

Every task runs ordinary Python functions. A blocking call hands the clock an event and gives up the processor
until that event fires; no ``yield``, no ``await``. Each such function is a *fiber*: a greenlet on top of a SimPy
environment. Code in a notebook cell is no fiber: there, a blocking call runs the environment until its event fires.

Invariants:

- Virtual time never runs backwards, and never moves by itself: only a blocking call of the driver moves it.
- A dead fiber has no effect any more: every blocking call that it still makes raises `TaskKilled` again.
- A wait that nothing can end is an error that names who waits for what. Periodic work (heartbeats) is *daemon*
  work and does not count as something that could end a wait.
- Events of one moment fire in the order in which they were scheduled.

What may live in this file: greenlets, events, the loop. Not: networks, tasks, faults, numbers.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from heapq import heappop, heappush
from typing import Any

import greenlet
import simpy
from simpy.events import NORMAL, Event

from simdist.errors import DeadlineExceededError, FailedPreconditionError
from simdist.simulation.task_context import TaskContext, active_context

__all__ = ["Event", "Fiber", "TaskKilled", "current_fiber"]

# Events at one moment without virtual time moving on: beyond this, two parts of a program wake each other for ever.
LIVELOCK_EVENTS = 2_000_000
# A dead fiber that swallows TaskKilled this often is left where it is.
KILLS_BEFORE_ABANDONED = 1_000

_current: Fiber | None = None


class TaskKilled(BaseException):
    """Thrown into a fiber whose task has died; not an `Exception`, so that user code does not swallow it."""


def current_fiber() -> Fiber | None:
    """The fiber that runs now, or None in a notebook cell or script (the driver)."""
    return _current


class Fiber:
    """A function that blocks in virtual time. Made by `Clock.spawn`."""

    __slots__ = (
        "abandoned",
        "clock",
        "context",
        "dead",
        "error",
        "finished",
        "greenlet",
        "kills",
        "lane",
        "result",
        "waiting",
        "waits_for",
        "wake",
    )

    def __init__(self, clock: Clock, lane: str, function: Callable[[], Any], context: TaskContext) -> None:
        self.clock = clock
        self.lane = lane
        self.context = context
        self.greenlet = greenlet.greenlet(lambda: self._run(function))
        # One callback for all waits: an event that comes too late finds the fiber waiting for another.
        self.wake = lambda event: clock._resume(self, event)
        self.dead = False
        self.abandoned = False
        self.kills = 0
        self.waiting: Event | None = None
        self.waits_for = ""
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = clock.event()

    def _run(self, function: Callable[[], Any]) -> None:
        try:
            self.result = function()
        except TaskKilled as killed:
            self.error = killed
        except BaseException as error:
            # SystemExit and the like end the fiber, not the process: whoever waits for it decides.
            self.error = error
        if not self.finished.triggered:
            self.finished.succeed(self)

    @property
    def ended(self) -> bool:
        return self.abandoned or bool(self.greenlet.dead)


class _Environment(simpy.Environment):
    """SimPy's environment, which also knows how many of its pending events are daemons."""

    daemons = 0

    @property
    def only_daemons(self) -> bool:
        return len(self._queue) <= self.daemons


class Clock:
    """The clock and the fibers of one cluster.

    Example:
        >>> clock = Clock()
        >>> fiber = clock.spawn("worker:0", lambda: clock.sleep(2.0) or clock.now)
        >>> clock.join(fiber)
        2.0
    """

    def __init__(self) -> None:
        self.env = _Environment()
        self.fibers: list[Fiber] = []
        self._hub: greenlet.greenlet | None = None
        self._thread = threading.get_ident()
        self._driver_error: BaseException | None = None
        self._driving = False

    # -- events ---------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """Virtual seconds since the start."""
        return self.env._now  # the property costs as much as the rest

    def event(self) -> Event:
        return Event(self.env)

    def call_later(self, delay_s: float, function: Callable[[Event], Any], value: Any = None) -> Event:
        """Call `function(event)` after `delay_s`, with `value` in ``event.value``."""
        event = Event(self.env)
        event._ok = True
        event._value = value
        event.callbacks = [function]
        self.env.schedule(event, NORMAL, delay_s)
        return event

    def after(self, delay_s: float, function: Callable[[Any], object], argument: Any = None) -> None:
        """Call `function(argument)` after `delay_s`; the cheapest way, but nothing can wait for it."""
        env = self.env
        heappush(env._queue, (env._now + delay_s, NORMAL, next(env._eid), function, argument))  # pyright: ignore[reportArgumentType]

    def call_later_daemon(self, delay_s: float, function: Callable[[], Any]) -> None:
        """Like `call_later`, but nobody who waits can count on it: it does not keep a run alive."""
        self.env.daemons += 1

        def fire(_: Event) -> None:
            self.env.daemons -= 1
            function()

        self.call_later(delay_s, fire)

    # -- blocking -------------------------------------------------------------------------------------------------

    def wait(self, event: Event, what: str = "") -> Any:
        """Block until `event` fires; return its value, or raise its error.

        Raises:
            DeadlineExceededError: nothing that is still to happen could fire the event.
            FailedPreconditionError: called from another thread, or from a callback of the loop itself.
        """
        fiber = _current
        if fiber is not None and fiber.clock is self:
            if fiber.dead:
                self._refuse(fiber)
            if not event.processed:
                self._block(fiber, event, what)
        else:
            self._drive(event, what)
        if event._ok:
            return event._value
        event.defused = True
        error: Any = event.value
        raise error

    def sleep(self, seconds: float) -> None:
        """Block for so many virtual seconds."""
        self.wait(self.env.timeout(seconds), "the end of a sleep")

    def join(self, fiber: Fiber) -> Any:
        """Block until `fiber` has ended; return its result or raise its error."""
        self.wait(fiber.finished, f"the end of {fiber.lane}")
        if fiber.error is not None:
            raise fiber.error
        return fiber.result

    def _block(self, fiber: Fiber, event: Event, what: str) -> None:
        assert event.callbacks is not None and self._hub is not None
        fiber.waiting, fiber.waits_for = event, what
        event.callbacks.append(fiber.wake)
        self._hub.switch()
        fiber.waiting = None
        if fiber.dead:
            self._refuse(fiber)

    def _refuse(self, fiber: Fiber) -> None:
        fiber.kills += 1
        if fiber.kills > KILLS_BEFORE_ABANDONED:
            fiber.abandoned = True
            if not fiber.finished.triggered:
                fiber.finished.succeed(fiber)
            assert self._hub is not None
            self._hub.switch()
        raise TaskKilled(f"{fiber.lane} is dead")

    # -- fibers ---------------------------------------------------------------------------------------------------

    def spawn(self, lane: str, function: Callable[[], Any], context: TaskContext | None = None) -> Fiber:
        """Start `function` as a fiber at the present moment."""
        fiber = Fiber(self, lane, function, context or TaskContext())
        self.fibers.append(fiber)
        start = self.event()
        fiber.waiting, fiber.waits_for = start, "its start"
        assert start.callbacks is not None
        start.callbacks.append(fiber.wake)
        start.succeed()
        return fiber

    def _resume(self, fiber: Fiber, event: Event) -> None:
        if fiber.waiting is not event or fiber.ended:
            return
        event.defused = True
        self._switch(fiber, fiber.greenlet.switch)

    def _switch(self, fiber: Fiber, enter: Callable[..., Any], *args: Any) -> None:
        """Run a fiber until it blocks. Its context stays in place until another fiber, or the driver, needs its own."""
        global _current
        previous = _current
        hub = greenlet.getcurrent()
        if fiber.greenlet.parent is not hub:
            fiber.greenlet.parent = hub
        active = active_context()
        if fiber.context is not active:
            fiber.context.replace(active)
        _current = fiber
        try:
            enter(*args)
        finally:
            _current = previous
            if fiber.greenlet.dead:
                self.fibers.remove(fiber)

    def kill(self, fiber: Fiber) -> None:
        """End `fiber` now: it is dead before any of its code runs again, and stays so."""
        if fiber.dead or fiber.ended:
            return
        fiber.dead = True
        if fiber is _current:
            raise TaskKilled(f"{fiber.lane} is dead")
        if greenlet.getcurrent() is self._hub or _current is None:
            self._throw(fiber)
        else:
            self.call_later(0.0, lambda _: self._throw(fiber))

    def _throw(self, fiber: Fiber) -> None:
        if fiber.ended:
            return
        if not fiber.greenlet:
            # It has not run a line yet: there is nothing to interrupt.
            fiber.abandoned = True
            self.fibers.remove(fiber)
            if not fiber.finished.triggered:
                fiber.finished.succeed(fiber)
            return
        hub, self._hub = self._hub, greenlet.getcurrent()
        outer = active_context()
        try:
            self._switch(fiber, fiber.greenlet.throw, TaskKilled(f"{fiber.lane} is dead"))
        finally:
            self._hub = hub
            _restore(outer)

    def interrupt_driver(self, error: BaseException) -> None:
        """Raise `error` from the blocking call that the driver is in."""
        self._driver_error = error

    def close(self) -> None:
        """End all fibers, in the order in which they started."""
        for fiber in list(self.fibers):
            self.kill(fiber)

    # -- the loop -------------------------------------------------------------------------------------------------

    def _drive(self, event: Event, what: str) -> None:
        """Run events until `event` has been processed."""
        if threading.get_ident() != self._thread:
            raise FailedPreconditionError(
                "A cluster was used from another thread than the one that made it. Virtual time has one thread: "
                "make the blocking call there, or queue a command for it."
            )
        if self._driving:
            raise FailedPreconditionError(
                "A blocking call was made from inside the event loop (a callback or a when= predicate). Callbacks "
                "may look at values, but cannot wait."
            )
        self._driving, outer_hub, outer = True, self._hub, active_context()
        self._hub = greenlet.getcurrent()
        try:
            with _interrupts() as interrupted:
                self._loop(event, what, interrupted)
        finally:
            self._driving, self._hub = False, outer_hub
            _restore(outer)

    def _loop(self, event: Event, what: str, interrupted: list[bool]) -> None:
        env, same_moment, moment = self.env, 0, self.now
        queue: list[Any] = env._queue
        while not event.processed:
            if env.only_daemons:
                raise self._stuck(what)
            item = heappop(queue)
            env._now = item[0]
            if len(item) == 5:
                item[3](item[4])
            else:
                _fire(item[3])
            if interrupted:
                raise KeyboardInterrupt
            if self._driver_error is not None:
                error, self._driver_error = self._driver_error, None
                raise error
            if env._now == moment:
                same_moment += 1
                if same_moment > LIVELOCK_EVENTS:
                    raise DeadlineExceededError(
                        f"{LIVELOCK_EVENTS} events happened at {moment:.9f} s without virtual time moving on, while waiting "
                        f"for {what or 'an event'}. Two parts of the program wake each other for ever: give one of them a delay."
                    )
            else:
                moment, same_moment = env._now, 0

    def _stuck(self, what: str) -> DeadlineExceededError:
        waiting = [f"{fiber.lane} waits for {fiber.waits_for or 'an event'}" for fiber in self.fibers if fiber.waiting is not None]
        others = "; ".join(waiting) or "no task is waiting for anything"
        return DeadlineExceededError(
            f"Waiting for {what or 'an event'} at {self.now:.6f} s, but nothing that is still to happen can end this wait. "
            f"Elsewhere: {others}. Start a worker, schedule the missing work, or give the failed task a restart_after=."
        )


def _fire(event: Event) -> None:
    """Call whoever waits for an event; an error that nobody has taken ends the run, as in SimPy."""
    callbacks: Any = event.callbacks
    event.callbacks = None  # pyright: ignore[reportAttributeAccessIssue]
    for callback in callbacks:
        callback(event)
    if not event._ok and not event.defused:
        error: Any = event._value
        raise type(error)(*error.args) from error


def _restore(context: TaskContext) -> None:
    """Give the process back the context that it had before some fibers ran."""
    active = active_context()
    if context is not active:
        context.replace(active)


@contextmanager
def _interrupts() -> Iterator[list[bool]]:
    """Note Ctrl-C between events instead of raising it inside whichever task happens to run; a second one raises at once."""
    noted: list[bool] = []
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield noted
        return

    def note(_signal: int, _frame: Any) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(True)

    previous = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)
