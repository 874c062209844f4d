"""Fibers, and the gates for which they wait.

A *fiber* is a function on a greenlet that can stop in the middle and go on later. It stops at a *gate*: an event
that will happen once, with a value or an error. `simdist.simulation.kernel` decides who runs when.

Invariants:

- A gate opens once; every fiber that waits there goes on at the same moment of virtual time.
- A dead fiber has no effect any more: every blocking call that it still makes raises `TaskKilled` again.

What may live in this file: greenlets and what wakes them. Not: the clock, tasks, messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias, final

import greenlet

from simdist.process_state import TaskContext

__all__ = [
    "Awaited",
    "Due",
    "Fiber",
    "Gate",
    "Rest",
    "SimpyEvent",
    "TaskKilled",
    "Value",
    "VirtualClock",
    "Waiter",
    "current_fiber",
    "fire",
    "running",
    "words",
]

# What a gate was opened with, or the function of a fiber returned: whoever opens it and whoever waits agree on its type.
Value: TypeAlias = Any
# A function that is to be called, and its argument, which it takes.
Due: TypeAlias = tuple[Callable[[Any], object], Any]


class VirtualClock(Protocol):
    """The clock, as fibers see it."""

    fibers: list[Fiber]

    now: float

    def gate(self) -> Gate: ...
    def wait(self, gate: Gate, what: str | Callable[[], str] = "") -> Value: ...
    def sleep(self, seconds: float) -> None: ...
    def wake(self, fiber: Fiber, gate: object) -> None: ...
    def leave(self, fiber: Fiber, error: BaseException) -> NoReturn: ...


class Waiter(Protocol):
    """The waiter that an error names: a fiber, or a step without one.

    Attributes:
        lane: whose it is.
        waiting: at what it stands; None while it runs.
        waits_for: what for, in words, or a function that finds them.
        held: is not None while its task is paused.
    """

    @property
    def lane(self) -> str: ...
    @property
    def waiting(self) -> object: ...
    @property
    def waits_for(self) -> str | Callable[[], str]: ...
    @property
    def held(self) -> object: ...


def words(text: str | Callable[[], str]) -> str:
    """What a fiber waits for, as a text that is made only when it is asked for."""
    return text if isinstance(text, str) else text()


class TaskKilled(BaseException):
    """Thrown into a fiber whose task has died; not an `Exception`, so that user code does not swallow it."""


@final
class Gate:
    """An event that happens once, and for which a fiber (or the driver) can wait. Made by `Clock.gate`.

    It has those attributes of SimPy's events that a wait uses, so that a fiber can wait for both.

    Attributes:
        callbacks: called with the gate when it opens; None once it is open.
        ok: whether it was opened with a value, and not with an error; of no meaning before.
        value: what it was opened with; of no meaning before.
    """

    __slots__ = ("callbacks", "clock", "fiber", "ok", "value")

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.callbacks: list[Callable[[Gate], object]] | tuple[()] | None = ()
        self.fiber: Fiber | None = None
        self.ok = True
        self.value: Value = None

    @property
    def is_open(self) -> bool:
        return self.callbacks is None

    def open(self, value: Value = None) -> None:
        """Open the gate with this value: the fibers that wait go on; a gate that is open stays as it is."""
        callbacks = self.callbacks
        if callbacks is None:
            return
        self.value = value
        self.callbacks = None
        fiber = self.fiber
        if fiber is not None:
            self.clock.wake(fiber, self)
        if callbacks:
            for callback in callbacks:
                callback(self)

    def wait(self, what: str | Callable[[], str] = "") -> Value:
        """Block until it opens; see `Clock.wait`."""
        return self.clock.wait(self, what)

    def fail(self, error: BaseException) -> None:
        """Open the gate with an error, which is raised in the fibers that wait."""
        if self.callbacks is not None:
            self.ok = False
            self.open(error)

    def then(self, callback: Callable[[Gate], object]) -> None:
        """Call `callback(gate)` when the gate opens; at once if it is open."""
        if self.callbacks is None:
            callback(self)
        else:
            self.callbacks = [*self.callbacks, callback]


@dataclass(frozen=True, eq=False)
class Rest:
    """What the function of a fiber returns to be called again, from its start, when a gate opens.

    A fiber that waits in the middle of its function keeps a stack, and what lies on a stack is out of sight for the garbage collector.
    A fiber that rests has none: a cluster whose fibers all rest is collected when nobody holds it any more.
    """

    gate: Gate
    waits_for: str | Callable[[], str]


class SimpyEvent(Protocol):
    """What the clock knows of an event of SimPy's."""

    callbacks: list[Callable[[SimpyEvent], object]] | None
    defused: bool

    @property
    def ok(self) -> bool: ...
    @property
    def value(self) -> Value: ...


