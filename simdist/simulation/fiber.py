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
from typing import Any, Protocol

import greenlet

from simdist.process_state import TaskContext

__all__ = ["Fiber", "Gate", "Rest", "TaskKilled", "VirtualClock", "Waiter", "current_fiber", "running", "words"]


class VirtualClock(Protocol):
    """The clock, as fibers see it."""

    fibers: list[Fiber]

    @property
    def now(self) -> float: ...
    def gate(self) -> Gate: ...
    def wait(self, gate: Any, what: str | Callable[[], str] = "") -> Any: ...
    def sleep(self, seconds: float) -> None: ...
    def wake(self, fiber: Fiber, gate: Any) -> None: ...


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
    def waiting(self) -> Any: ...
    @property
    def waits_for(self) -> str | Callable[[], str]: ...
    @property
    def held(self) -> Any: ...


def words(text: str | Callable[[], str]) -> str:
    """What a fiber waits for, as a text that is made only when it is asked for."""
    return text if isinstance(text, str) else text()


class TaskKilled(BaseException):
    """Thrown into a fiber whose task has died; not an `Exception`, so that user code does not swallow it."""


class Gate:
    """An event that happens once, and for which a fiber (or the driver) can wait. Made by `Clock.gate`.

    It has those attributes of SimPy's events that a wait uses, so that a fiber can wait for both.

    Attributes:
        callbacks: called with the gate when it opens; None once it is open.
    """

    __slots__ = ("_ok", "_value", "callbacks", "clock", "fiber")

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.callbacks: list[Callable[[Gate], Any]] | tuple[()] | None = ()
        self.fiber: Fiber | None = None
        self._ok = True
        self._value: Any = None

    @property
    def is_open(self) -> bool:
        return self.callbacks is None

    def open(self, value: Any = None) -> None:
        """Open the gate with this value: the fibers that wait go on; a gate that is open stays as it is."""
        callbacks = self.callbacks
        if callbacks is None:
            return
        self._value = value
        self.callbacks = None
        fiber = self.fiber
        if fiber is not None:
            self.clock.wake(fiber, self)
        if callbacks:
            for callback in callbacks:
                callback(self)

    def wait(self, what: str | Callable[[], str] = "") -> Any:
        """Block until it opens; see `Clock.wait`."""
        return self.clock.wait(self, what)

    def fail(self, error: BaseException) -> None:
        """Open the gate with an error, which is raised in the fibers that wait."""
        if self.callbacks is not None:
            self._ok = False
            self.open(error)

    def then(self, callback: Callable[[Gate], Any]) -> None:
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

    def __init__(self, clock: VirtualClock, lane: str, function: Callable[[], Any], context: TaskContext) -> None:
        self.clock = clock
        self.lane = lane
        self.context = context
        self.greenlet = greenlet.greenlet(lambda: self._run(function))
        self.dead = False
        self.abandoned = False
        self.kills = 0
        self.held: list[tuple[Callable[[Any], None], Any]] | None = None
        self.waiting: Any = None
        self.waits_for: str | Callable[[], str] = ""
        self.result: Any = None
        self.error: BaseException | None = None
        self.finished = Gate(clock)

    def _run(self, function: Callable[[], Any]) -> None:
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
