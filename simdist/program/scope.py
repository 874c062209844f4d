"""The scope: who creates the variables, runs the steps and draws the seeds of the code that runs now.

A strategy is a scope. The scope of those who have chosen none is made when it is first needed; each launched main has one of its own.
A library that has variables of its own, Keras, takes part when a scope opens and when a step is traced.

Taught in lesson 02.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

from simdist.driving_thread import driving_thread
from simdist.errors import FailedPreconditionError
from simdist.interrupts import delayed_interrupts
from simdist.process_state import TaskContext, TaskLocal
from simdist.program.arrays import Array, Tree
from simdist.program.saved_parts import SavedParts

__all__ = [
    "Library",
    "Scope",
    "add_library",
    "chosen_scope",
    "current_scope",
    "guarded",
    "is_default",
    "is_opened",
    "late_libraries",
    "libraries",
    "open_scopes",
    "opened",
    "register_default",
    "require_libraries",
    "running",
    "running_scope",
    "start_own_default",
]

T = TypeVar("T")


class Scope(Protocol):
    """Where code runs that makes variables, calls steps and needs seeds; strategies are scopes."""

    # The classes of variables and of steps lie above this module.
    def create(self, variable: Any, value: Array, /) -> None:
        """Place a new variable, with this first value."""
        ...

    def run_step(self, fn: Any, args: Sequence[Tree], kwargs: dict[str, Tree], /) -> Tree:
        """Run a step that was called directly, and return its values."""
        ...

    def eagerly(self, fn: Callable[[], T], name: str, counts: bool = True, /) -> T:
        """Run a function as a step of its own, once; `counts`: whether tasks have taken one step more then."""
        ...

    @property
    def seeding_task(self) -> str | None:
        """The task as which all of its programs draw their seeds, so that what they make is equal; None: each as its own."""
        ...

    def next_seed(self) -> int:
        """A seed for something that was made without one."""
        ...


class Library(Protocol):
    """A library that has variables of its own, which a scope can own."""

    def opened(self, scope: Scope, /) -> AbstractContextManager[object]:
        """Entered while a scope is open: the library's variables that are made belong to it."""
        ...

    def guard(self) -> AbstractContextManager[object]:
        """Entered while a step is traced: the library's variables that belong to no scope are refused."""
        ...

    def adopt(self, holder: Any, variable: Any, /) -> bool:
        """Let a variable of the library have its value in one of ours; False: it is not of this library."""
        ...

    def saved_parts(self, holder: Any, /) -> SavedParts | None:
        """What an object of the library has to be saved; None: it is not of this library."""
        ...


libraries: list[Library] = []
"""The libraries that are in use; each adds itself."""

late_libraries: dict[str, Callable[[], object]] = {}
"""What adds a library, by the name of its module; called where that has been imported by the time a scope is opened."""

open_scopes: TaskLocal[list[Scope]] = TaskLocal(list)
"""The scopes that are open, the innermost last."""

_running: TaskLocal[list[Scope]] = TaskLocal(list)
_common_default: list[Scope] = []
_default: TaskLocal[list[Scope]] = TaskLocal(lambda: _common_default)
_make_default: list[Callable[[], Scope]] = []


@contextmanager
def opened(scope: Scope) -> Iterator[None]:
    """Code inside belongs to this scope.

    Raises:
        FailedPreconditionError: another scope is open, or another thread has a scope open, or drives a cluster now.
    """
    driving_thread.require()
    stack, openings = open_scopes.get(), _openings.get()
    if openings and openings[-1].thread != threading.get_ident():  # whichever thread ended first would close both
        raise FailedPreconditionError(
            f"Another thread has the scope of {type(stack[-1]).__name__} open, and the open scope is that of all threads. Open one after "
            "the other, or run each program in a process of its own (concurrent.futures.ProcessPoolExecutor)."
        )
    if stack and stack[-1] is not scope:
        outer, inner = type(stack[-1]).__name__, type(scope).__name__
        if not openings:  # of the strategy whose closures this task runs
            raise FailedPreconditionError(f"A closure of {outer} cannot open the scope of {inner}. A main of cluster.launch can.")
        raise FailedPreconditionError(f"The scope of {outer} is open; close it before opening that of {inner}.")
    _late_libraries_added()
    depth, num_openings, closing = len(stack), len(openings), ExitStack()  # a worker's scope is open without an opening
    opening = _Opening(scope, closing)
    try:
        stack.append(scope)
        openings.append(opening)
        opening.enter_libraries()
        yield
        require_libraries()
    finally:
        with delayed_interrupts():  # nobody could close a scope that is left open
            del stack[depth:], openings[num_openings:]
            closing.close()