Awaited: TypeAlias = Gate | SimpyEvent


def fire(event: SimpyEvent) -> None:
    """What SimPy's own loop does with an event."""
    callbacks, event.callbacks = event.callbacks, None
    for callback in callbacks or ():
        callback(event)
    if not event.ok and not event.defused:
        raise event.value


class Fiber:
    """A function that blocks in virtual time. Made by `Clock.spawn`.

    Attributes:
        lane: whom error messages name.
        context: the process-wide state of the code that it runs.
        waiting: the gate at which it stands; None while it runs.
        held: where what would wake it is written down instead, while its task is paused; None while it is not.
        is_daemon: whether no wait may count on it: its sleeps keep no run alive.
        finished: opens when it has ended, however; `result` or `error` is set then, and `killed` says whether its task died.
    """

    __slots__ = (
        "abandoned",
        "clock",
        "context",
        "dead",
        "error",
        "finished",
        "greenlet",
        "held",
        "is_daemon",
        "kills",
        "lane",
        "result",
        "waiting",
        "waits_for",
    )

    def __init__(self, clock: VirtualClock, lane: str, function: Callable[[], Value], context: TaskContext) -> None:
        self.clock = clock
        self.lane = lane
        self.context = context
        self.greenlet = greenlet.greenlet(lambda: self._run(function))
        self.dead = False
        self.abandoned = False
        self.is_daemon = False
        self.kills = 0
        self.held: list[Due] | None = None
        self.waiting: object = None
        self.waits_for: str | Callable[[], str] = ""
        self.result: Value = None
        self.error: BaseException | None = None
        self.finished = Gate(clock)

    def _run(self, function: Callable[[], Value]) -> None:
        try:
            result = function()
            if type(result) is Rest:
                if not self.dead:
                    self._rest(function, result)
                    return
                raise TaskKilled(f"{self.lane} is dead")
            self.result = result
        except BaseException as error:
            # SystemExit and the like end the fiber, not the process: the fiber that waits for it decides.
            self.error = error
        if self.abandoned:
            return
        self.clock.fibers.remove(self)
        self.finished.open(self)

    def give_up(self, error: BaseException) -> None:
        """Its code does not run again; fibers that wait for it see this error."""
        if self.abandoned:
            return
        self.abandoned = True
        self.error = error
        self.clock.fibers.remove(self)
        self.finished.open(self)

    def _rest(self, function: Callable[[], Any], rest: Rest) -> None:
        assert rest.gate.callbacks is not None and rest.gate.fiber is None, "a fiber rests at a gate of its own that is still to open"
        self.greenlet = greenlet.greenlet(lambda: self._run(function), self.greenlet.parent)
        self.waiting, self.waits_for, rest.gate.fiber = rest.gate, rest.waits_for, self

    @property
    def killed(self) -> bool:
        """Whether it was ended from outside, perhaps before its first line; later effects of its code do not count."""
        return self.dead

    @property
    def ended(self) -> bool:
        return self.abandoned or bool(self.greenlet.dead)


class Running:
    """The fiber that runs now; None in a notebook cell or script (the driver), and in the loop itself."""

    # An attribute of an object, because one of a class or module costs several times as much to set.
    __slots__ = ("fiber",)

    def __init__(self) -> None:
        self.fiber: Fiber | None = None


running = Running()


def current_fiber() -> Fiber | None:
    """The fiber that runs now, or None in a notebook cell or script (the driver)."""
    return running.fiber
