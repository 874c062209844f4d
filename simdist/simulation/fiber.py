"""Fibers, and the gates that they wait at.

A *fiber* is a function on a greenlet that can stop in the middle and go on later. A *gate* is what it stops at: something
that will happen once, with a value or an error. `simdist.simulation.kernel` decides who runs when.

Invariants:

- A gate opens once; whoever waits there goes on at the same moment of virtual time.
- A dead fiber has no effect any more: every blocking call that it still makes raises `TaskKilled` again.

What may live in this file: greenlets and what wakes them. Not: the clock, tasks, messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, final

import greenlet

from simdist.process_state import TaskContext

__all__ = [
    "Awaited",
    "Due",
    "Fiber",
    "Gate",
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
    """What fibers know of their clock."""

    fibers: list[Fiber]

    now: float

    def gate(self) -> Gate: ...
    def wait(self, gate: Gate, what: str | Callable[[], str] = "") -> Value: ...
    def sleep(self, seconds: float) -> None: ...
    def wake(self, fiber: Fiber, gate: object) -> None: ...


class Waiter(Protocol):
    """Whom an error names that says who waits for what: a fiber, or a step that needs none.

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
    """What somebody waits for, where it was not worth finding the words before anybody asks."""
    return text if isinstance(text, str) else text()


class TaskKilled(BaseException):
    """Thrown into a fiber whose task has died; not an `Exception`, so that user code does not swallow it."""


@final
class Gate:
    """Something that happens once, and that a fiber (or the driver) can wait for. Made by `Clock.gate`.

    It has the attributes that SimPy's events have where somebody waits for them, so that both can be waited for.

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
        """Let whoever waits go on, with this value; a gate that is open stays as it is."""
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
        """Let whoever waits go on with an error."""
        if self.callbacks is not None:
            self.ok = False
            self.open(error)

    def then(self, callback: Callable[[Gate], object]) -> None:
        """Call `callback(gate)` when the gate opens; at once if it is open."""
        if self.callbacks is None:
            callback(self)
        else:
            self.callbacks = [*self.callbacks, callback]


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
        self.kills = 0
        self.held: list[Due] | None = None
        self.waiting: object = None
        self.waits_for: str | Callable[[], str] = ""
        self.result: Value = None
        self.error: BaseException | None = None
        self.finished = Gate(clock)

    def _run(self, function: Callable[[], Value]) -> None:
        try:
            self.result = function()
        except BaseException as error:
            # SystemExit and the like end the fiber, not the process: whoever waits for it decides.
            self.error = error
        if self.abandoned:
            return
        self.clock.fibers.remove(self)
        self.finished.open(self)

    @property
    def killed(self) -> bool:
        """Whether it was ended from outside, perhaps before its first line; what its code still made of that has no effect."""
        return self.dead

    @property
    def ended(self) -> bool:
        return self.abandoned or bool(self.greenlet.dead)


class Running:
    """Which fiber runs now; None in a notebook cell or script (the driver), and in the loop itself."""

    # An attribute of an object, because one of a class or module costs several times as much to set.
    __slots__ = ("fiber",)

    def __init__(self) -> None:
        self.fiber: Fiber | None = None


running = Running()


def current_fiber() -> Fiber | None:
    """The fiber that runs now, or None in a notebook cell or script (the driver)."""
    return running.fiber
