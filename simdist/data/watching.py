"""Whether what a function reaches is still what it was: bindings, contents of containers, numbers in arrays.

A watch keeps what it compares with, so an object that is compared by identity stays alive, and nothing else can take its place.

Taught in lesson 08.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from functools import partial
from operator import is_

from simdist.data.leaves import Array
from simdist.data.putting_back import MISSING, State, content_of, put_binding, put_content, put_numbers, state_of

__all__ = ["Same", "Watches"]

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
    """What was found on the way through all that a function reaches.

    Attributes:
        of_objects: True while what is found belongs to an object, a class or a module; else it is data that the function itself names.
    """

    def __init__(self) -> None:
        self.of_objects = False
        self._bindings: list[tuple[Mapping[str, object], str, object, bool]] = []
        self._sizes: list[tuple[Collection[object], int]] = []
        self._cells: list[tuple[types.CellType, object, bool]] = []
        self._contents: list[tuple[Callable[[], list[object]], Callable[[list[object]], object], list[object], bool]] = []
        self._arrays: list[tuple[Array, tuple[object, ...], bool]] = []
        self._generators: list[tuple[State, bool]] = []
        self._cost = 5  # of one comparison, in entries
        self._left = ALLOWANCE

    def bind(self, names: Mapping[str, object], name: str, value: object) -> None:
        """A name is bound to this object, or to nothing (`MISSING`)."""
        self._bindings.append((names, name, value, self.of_objects))
        self._cost += 1

    def size(self, names: Collection[object]) -> None:
        """There are as many names as now."""
        self._sizes.append((names, len(names)))

    def cell(self, cell: types.CellType) -> object:
        """A closure's cell holds what it holds now, which is returned."""
        content = content_of(cell)
        self._cells.append((cell, content, self.of_objects))
        return content

    def contents(self, read: Callable[[], list[object]], put: Callable[[list[object]], object]) -> list[object]:
        """A container holds the objects that it holds now, which are returned; `put` has it hold them again."""
        found = read()
        self._contents.append((read, put, found, self.of_objects))
        self._cost += len(found)
        return found

    def array(self, array: Array) -> tuple[object, ...]:
        """An array holds the numbers that it holds now, which are returned as bytes."""
        stamp = stamp_of(array)
        self._arrays.append((array, stamp, self.of_objects))
        self._cost += array.nbytes // 64
        return stamp

    def generator(self, part: object) -> bool:
        """A random generator is where it is now; False for one whose state is not known."""
        state = state_of(part)
        if state is not None:
            self._generators.append((state, self.of_objects))
        return state is not None

    def are_unchanged(self) -> bool:
        """True if it is certain that nothing has changed."""
        self._left -= self._cost
        if self._left < 0:
            return False
        for names, name, value, _ in self._bindings:
            if names.get(name, MISSING) is not value:
                return False
        for names, size in self._sizes:
            if len(names) != size:
                return False
        for cell, content, _ in self._cells:
            if content_of(cell) is not content:
                return False
        for read, _, found, _ in self._contents:
            if not is_same_list(read(), found):
                return False
        return all(stamp_of(array) == stamp for array, stamp, _ in self._arrays)

    def put_back(self, with_objects: bool) -> bool:
        """Have what has changed as it was.

        Args:
            with_objects: also what belongs to objects, classes and modules: all of which must be known, as the parts of one object
                depend on each other.

        Returns:
            True if something had changed.
        """
        changed: list[Callable[[], object]] = []
        for names, name, value, of_object in self._bindings:
            if (with_objects or not of_object) and names.get(name, MISSING) is not value:
                changed.append(partial(put_binding, names, name, value))
        for cell, content, of_object in self._cells:
            if (with_objects or not of_object) and content_of(cell) is not content:
                changed.append(partial(put_content, cell, content))
        for read, put_found, found, of_object in self._contents:
            if (with_objects or not of_object) and not is_same_list(read(), found):
                changed.append(partial(put_found, found))
        for array, stamp, of_object in self._arrays:
            if (with_objects or not of_object) and stamp_of(array) != stamp:
                changed.append(partial(put_numbers, array, stamp))
        for state, of_object in self._generators:
            if with_objects or not of_object:
                state.put()
        for put in changed:
            put()
        return bool(changed)


def is_same_list(now: list[object], before: list[object]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def stamp_of(array: Array) -> tuple[object, ...]:
    return array.dtype.str, array.dtype.name, array.shape, array.tobytes()
