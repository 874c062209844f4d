"""Code that goes on after its fiber has died, because it catches `TaskKilled` as well, and how it ends all the same.

A dead fiber has a few ways to go on: it calls what blocks again and again, or it runs without any such call. Each call that is refused
counts; for code without calls a thread waits, and raises `Blow` in it from outside, which counts as many. Who has been refused too often
is left where it stands: its code does not run again.

Invariants:

- Code that ends by itself within `PATIENCE_S` real seconds never sees a `Blow`. One that was sent and has not struck is taken back.
- A fiber is not left inside of a trace of JAX, which all other code of the process would then be in. A blow strikes code of
  users as long as there is hope: in a library, as JAX, it would leave half-made things behind.

What may live in this file: how dead code ends. Not: who kills fibers, and why.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import NoReturn

from simdist.process_state import is_jax_tracing
from simdist.simulation.fiber import Fiber, TaskKilled, running

__all__ = ["KILLS_BEFORE_LEFT", "after_death", "refuse", "require_not_dead", "warn_of"]

KILLS_BEFORE_LEFT = 1_000  # a dead fiber that swallows TaskKilled this often is left where it is
KILLS_OF_A_BLOW = 200  # so many refused calls one counts for
PATIENCE_S = 10.0  # real seconds that dead code may take to end
PATIENCE_IN_LIBRARIES_S = 30.0  # the same, for code that seems to be in libraries whenever one looks
PAUSE_S = 0.5  # real seconds after which the thread finds out whether there is dead code still
BLOW_S = 0.02  # real seconds between one blow and the next
STANDARD = str(Path(os.__file__).parent) + os.sep  # where Python's library lies
PACKAGE = __name__.partition(".")[0]


def refuse(fiber: Fiber) -> NoReturn:
    """Refuse what a dead fiber has called, or leave the fiber there.

    Raises:
        TaskKilled: always, if it returns at all.
    """
    fiber.kills += 1
    killed = TaskKilled(f"{fiber.lane} is dead")
    if fiber.kills > KILLS_BEFORE_LEFT and not is_jax_tracing():
        fiber.clock.leave(fiber, killed)
    raise killed


def require_not_dead() -> None:
    """Refuse what would have an effect at once, in a fiber that has died.

    Raises:
        TaskKilled: it has.
    """
    fiber = running.fiber
    if fiber is not None and fiber.dead:
        refuse(fiber)


class Blow(BaseException):
    """Raised in dead code from another thread, which can give a class alone: Python makes the object where it is raised or caught."""

    def __init__(self) -> None:
        super().__init__("the task of this code is dead")
        fiber = running.fiber
        if fiber is not None and fiber.dead:
            fiber.kills += KILLS_OF_A_BLOW
            if _is_outside_of_libraries(sys._getframe(1)):
                refuse(fiber)


@dataclass
class Dying:
    """A dead fiber whose code may still run.

    Attributes:
        thread: it runs on.
        since_s: of the clock of the machine.
        was_struck: whether a blow was sent.
    """

    fiber: Fiber
    thread: int = field(default_factory=threading.get_ident)
    since_s: float = field(default_factory=time.monotonic)
    was_struck: bool = False


class AfterDeath:
    """Waits for the end of dead code, on a thread that lives as long as there is some."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dying: list[Dying] = []
        self._thread: threading.Thread | None = None

    def begin(self, fiber: Fiber) -> None:
        """The code of a fiber goes on now, after its death."""
        fiber.ending = self.end
        if self._thread is not None and not self._thread.is_alive():  # no thread survives a fork, and a lock may be held for ever
            self._lock, self._thread = threading.Lock(), None
        with self._lock:
            self._dying.append(Dying(fiber))
            if self._thread is None:
                self._thread = threading.Thread(target=self._wait, name="end of dead code", daemon=True)
                self._thread.start()

    def end(self, fiber: Fiber) -> None:
        """It has ended."""
        with self._lock:
            for dying in [dying for dying in self._dying if dying.fiber is fiber]:
                self._dying.remove(dying)
                if dying.was_struck:
                    _raise_in(dying.thread, None)
                    fiber.kills = max(fiber.kills, KILLS_BEFORE_LEFT + 1)

    def _wait(self) -> None:
        pause_s = PAUSE_S
        while True:
            time.sleep(pause_s)
            with self._lock:
                if not self._dying:
                    self._thread = None
                    return
                are_late = [self._strike(dying, time.monotonic() - dying.since_s) for dying in self._dying]
            pause_s = BLOW_S if any(are_late) else PAUSE_S

    def _strike(self, dying: Dying, seconds: float) -> bool:
        """End code that has run for so long, if that is too long; return whether it is."""
        if seconds < PATIENCE_S:
            return False
        if running.fiber is dying.fiber and (
            seconds > PATIENCE_IN_LIBRARIES_S or _is_outside_of_libraries(sys._current_frames()[dying.thread])
        ):
            dying.was_struck = True
            _raise_in(dying.thread, Blow)
        return True


def _is_library(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    return frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE or "site-packages" in filename or filename.startswith(STANDARD)


def _is_outside_of_libraries(frame: FrameType) -> bool:
    """Whether code of users runs that no library has called, but the start of its fiber: ended here, it leaves nothing half done."""
    are_libraries = [_is_library(frame) for frame, _ in walk_stack(frame)]
    return not are_libraries[0] and are_libraries == sorted(are_libraries)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Let a thread raise such an error at its next step; None takes back what it has not raised yet."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), None if kind is None else ctypes.py_object(kind))


after_death = AfterDeath()


def warn_of(fiber: Fiber) -> None:
    """Warn of a dead fiber that did not end by itself, if it is one."""
    if fiber.kills <= KILLS_BEFORE_LEFT:
        return
    how = f"was left where it stands{_line_of(fiber)}" if fiber.abandoned else "was ended from outside"
    warnings.warn(
        f"The code of {fiber.lane} went on after its task had died, and {how}: it catches BaseException (or has an except: without a "
        "class), and so the end of its task as well. Catch Exception instead.",
        RuntimeWarning,
        stacklevel=2,
    )


def _line_of(fiber: Fiber) -> str:
    for frame, line in walk_stack(fiber.greenlet.gr_frame):
        if not _is_library(frame):
            return f" ({frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"
    return ""
