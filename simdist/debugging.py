"""Debugging: clusters compute at once, stop at the first task that fails, and report where that was.

Numbers are normally computed late, and an error of a worker waits until the next `join`. While debugging is on, clusters that
are made compute every operation at once (``numerics="eager"``: the same bits), and the first error of a task ends the
blocking call that the notebook is in, with virtual time standing still at the failure.

What may live in this file: the switch, and the report. It knows no cluster: the caller that sees an error says where it was.
"""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from simdist.arguments import flag
from simdist.errors import notes_of

__all__ = ["debug", "is_on", "position", "report", "turn", "users_line"]

ENVIRONMENT = "SIMDIST_DEBUG"
# Frames of these are the engine's, not the user's.
NOT_THE_USERS = ("simdist", "jax", "jaxlib", "jax_plugins", "keras", "greenlet", "simpy", "optax", "numpy", "importlib")

_switch: dict[str, bool] = {}


def is_on() -> bool:
    """Whether debugging is on: by `debug`, or by SIMDIST_DEBUG=1 in the environment."""
    return _switch.get("on", os.environ.get(ENVIRONMENT, "") not in ("", "0"))


def position() -> bool | None:
    """The position of the switch; None: nobody has touched it, and SIMDIST_DEBUG counts."""
    return _switch.get("on")


def turn(on: bool | None) -> None:
    """Put the switch into a position, as `position` gives it."""
    _switch.clear()
    if on is not None:
        _switch["on"] = on


class debug(AbstractContextManager[None]):  # it is called like a function
    """Switch debugging on (or off), for good or for a ``with`` block.

    Args:
        on: False switches it off.

    Raises:
        TypeError: it is neither True nor False.

    Example:
        >>> import simdist as sd
        >>> with sd.debug():
        ...     print(sd.Cluster({"worker": 1, "ps": 1}).numerics)
        eager
        >>> sd.Cluster({"worker": 1, "ps": 1}).numerics
        'deferred'
    """

    def __init__(self, on: bool = True) -> None:
        self._before = is_on()
        _switch["on"] = flag(on, "on")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _switch["on"] = self._before

    def __repr__(self) -> str:
        return f"debug({'on' if is_on() else 'off'})"


def report(error: BaseException, what: str, task: str, incarnation: int, step: int, now_s: float) -> None:
    """Say on stderr where an error happened, and add the same words to it as a note; once for each error.

    Args:
        error: what was raised.
        what: what the task was doing: "closure 7", "its main".
        task, incarnation, step: where: `step` counts from 1 within `what`; 0 where there are no steps.
        now_s: when, in virtual seconds.
    """
    if not is_on() or any(note.startswith("simdist: ") for note in notes_of(error)):
        return
    in_step = f", in its step {step}" if step else ""
    where = users_line(error)
    place = f"\n  {where}" if where else ""
    text = f"simdist: {what} failed on {task} (incarnation {incarnation}) at {now_s:.9f} s of virtual time{in_step}{place}"
    error.add_note(text)
    print(f"{text}\n  {type(error).__name__}: {error}", file=sys.stderr)


def users_line(error: BaseException) -> str:
    """File, line and text of the innermost frame of the user's own code, or nothing if there is none."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not _is_engine(frame.filename):
            line = frame.line or linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f"{frame.filename}:{frame.lineno}: {line}"
    return ""


def _is_engine(filename: str) -> bool:
    path = Path(filename)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1] in NOT_THE_USERS
    return filename.startswith("<frozen") or Path(__file__).resolve().parent in path.resolve().parents


def __getattr__(name: str) -> NoReturn:
    instead = ". Write instead: sd.check_numerics(array, message)" if name == "check_numerics" else ""  # tf.debugging's
    raise AttributeError(f"module 'simdist.debugging' has no attribute {name!r}{instead}", name=name)
