"""Every error that simdist raises on purpose.

Each class is also the built-in class that a Python programmer would expect, so that ``except ValueError``
keeps working, and each message says what was given, what was expected and what to do next.

    SimdistError, which is also OpError
    ├── InvalidArgumentError     (ValueError)       an argument, a loss or a dataset is not usable
    │   └── ClosureInputError                       a worker could not make a dataset or a resource for a closure
    ├── NotFoundError            (LookupError)      a task, file or variable does not exist
    ├── OutOfRangeError          (RuntimeError)     a dataset has no more elements
    ├── FailedPreconditionError  (RuntimeError)     the call is right, but not now or not here
    ├── UnavailableError         (ConnectionError)  a task is down or cannot be reached
    │   └── TimedOutError                           a message was lost, or there was no reply in time
    ├── AbortedError             (RuntimeError)     a task came back without its state
    ├── CancelledError           (RuntimeError)     the work was dropped because other work failed
    ├── DataLossError            (OSError)          a file is damaged
    ├── DeadlineExceededError    (TimeoutError)     nothing can ever satisfy this wait, or it took too long
    └── ResourceExhaustedError   (MemoryError)      a device, a disk or a queue is full
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AbortedError",
    "CancelledError",
    "ClosureInputError",
    "ConstantReadWarning",
    "DataLossError",
    "DeadlineExceededError",
    "DenseReadWarning",
    "DenseUpdateWarning",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "LossSumWarning",
    "LostAssignmentWarning",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "ResourceExhaustedError",
    "SimdistError",
    "TimedOutError",
    "UnavailableError",
    "did_you_mean",
    "notes_of",
]


class SimdistError(Exception):
    """The common base of all errors of this package."""


OpError = SimdistError
"""The name that TensorFlow has for the common base."""


class ConstantReadWarning(UserWarning):
    """A function that JAX compiles outside of every step reads a variable, and keeps the number that it has then."""


class DenseReadWarning(UserWarning):
    """A step moves a whole table where it looks up rows: their numbers are not known before it runs, or replicas look up others."""


class LossSumWarning(UserWarning):
    """Code of the user's own takes a sum over the rows of one replica, where a loss counts as a mean over them."""


class LostAssignmentWarning(UserWarning):
    """Steps of several workers assign a variable, each without what the others assign; or replicas one that is read as their sum."""


class DenseUpdateWarning(UserWarning):
    """An optimizer changes all rows of a large table in each update, because its rule changes rows without a gradient, too."""


class InvalidArgumentError(SimdistError, ValueError):
    """An argument, a value or a dataset cannot be used as it is."""


class ClosureInputError(InvalidArgumentError):
    """A dataset, iterator or resource that a closure needs could not be made on its worker; the cause says why."""


class NotFoundError(SimdistError, LookupError):
    """A task, a file or a variable that was named does not exist."""


class OutOfRangeError(SimdistError, RuntimeError):
    """A dataset has no more elements."""


class FailedPreconditionError(SimdistError, RuntimeError):
    """The call itself is right, but it cannot be made now or here."""


class UnavailableError(SimdistError, ConnectionError):
    """A task is down, or cannot be reached."""


class TimedOutError(UnavailableError):
    """A request or its reply was lost, or the other task does not reply; the request may be repeated."""


class AbortedError(SimdistError, RuntimeError):
    """A task restarted without the state that the caller relied on."""


class CancelledError(SimdistError, RuntimeError):
    """The work was dropped because other work failed first."""


class DeadlineExceededError(SimdistError, TimeoutError):
    """A wait took longer than allowed, or nothing is left that could end it."""


class DataLossError(SimdistError, OSError):
    """A file is not what was saved: it is truncated, changed, or not readable."""


class ResourceExhaustedError(SimdistError, MemoryError):
    """A device, a disk or a queue is full."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that lists the known names, the nearest one first.

    Args:
        name: what was given.
        known: the names that would have worked.

    Returns:
        Text to append to an error message.

    Example:
        >>> did_you_mean("wroker:1", ["worker:0", "worker:1"])
        "Did you mean 'worker:1'? Known: 'worker:0', 'worker:1'."
    """
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=1)
    listed = ", ".join(repr(item) for item in known) or "none"
    question = f"Did you mean {near[0]!r}? " if near else ""
    return f"{question}Known: {listed}."


def notes_of(error: BaseException) -> tuple[str, ...]:
    """The notes that were added to an error; Python gives it a list of them with the first one.

    Example:
        >>> notes_of(ValueError("x"))
        ()
    """
    return tuple(map(str, getattr(error, "__notes__", ())))
