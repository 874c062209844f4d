"""What a function takes from around it, which may stand for something else when it is first called.

TensorFlow traces a function where it is given: in ``dataset.map``, in ``coordinator.schedule``. Here it is called when the first element,
or a worker, needs it. In a loop that gives one function for each ``i``, all would take the last ``i``, as functions of Python do. So the
names that a function reads are noted where it is given, and where one has another value when it is first called, a warning says so.

Invariant: what is noted keeps no function alive, and nothing that may have one in it.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import cast

import numpy as np

from simdist.arguments import name_of_function, shown
from simdist.data.code_names import names_in

__all__ = ["note_names", "warn_of_changed_names"]

Plain = bool | int | float | complex | str | bytes | np.generic | None  # two objects of one value are the same
PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


@dataclass(frozen=True)
class NameRead:
    """A name that a function reads, and what it stood for: a plain value, or a reference to an object."""

    name: str
    reader: weakref.ref[FunctionType]
    value: Plain | weakref.ref[object]


_noted: weakref.WeakKeyDictionary[FunctionType, tuple[NameRead, ...]] = weakref.WeakKeyDictionary()


def note_names(fn: object) -> None:
    """Note what a function that was given takes from around it, until it is first called."""
    function = _function_of(fn)
    if function is not None and function not in _noted:
        _noted[function] = tuple(_names_of(function))


def warn_of_changed_names(fn: object, given_to: str) -> None:
    """Warn of names that stand for something else than where a function was given. To be called before its first call.

    Args:
        fn: the function; of one that is not noted, nothing is known.
        given_to: what, for the message: "schedule".

    Warns:
        UserWarning: a name stands for something else.
    """
    function = _function_of(fn)
    present: dict[FunctionType, dict[str, object]] = {}
    for read in () if function is None else _noted.pop(function, ()):
        reader = read.reader()
        if reader is None:
            continue
        if reader not in present:
            present[reader] = dict(_values(reader))
        now = present[reader]
        if read.name in now and _differs(read.value, now[read.name]):
            before = "another object" if isinstance(read.value, weakref.ref) else shown(read.value)
            warnings.warn(
                f"{name_of_function(fn, 'a function')} takes {read.name} from around it, which was {before} when the function was given "
                f"to {given_to}, and is {shown(now[read.name])} now that it is first called: it takes the present one, and TensorFlow the "
                f"one before. Bind it, as in lambda x, {read.name}={read.name}: ..., or give it as an argument.",
                stacklevel=3,
            )


def _function_of(fn: object) -> FunctionType | None:
    function = fn.__func__ if isinstance(fn, MethodType) else fn
    return function if isinstance(function, FunctionType) else None


def _names_of(function: FunctionType) -> list[NameRead]:
    """The names that a function reads, and those of functions that it calls by such a name; none that one of them assigns.

    Functions of other modules are left out, save for those in its closure, as of one that a decorator was given.
    """
    values: dict[FunctionType, list[tuple[str, object]]] = {}
    found = [function]
    for reader in found:
        if reader not in values:
            values[reader] = list(_values(reader))
            called = [(name, value) for name, value in values[reader] if isinstance(value, FunctionType) and value not in values]
            enclosed = reader.__code__.co_freevars
            found += [value for name, value in called if name in enclosed or value.__globals__ is reader.__globals__]
    assigned = frozenset[str]().union(*[names_in(reader.__code__).assigned for reader in values])
    reads = [_read(name, reader, value) for reader, named in values.items() for name, value in named if name not in assigned]
    return [read for read in reads if read is not None]


def _read(name: str, reader: FunctionType, value: object) -> NameRead | None:
    if isinstance(value, PLAIN):
        return NameRead(name, weakref.ref(reader), cast("Plain", value))
    return NameRead(name, weakref.ref(reader), weakref.ref(value)) if type(value).__weakrefoffset__ else None


def _values(function: FunctionType) -> Iterator[tuple[str, object]]:
    """The names from around a function, with what they stand for."""
    names = names_in(function.__code__)
    for name in names.globals:
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
        yield name, value


def _differs(before: Plain | weakref.ref[object], now: object) -> bool:
    if isinstance(before, weakref.ref):
        return before() is not now
    if type(before) is not type(now):
        return True
    is_no_number = bool(before != before) and bool(now != now)  # equals nothing, not even itself
    return before is not now and not is_no_number and bool(before != now)
