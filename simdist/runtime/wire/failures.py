"""Errors as data: their class by name, what they say, and the notes that were added to them."""

from __future__ import annotations

import builtins
from typing import Any

from simdist import errors

__all__ = ["error_of", "plain_error"]

Failure = tuple[str, str, tuple[str, ...]]


def plain_error(error: BaseException) -> Failure:
    """An error as plain values: the nearest of its classes that both sides know, its text, its notes.

    Example:
        >>> plain_error(KeyError("x"))
        ('KeyError', "'x'", ())
    """
    classes = [cls for cls in type(error).__mro__ if _class_of(cls.__name__) is cls]
    cls = classes[0] if classes else RuntimeError
    text = str(error) if cls is type(error) else f"{type(error).__name__}: {error}"
    return cls.__name__, text, errors.notes_of(error)


def error_of(failure: Failure) -> Exception:
    """An error like the one that was sent.

    Example:
        >>> error_of(("InvalidArgumentError", "no such step", ()))
        InvalidArgumentError('no such step')
    """
    name, text, notes = failure
    cls = _class_of(name) or RuntimeError
    try:
        error = cls(text)
    except TypeError:  # one that wants more than a text, such as UnicodeDecodeError
        error = RuntimeError(f"{name}: {text}")
    for note in notes:
        error.add_note(note)
    return error


def _class_of(name: str) -> type[Exception] | None:
    found: Any = vars(errors).get(name) or vars(builtins).get(name)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
