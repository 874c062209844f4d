"""Whether what a function reaches is still what it was: bindings, contents of containers, numbers in arrays.

A watch keeps what it compares with, so an object that is compared by identity stays alive, and nothing else can take its place.

Taught in lesson 01.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from operator import is_

from simdist.data.leaves import Array

__all__ = ["MISSING", "Same", "Watches"]

MISSING = object()  # in place of what a name is not bound to
# Entries that are compared again, for one function: after some hundredths of a second it is no longer worth it. What little there is to
# compare for most functions takes a small part of the time of the row that was computed before.
ALLOWANCE = 2_000_000


class Same:
    """An object that equals itself alone, as a part of a key.

    Example:
        >>> Same([]) == Same([]), Same(len) == Same(len)
        (False, True)
    """

    __slots__ = ("part",)

    def __init__(self, part: object) -> None:
        self.part = part

    def __hash__(self) -> int:
        return id(self.part)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.part is other.part


class Watches:
    """What was found on the way through all that a function reaches."""

    def __init__(self) -> None:
        self._bindings: list[tuple[Mapping[str, object], str, object]] = []
        self._sizes: list[tuple[Collection[object], int]] = []
        self._cells: list[tuple[types.CellType, object]] = []
        self._contents: list[tuple[Callable[[], list[object]], list[object]]] = []
        self._arrays: list[tuple[Array, tuple[object, ...]]] = []
        self._cost = 5  # of one comparison, in entries
        self._left = ALLOWANCE

    def bind(self, names: Mapping[str, object], name: str, value: object) -> None:
        """A name is bound to this object, or to nothing (`MISSING`)."""
        self._bindings.append((names, name, value))
        self._cost += 1

    def size(self, names: Collection[object]) -> None:
        """There are as many names as now."""
        self._sizes.append((names, len(names)))

    def cell(self, cell: types.CellType) -> object:
        """A closure's cell holds what it holds now, which is returned."""
        content = content_of(cell)
        self._cells.append((cell, content))
        return content

    def contents(self, read: Callable[[], list[object]]) -> list[object]:
        """A container holds the objects that it holds now, which are returned."""
        found = read()
        self._contents.append((read, found))
        self._cost += len(found)
        return found

    def array(self, array: Array) -> tuple[object, ...]:
        """An array holds the numbers that it holds now, which are returned as bytes."""
        stamp = stamp_of(array)
        self._arrays.append((array, stamp))
        self._cost += array.nbytes // 64
        return stamp

    def are_unchanged(self) -> bool:
        """True if it is certain that nothing has changed."""
        self._left -= self._cost
        if self._left < 0:
            return False
        for names, name, value in self._bindings:
            if names.get(name, MISSING) is not value:
                return False
        for names, size in self._sizes:
            if len(names) != size:
                return False
        for cell, content in self._cells:
            if content_of(cell) is not content:
                return False
        for read, found in self._contents:
            if not is_same_list(read(), found):
                return False
        return all(stamp_of(array) == stamp for array, stamp in self._arrays)


def content_of(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def is_same_list(now: list[object], before: list[object]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def stamp_of(array: Array) -> tuple[object, ...]:
    return array.dtype.str, array.dtype.name, array.shape, array.tobytes()
