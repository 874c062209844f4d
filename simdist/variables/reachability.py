"""Variables that nobody can reach any more: what stands for them, and what becomes of their numbers and of their memory.

A strategy knows all variables that were ever made in its scope: each has its place in the shard map and its bytes on devices. It does not
keep them alive. Of one that has died a *stand-in* stays, with its name, its shape and its cells, so that nothing that a program can see,
and no second of virtual time, depends on the moment at which Python's collector comes by.

Numbers are given up when the next variable is made: that shows nowhere. Bytes on devices are given back where one is full, after a
collection: by then all that nobody can reach has died, whenever the collector came by before.

Invariant: the numbers of a group are given up only when each variable that has a cell of it has died. A program holds its variables, and
whatever runs or will run holds its program.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar
from weakref import WeakValueDictionary, ref

from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group

__all__ = ["DeadVariables", "KnownVariable", "KnownVariables", "Reachable"]

# Numbers are given up when those who have died since the last time had so many bytes: to find the living ones, each is looked at.
MANY_BYTES = 1 << 20

# Passes of the collector after which some garbage may be left: objects that make new garbage when they go would keep it busy for ever.
MOST_PASSES = 8


class Reachable:
    """What a variable does when nobody can reach it any more.

    Attributes:
        known: what its strategy has of it; None before it has a place.
    """

    placement: Any
    known: KnownVariable[Any] | None = None

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        variable = super().__new__(cls)
        _living[id(variable)] = variable
        return variable

    def __del__(self) -> None:
        # The interpreter may be about to end: no name of this module is used on the way.
        if self.known is not None:
            self.known.died(self)


_living: WeakValueDictionary[int, Reachable] = WeakValueDictionary()

V = TypeVar("V", bound=Reachable)


class KnownVariable(Generic[V]):
    """What a strategy has of a variable: the variable, without keeping it alive, then its stand-in."""

    def __init__(self, variable: V) -> None:
        self._variable = ref(variable)
        self._stand_in: V | None = None

    @property
    def is_dropped(self) -> bool:
        """Whether its memory was given back."""
        return self._stand_in is not None and all(cell.is_dropped for cell in self._stand_in.placement.cells)

    def present(self) -> V:
        """The variable; after its death its stand-in."""
        variable = self._variable()
        found = self._stand_in if variable is None else variable  # `or` would ask for its value
        assert found is not None
        return found

    def living(self) -> V | None:
        """The variable; None after its death."""
        return self._variable()

    def died(self, variable: V) -> None:
        """The variable is dying: its stand-in takes what it has."""
        stand_in = object.__new__(type(variable))
        stand_in.__dict__.update(variable.__dict__)
        for name in ("companions", "keras_variable", "known"):  # what its user has made of it, other variables, and itself
            stand_in.__dict__.pop(name, None)
        self._stand_in = stand_in
        layout: Layout = variable.placement.store.layout
        layout.versions.died(layout, variable.placement.cells)


class KnownVariables(Generic[V]):
    """All variables of one strategy, in the order in which they were made.

    Attributes:
        num_made: how many there were ever.
    """

    def __init__(self) -> None:
        self._known: list[tuple[int, KnownVariable[V]]] = []
        self.num_made = 0

    def append(self, variable: V) -> None:
        """A variable was made in the scope of the strategy."""
        known = variable.known = variable.known or KnownVariable(variable)
        self._known.append((self.num_made, known))
        self.num_made += 1

    def made_after(self, number: int) -> list[V]:
        """Those that were made after so many others: variables, and stand-ins of those that have died and still have their memory."""
        return [known.present() for known in self.known(number)]

    def known(self, number: int = 0) -> list[KnownVariable[V]]:
        """What there is of those that were made after so many others and have memory; it does not keep variables alive."""
        self._known = [entry for entry in self._known if not entry[1].is_dropped]
        return [known for made, known in self._known if made >= number]

    def all(self) -> list[V]:
        """All that have memory: variables, and stand-ins of those that have died."""
        return self.made_after(0)

    def reachable(self) -> list[V]:
        """Those that a program can still reach, whenever the collector came by before."""
        _collect()
        return [variable for _, known in self._known if (variable := known.living()) is not None]


class DeadVariables:
    """The cells of variables that have died. An engine has one, for all its strategies."""

    def __init__(self) -> None:
        self._new: list[Buried] = []
        self._given_up: list[Buried] = []  # that still have bytes on devices
        self._new_bytes = 0

    def add(self, layout: Layout, cells: list[Cell]) -> None:
        """A variable with these cells is dying."""
        self._new.append((layout, cells))
        for cell in cells:
            self._new_bytes += cell.aval.size_bytes

    def give_up_numbers(self, give_up: Callable[[int], None]) -> None:
        """Give up the numbers of groups that nobody can read any more, if they are many.

        Args:
            give_up: of a group, by its number.
        """
        if self._new_bytes < MANY_BYTES:
            return
        new, self._new, self._new_bytes = self._new, [], 0  # the collector may come by in the middle of this, and add others
        in_use = _groups_in_use()
        for layout, cells in new:
            groups = dict.fromkeys(cell.group for cell in cells)
            for group in groups:
                if group not in in_use:
                    give_up(group.number)
            (self._new if in_use.intersection(groups) else self._given_up).append((layout, cells))

    def make_room(self) -> bool:
        """Give back the bytes on devices of all variables that nobody can reach; return whether there were any."""
        _collect()
        known, self._new, self._given_up, self._new_bytes = [*self._given_up, *self._new], [], [], 0
        in_use, has_found = _groups_in_use(), False
        for layout, cells in known:
            groups = dict.fromkeys(cell.group for cell in cells)
            found = [cell for group in groups if group not in in_use for cell in group.kept]
            layout.drop(found)
            has_found = has_found or bool(found)
            if in_use.intersection(groups):
                self._new.append((layout, cells))
        return has_found


Buried = tuple[Layout, list[Cell]]


def _collect() -> None:
    """Collect all garbage: what a first pass finds, a fiber that waits for ever for example, may keep more of it until it is gone."""
    for _ in range(MOST_PASSES):
        if not gc.collect():
            return


def _groups_in_use() -> set[Group]:
    """The groups of which some variable that lives has a cell."""
    placed = [variable for variable in list(_living.values()) if "placement" in vars(variable)]
    return {cell.group for variable in placed for cell in variable.placement.cells}
