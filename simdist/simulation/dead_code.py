"""Code that goes on after its fiber has died, because it catches `TaskKilled` as well: it changes nothing, and is left where it stands.

Each call of dead code that would take time, or have an effect, is refused. Code that has been refused too often, as in a loop that catches
everything, does not run again.

Invariant: a fiber is not left inside of a trace of JAX, which all other code of the process would then be in.

What may live in this file: how dead code ends. Not: who kills fibers, and why.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import NoReturn

from simdist.jax_settings import is_jax_tracing
from simdist.simulation.fiber import Fiber, TaskKilled, running

__all__ = ["KILLS_BEFORE_LEFT", "refuse", "require_not_dead", "warn_of"]

KILLS_BEFORE_LEFT = 1_000  # a dead fiber that swallows TaskKilled this often is left where it is
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


def warn_of(fiber: Fiber) -> None:
    """Warn of a dead fiber that was left, if it is one."""
    if fiber.kills > KILLS_BEFORE_LEFT and fiber.abandoned:
        warnings.warn(
            f"The code of {fiber.lane} went on after its task had died, and was left where it stands{_line_of(fiber)}: it catches "
            "BaseException (or has an except: without a class), and so the end of its task as well. Catch Exception instead.",
            RuntimeWarning,
            stacklevel=2,
        )


def _is_library(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    return frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE or "site-packages" in filename or filename.startswith(STANDARD)


def _line_of(fiber: Fiber) -> str:
    for frame, line in walk_stack(fiber.greenlet.gr_frame):
        if not _is_library(frame):
            return f" ({frame.f_code.co_filename}:{line}, in {frame.f_code.co_name})"
    return ""
