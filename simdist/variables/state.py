"""Where values live: cells in groups, on tasks.

A *cell* is one stored piece of a variable: the whole of it, or one shard. A *group* is the cells on one task that one
update changes together, with the optimizer's slots beside them; its present value is one bundle, so that an update
makes one new version, and a read of a group is a reference to a version.

Invariants: a cell belongs to one group; a group belongs to one task; a group that was lost with its task has no bundle,
and whoever reads it gets `UnavailableError`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from simdist.errors import UnavailableError
from simdist.program.values import Aval, Bundle

__all__ = ["Cell", "Group", "Layout", "Owner", "PlacementRecord", "owner_of", "task_of"]


def task_of(place: str) -> str:
    """The task of a place: ``worker:0`` of ``worker:0/gpu:1``."""
    return place.partition("/")[0]


@dataclass(frozen=True)
class PlacementRecord:
    """One line of a shard map: which rows of which variable lie on which task."""

    variable: str
    shape: tuple[int, ...]
    dtype: str
    shard: int
    num_shards: int
    task: str
    row_start: int
    row_stop: int
    size_bytes: int
    kind: str


class Group:
    """Arrays of one task, or of several that hold equal copies, which change together.

    `bundle` is the present version; None after all that held it have died.
    """

    __slots__ = ("bundle", "cells", "places", "task", "version")

    def __init__(self, task: str, cells: Sequence[Cell], bundle: Bundle) -> None:
        self.task = task
        self.places: tuple[str, ...] = tuple(cells[0].places)
        self.cells = list(cells)
        self.bundle: Bundle | None = bundle
        self.version = 0
        for position, cell in enumerate(self.cells):
            cell.group, cell.position = self, position

    def present(self) -> Bundle:
        """The present version.

        Raises:
            UnavailableError: the task that held it has died.
        """
        if self.bundle is None:
            raise self.lost_error()
        return self.bundle

    def lose(self, task: str) -> None:
        """A task has died, and its copy with it."""
        left = tuple(place for place in self.places if task_of(place) != task)
        if left:
            self.lie_at(left)
        else:
            self.places, self.bundle = (), None

    def lie_at(self, places: tuple[str, ...]) -> None:
        """These devices hold the group from now on."""
        self.places = places
        for cell in self.cells:
            cell.places = places

    def lost_error(self) -> UnavailableError:
        """What whoever needs this group is told after its task died."""
        names = ", ".join(dict.fromkeys(cell.name for cell in self.cells))
        return UnavailableError(
            f"{self.task} has lost its variables ({names}): it crashed after they were made. Build the model again, or "
            "restore a checkpoint."
        )


class Cell:
    """One stored piece of a variable.

    Attributes:
        name: of the variable.
        task: where it lives; of several copies, where the first one does.
        places: the devices that hold it, or held it last: a task, or one of its devices (``worker:0/gpu:1``); more than one for
            equal copies.
        replica: whose own value it is, by the place of the replica among those that are driven here; None where it is no replica's own.
        rows: first and one-past-last row of the whole variable; None for a piece that is no shard.
        kind: "parameter", "slot" or "metric".
    """

    __slots__ = ("aval", "group", "kind", "name", "places", "position", "replica", "rows", "task")

    def __init__(
        self,
        name: str,
        aval: Aval,
        task: str,
        rows: tuple[int, int] | None = None,
        kind: str = "parameter",
        places: Sequence[str] = (),
        replica: int | None = None,
    ) -> None:
        self.name = name
        self.aval = aval
        self.task = task
        self.places = tuple(places) or (task,)
        self.replica = replica
        self.rows = rows
        self.kind = kind
        self.group: Group
        self.position = 0

    def record(self) -> PlacementRecord:
        """The line of a shard map for a cell that belongs to no variable of its own: an optimizer's slot."""
        shape, dtype, rows = self.aval.shape, self.aval.dtype, self.aval.shape[0] if self.aval.shape else 1
        return PlacementRecord(self.name, shape, dtype, 0, 1, self.task, 0, rows, self.aval.size_bytes, self.kind)


# Who changes a cell: a task, and where replicas have values of their own, which of them.
Owner = tuple[str, int | None]


def owner_of(cell: Cell) -> Owner:
    """Who changes a cell."""
    return cell.task, cell.replica


class Layout:
    """All groups of one strategy. A change of who belongs to which group makes linked programs out of date.

    Args:
        hold: is told of each cell that is stored: (place, name, bytes), with negative bytes when it goes.
    """

    def __init__(self, hold: Callable[[str, str, int], None] = lambda task, name, size_bytes: None) -> None:
        self.groups: list[Group] = []
        self.version = 0
        self.hold = hold

    def add(self, cell: Cell, array: Any) -> None:
        """Store a new cell, in a group of its own.

        Raises:
            ResourceExhaustedError: its task has not enough memory.
            UnavailableError: its task is down.
        """
        held: list[str] = []
        try:
            for place in cell.places:
                self.hold(place, cell.name, cell.aval.size_bytes)
                held.append(place)
        except Exception:
            for place in held:
                self.hold(place, cell.name, -cell.aval.size_bytes)
            raise
        self.groups.append(Group(cell.task, [cell], Bundle.of([array])))
        self.version += 1

    def release(self, cells: Sequence[Cell]) -> None:
        """Give back the memory of cells on the devices that hold them."""
        for cell in cells:
            for place in cell.group.places:
                self.hold(place, cell.name, -cell.aval.size_bytes)

    def release_all(self) -> None:
        """The process that made these variables has ended, and its memory with it."""
        for group in self.groups:
            self.release(group.cells)
            group.places, group.bundle = (), None

    def add_group(self, task: str, cells: Sequence[Cell], arrays: Sequence[Any]) -> Group:
        """Store new cells that belong together."""
        group = Group(task, cells, Bundle.of(arrays))
        self.groups.append(group)
        self.version += 1
        return group

    def join(self, cells: Sequence[Cell], arrays_of: Any) -> Group:
        """Make one group of these cells, which lie on one task, and of those that are in groups with them already.

        Args:
            cells: the first of the group, in their order, where it is new.
            arrays_of: gives the arrays of a bundle (the ledger's `parts`).
        """
        first = cells[0].group
        if all(cell.group is first for cell in cells):
            return first
        # Cells that another update has joined with one of these stay with it: both may stand in one step.
        olds = list(dict.fromkeys(cell.group for cell in cells))
        together = list(dict.fromkeys([*cells, *(cell for old in olds for cell in old.cells)]))
        arrays = [arrays_of(cell.group.present())[cell.position] for cell in together]
        for old in olds:
            self.groups.remove(old)
        group = self.add_group(first.task, together, arrays)
        group.lie_at(first.places)
        return group

    def drop(self, cells: Sequence[Cell]) -> None:
        """Forget cells that have groups of their own, and give their memory back."""
        alone = [cell for cell in cells if cell.group in self.groups and len(cell.group.cells) == 1]
        self.release(alone)
        for cell in alone:
            self.groups.remove(cell.group)
        self.version += 1

    def take_back(self, first: int) -> None:
        """Drop the groups from number `first` on: what they belong to could not be made."""
        for group in self.groups[first:]:
            self.release(group.cells)
        del self.groups[first:]
        self.version += 1

    def lose(self, task: str) -> None:
        """The task has died, and its memory with it."""
        for group in self.groups:
            group.lose(task)

    def cells(self) -> list[Cell]:
        return list(itertools.chain.from_iterable(group.cells for group in self.groups))