class _Opening:
    """A scope that is open, with the libraries that have been entered for it."""

    def __init__(self, scope: Scope, closing: ExitStack) -> None:
        self.scope = scope
        self.closing = closing
        self.thread = threading.get_ident()
        self.num_libraries = 0

    def enter_libraries(self) -> None:
        """Let those take part that do not yet."""
        for library in libraries[self.num_libraries :]:
            self.closing.enter_context(library.opened(self.scope))
        self.num_libraries = len(libraries)


_openings: TaskLocal[list[_Opening]] = TaskLocal(list)


def add_library(library: Library) -> None:
    """Let a library take part from now on, in the scopes of this task that are open, too."""
    libraries.append(library)
    for opening in _openings.get():
        opening.enter_libraries()


def _late_libraries_added() -> bool:
    """Add the libraries that have been imported meanwhile; whether there are such."""
    before = len(libraries)
    for name in [name for name in late_libraries if name in sys.modules]:
        late_libraries[name]()
        del late_libraries[name]
    return len(libraries) > before


def require_libraries() -> None:
    """Refuse a scope that was open when a library was imported: it does not own what the library has made in it.

    Raises:
        FailedPreconditionError: a scope of this task is one.
    """
    openings = _openings.get()
    if openings and (_late_libraries_added() or openings[-1].num_libraries < len(libraries)):
        raise FailedPreconditionError(
            "Keras was imported for the first time while strategy.scope() was open, so what it has made there belongs to no strategy. "
            "Write `from simdist import keras` first, before the scope is opened."
        )


@contextmanager
def running(scope: Scope) -> Iterator[None]:
    """Code inside runs for a replica of this scope, whichever scope is open."""
    stack = _running.get()
    stack.append(scope)
    try:
        yield
    finally:
        if stack and stack[-1] is scope:  # Ctrl-C may have ended it before the block began: then it is closed any time later
            stack.pop()


@contextmanager
def guarded() -> Iterator[None]:
    """A step is traced inside: every library refuses variables that belong to no scope."""
    with ExitStack() as guards:
        for library in libraries:
            guards.enter_context(library.guard())
        yield


def running_scope() -> Scope | None:
    """The scope for whose replicas code runs; None outside of them."""
    stack = _running.get()
    return stack[-1] if stack else None


def chosen_scope() -> Scope | None:
    """The scope that was chosen for the code that runs now: for whose replicas it runs, or which is open; None: nobody has chosen."""
    runs, stack = running_scope(), open_scopes.get()
    if stack:
        return stack[-1] if runs is None else runs
    return None if runs is None or is_default(runs) else runs


def current_scope() -> Scope:
    """The scope of the code that runs now: for whose replicas it runs, else the one that is open, else the default one."""
    runs, stack = running_scope(), open_scopes.get()
    if runs is not None:
        return runs
    return stack[-1] if stack else _default_scope()


def is_opened() -> bool:
    """Whether code of this task has opened a scope; that of the strategy whose closures a worker runs is open without."""
    return bool(_openings.get())


def is_default(scope: object) -> bool:
    """Whether it is the scope of those who have chosen none."""
    return any(scope is known for known in _default.get())


def _default_scope() -> Scope:
    _late_libraries_added()  # nobody opens this scope
    known = _default.get()
    if not known:
        if not _make_default:
            raise FailedPreconditionError("No scope is open, and none was registered for this case. Import simdist, or open a scope.")
        known.append(_make_default[-1]())
    return known[0]


def register_default(make: Callable[[], Scope]) -> None:
    """Say how the scope of those is made who have chosen none."""
    _make_default.append(make)


def start_own_default(context: TaskContext) -> None:
    """Let a task have a default scope of its own, which goes when the task does: it stands for a process of its own."""
    _default.set([], context)
