"""The layout of one strategy: which cells change together, in which groups, and on which devices they hold memory.

Groups are identities (`simdist.variables.state`). Their versions are kept behind a protocol, `GroupVersions`, that engines implement.

Invariants: a cell holds its memory on all of its devices, or on none; a change that fails leaves the layout as it was.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

from simdist.errors import ResourceExhaustedError
from simdist.program.arrays import Array
from simdist.program.constants import Constants
from simdist.variables.state import Cell, Group

__all__ = ["GroupVersions", "Layout"]


class GroupVersions(Protocol):
    """The versions of groups and the devices that hold them. An engine has one, for all its strategies."""

    def add(self, group: Group, arrays: Sequence[Array]) -> int:
        """Add a new group, on the devices of its cells, with its first version; return its number."""
        ...

    def join(self, group: Group, pieces: Sequence[tuple[int, int]]) -> int:
        """Add a new group made of pieces of others: for each cell the number of its old group, and its position there."""
        ...

    def forget(self, number: int) -> None:
        """Delete a group."""
        ...

    def died(self, layout: Layout, cells: list[Cell]) -> None:
        """A variable that has these cells is dying: nobody can reach it."""
        ...

    def give_up_numbers(self) -> None:
        """Let the numbers of dead variables go, which nobody will read. Devices still hold their bytes."""
        ...

    def make_room(self) -> bool:
        """Give back the bytes of dead variables on devices; return whether there were any."""
        ...

    def devices_of(self, number: int) -> tuple[str, ...]:
        """The devices that hold a group now; none after all of them have died."""
        ...

    def lie_at(self, number: int, devices: tuple[str, ...]) -> None:
        """Note that these devices hold the group from now on."""
        ...

    def hold(self, device: str, name: str, size_bytes: int) -> None:
        """Note that a device holds so many bytes more; negative: fewer.

        Raises:
            ResourceExhaustedError: it has not enough memory.
            UnavailableError: its task is down.
        """
        ...


class Layout:
    """All groups of one strategy. A change of who belongs to which group makes linked programs out of date.

    Args:
        versions: keeps the values.

    Attributes:
        constants: what steps have from their tracing.
    """

    def __init__(self, versions: GroupVersions) -> None:
        self.groups: list[Group] = []
        self.version = 0
        self.versions = versions
        self.constants = Constants()

    def add(self, cell: Cell, array: Array) -> None:
        """Store a new cell, in a group of its own.

        Raises:
            ResourceExhaustedError: its task has not enough memory.
            UnavailableError: its task is down.
        """
        try:
            self._hold(cell)
        except ResourceExhaustedError:
            if not self.versions.make_room():
                raise
            self._hold(cell)
        group = Group(cell.task, [cell])
        group.number = self.versions.add(group, [array])
        self.groups.append(group)
        self.version += 1

    def _hold(self, cell: Cell) -> None:
        """Hold the memory of a cell on all its devices, or on none."""
        held: list[str] = []
        try:
            for device in cell.devices:
                self.versions.hold(device, cell.name, cell.aval.size_bytes)
                held.append(device)
        except Exception:
            for device in held:
                self.versions.hold(device, cell.name, -cell.aval.size_bytes)
            raise

    def release(self, cells: Sequence[Cell]) -> None:
        """Give back the memory of cells on the devices that hold them."""
        for cell in cells:
            for device in self.versions.devices_of(cell.group.number):
                self.versions.hold(device, cell.name, -cell.aval.size_bytes)

    def release_all(self) -> None:
        """Release all cells: the process that created these variables has ended."""
        for group in self.groups:
            self.release(group.kept)
            self.versions.forget(group.number)

    def join(self, cells: Sequence[Cell]) -> Group:
        """Make one group of these cells, which are on one task, and of those that are in groups with them already.

        Args:
            cells: the first of the group, in their order, where it is new.
        """
        first = cells[0].group
        if all(cell.group is first for cell in cells):
            return first
        # Cells that another update has joined with one of these stay with it: both may stand in one step.
        olds = list(dict.fromkeys(cell.group for cell in cells))
        together = list(dict.fromkeys([*cells, *(cell for old in olds for cell in old.cells)]))
        pieces = [(cell.group.number, cell.position) for cell in together]
        before = {cell: (cell.group, cell.position) for cell in together}
        group = Group(first.task, together)
        try:
            group.number = self.versions.join(group, pieces)
        except Exception:
            for cell, (old, position) in before.items():
                cell.group, cell.position = old, position
            raise
        for old in olds:
            self.groups.remove(old)
            self.versions.forget(old.number)
        self.groups.append(group)
        self.version += 1
        return group

    def replace(self, old: Sequence[Cell], new: Sequence[Cell], array: Array) -> None:
        """Store new cells in the memory of others, which are deleted.

        Raises:
            As `add`; the others are as they were then.
        """
        before, holders = self.newest, [(cell, self.versions.devices_of(cell.group.number)) for cell in old]
        self.release(old)
        try:
            for cell in new:
                self.add(cell, array)
        except Exception:
            self.take_back(before)
            for cell, devices in holders:
                for device in devices:
                    self.versions.hold(device, cell.name, cell.aval.size_bytes)
            raise
        self._leave_out(old)

    def drop(self, cells: Sequence[Cell]) -> None:
        """Delete cells, and release their memory."""
        found = [cell for cell in cells if cell.group in self.groups and not cell.is_dropped]
        self.release(found)
        self._leave_out(found)

    def _leave_out(self, cells: Sequence[Cell]) -> None:
        """Let cells that hold no memory any more be no part of this layout."""
        for cell in cells:
            cell.is_dropped = True
        # Beside others its place stays, because programs know the others by theirs.
        for group in dict.fromkeys(cell.group for cell in cells):
            if not group.kept:
                self.groups.remove(group)
                self.versions.forget(group.number)
        self.version += 1

    def renew(self, cell: Cell, array: Array) -> None:
        """Store a cell again whose task has restarted without it, in a group of its own.

        Raises:
            As `add`.
        """
        lost = cell.group
        self.add(cell, array)
        if lost in self.groups:
            self.groups.remove(lost)

    def outdate(self) -> None:
        """Let programs be linked again: what changes groups is another kernel now."""
        self.version += 1

    @property
    def newest(self) -> int:
        """The number of the group that was made last; the numbers grow."""
        return self.groups[-1].number if self.groups else -1

    def take_back(self, newest: int) -> None:
        """Delete the groups that were made after this one: their owner could not be created."""
        for group in [group for group in self.groups if group.number > newest]:
            self.release(group.kept)
            self.versions.forget(group.number)
            self.groups.remove(group)
        self.version += 1

    def cells(self) -> list[Cell]:
        return list(itertools.chain.from_iterable(group.kept for group in self.groups))
