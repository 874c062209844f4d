"""What has changed becomes what it was: bindings, closure cells, entries of containers, numbers of arrays, random generators.

A call that only finds out what a function does, or what an element looks like, must leave nothing behind.

Taught in lesson 08.
"""

from __future__ import annotations

import copy
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from simdist.data.leaves import Array

__all__ = [
    "MISSING",
    "State",
    "content_of",
    "put_binding",
    "put_code",
    "put_content",
    "put_entries",
    "put_numbers",
    "put_slots",
    "state_of",
]

MISSING = object()  # in place of what a name is not bound to


class State(NamedTuple):
    """Where a random generator was."""

    write: Callable[[Any], object]
    found: Any

    def put(self) -> None:
        """Go back there."""
        self.write(self.found)


def state_of(part: object) -> State | None:
    """Where a random generator of Python or of NumPy is, or the one that this is a method of; None for anything else."""
    if isinstance(part, (types.BuiltinMethodType, types.MethodType)):
        part = part.__self__
    if isinstance(part, type):
        return None  # ``random.Random`` itself has the methods, and no state
    holder: Any = part
    if isinstance(part, np.random.Generator | np.random.BitGenerator):
        bits = part.bit_generator if isinstance(part, np.random.Generator) else part
        return State(partial(setattr, bits, "state"), copy.deepcopy(bits.state))
    for read, write in (("getstate", "setstate"), ("get_state", "set_state")):  # of Python's, and of NumPy's older one
        if hasattr(part, read) and hasattr(part, write):
            with suppress(NotImplementedError):  # the generator of the operating system has no state
                return State(getattr(holder, write), getattr(holder, read)())
    return None


def content_of(cell: types.CellType) -> object:
    """What a closure's cell holds; `MISSING` where that is nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def put_content(cell: types.CellType, content: object) -> None:
    """Have a closure's cell hold what it held."""
    if content is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = content


def put_binding(names: Mapping[str, object], name: str, value: object) -> None:
    """Have a name stand for what it stood for; what belongs to a class stays as it is."""
    if not isinstance(names, dict):
        return
    if value is MISSING:
        names.pop(name, None)
    else:
        names[name] = value


def put_entries(part: Any, found: list[object]) -> None:
    """Have a container hold what it held, whatever its class says about it.

    Example:
        >>> numbers = {1: "a"}
        >>> put_entries(numbers, [2, 3, "b", "c"])
        >>> numbers
        {2: 'b', 3: 'c'}
    """
    if isinstance(part, dict):
        half = len(found) // 2
        base: Any = OrderedDict if isinstance(part, OrderedDict) else dict
        base.clear(part)
        base.update(part, zip(found[:half], found[half:], strict=True))
    elif isinstance(part, list):
        list.__setitem__(cast("list[object]", part), slice(None), found)
    elif isinstance(part, set):
        set.clear(cast("set[object]", part))
        set.update(cast("set[object]", part), found)
    elif isinstance(part, deque):
        deque.clear(cast("deque[object]", part))
        deque.extend(cast("deque[object]", part), found)
    elif isinstance(part, np.ndarray):
        for index, item in enumerate(found):
            part.flat[index] = item


def put_slots(part: object, names: Sequence[str], found: list[object]) -> None:
    """Have the slots of an object hold what they held, whatever its class says about it."""
    for name, value in zip(names, found, strict=True):
        if value is not MISSING:
            object.__setattr__(part, name, value)
        elif hasattr(part, name):
            object.__delattr__(part, name)


def put_code(fn: types.FunctionType, found: Any) -> None:
    """Have a function be what it was."""
    fn.__code__, fn.__defaults__, fn.__kwdefaults__ = found


def put_numbers(array: Array, stamp: tuple[object, ...]) -> None:
    """Have an array hold the numbers that it held; one that has another shape now stays as it is."""
    kind, _, shape, content = stamp
    if array.dtype.str == kind and array.shape == shape and array.flags.writeable:
        array[...] = np.frombuffer(cast(bytes, content), array.dtype).reshape(array.shape)
