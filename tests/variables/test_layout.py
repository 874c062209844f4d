"""Which cells change together, and what memory they hold: each change counts as a whole, or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from simdist.errors import ResourceExhaustedError, UnavailableError
from simdist.program.arrays import Array
from simdist.program.values import Aval
from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group


class Versions:
    """Versions of groups on devices with room for so many bytes each; one whose task is down joins nothing."""

    def __init__(self, room: int = 100) -> None:
        self.room, self.held = room, Counter[str]()
        self.devices: dict[int, tuple[str, ...]] = {}
        self.num_made, self.is_down, self.unreachable_on = 0, False, ""

    def add(self, group: Group, arrays: Sequence[Array]) -> int:
        return self._new(group)

    def join(self, group: Group, pieces: Sequence[tuple[int, int]]) -> int:
        if self.is_down:
            raise UnavailableError("the task is down")
        return self._new(group)

    def _new(self, group: Group) -> int:
        self.devices[self.num_made] = group.cells[0].devices
        self.num_made += 1
        return self.num_made - 1

    def forget(self, number: int) -> None:
        del self.devices[number]

    def died(self, layout: Layout, cells: list[Cell]) -> None: ...
    def give_up_numbers(self) -> None: ...
    def make_room(self) -> bool:
        had, self.held[self.unreachable_on] = self.held[self.unreachable_on], 0
        return had > 0

    def devices_of(self, number: int) -> tuple[str, ...]:
        return self.devices[number]

    def lie_at(self, number: int, devices: tuple[str, ...]) -> None:
        self.devices[number] = devices

    def hold(self, device: str, name: str, size_bytes: int) -> None:
        if self.held[device] + size_bytes > self.room:
            raise ResourceExhaustedError(f"{device} is full")
        self.held[device] += size_bytes


def cell(name: str, floats: int, *devices: str) -> Cell:
    return Cell(name, Aval((floats,), "float32"), "ps:0", devices=devices or ("ps:0",))


def store(layout: Layout, *cells: Cell) -> None:
    for one in cells:
        layout.add(one, np.zeros(one.aval.shape, np.float32))


@pytest.fixture
def versions() -> Versions:
    return Versions()


@pytest.fixture
def layout(versions: Versions) -> Layout:
    return Layout(versions)


def test_a_cell_that_does_not_fit_on_one_device_holds_memory_on_none(layout: Layout, versions: Versions) -> None:
    store(layout, cell("large", 20, "ps:0/gpu:1"))
    with pytest.raises(ResourceExhaustedError):
        store(layout, cell("copies", 10, "ps:0/gpu:0", "ps:0/gpu:1"))
    assert +versions.held == {"ps:0/gpu:1": 80}
    assert [one.name for one in layout.cells()] == ["large"]


def test_a_cell_takes_the_memory_of_variables_that_nobody_can_reach(layout: Layout, versions: Versions) -> None:
    versions.held["ps:0"], versions.unreachable_on = 90, "ps:0"
    store(layout, cell("new", 20))
    assert versions.held["ps:0"] == 80


def test_cells_that_join_take_those_of_their_groups_along(layout: Layout) -> None:
    a, b, c = (cell(name, 1) for name in "abc")
    store(layout, a, b, c)
    layout.join([a, b])
    version = layout.version
    joined = layout.join([b, c])
    assert layout.groups == [joined]
    assert joined.cells == [b, c, a]
    assert [one.position for one in joined.cells] == [0, 1, 2]
    assert layout.version > version


def test_cells_that_are_one_group_join_without_outdating_programs(layout: Layout) -> None:
    a, b = cell("a", 1), cell("b", 1)
    store(layout, a, b)
    joined, version = layout.join([a, b]), layout.version
    assert layout.join([b]) is joined
    assert layout.version == version


def test_a_join_that_fails_leaves_each_cell_in_its_group(layout: Layout, versions: Versions) -> None:
    a, b = cell("a", 1), cell("b", 1)
    store(layout, a, b)
    groups, versions.is_down = list(layout.groups), True
    with pytest.raises(UnavailableError):
        layout.join([a, b])
    assert layout.groups == groups == [a.group, b.group]
    assert (a.position, b.position) == (0, 0)


def test_new_cells_take_the_memory_of_those_that_they_replace(layout: Layout, versions: Versions) -> None:
    old, new = cell("v", 20), cell("v", 20)
    store(layout, old)
    layout.replace([old], [new], np.zeros(20, np.float32))
    assert versions.held["ps:0"] == 80
    assert layout.cells() == [new]
    assert old.is_dropped


def test_cells_that_cannot_be_replaced_are_as_they_were(layout: Layout, versions: Versions) -> None:
    old = cell("v", 10)
    store(layout, old)
    with pytest.raises(ResourceExhaustedError):
        layout.replace([old], [cell("v", 10), cell("v", 20)], np.zeros(20, np.float32))
    assert versions.held["ps:0"] == 40
    assert layout.cells() == [old]


def test_a_dropped_cell_beside_others_leaves_them_their_positions(layout: Layout, versions: Versions) -> None:
    a, b = cell("a", 1), cell("b", 2)
    store(layout, a, b)
    group = layout.join([a, b])
    layout.drop([a])
    assert (group.kept, b.position, versions.held["ps:0"]) == ([b], 1, 8)
    layout.drop([a, b])
    assert (layout.groups, versions.devices, versions.held["ps:0"]) == ([], {}, 0)


def test_what_was_made_after_a_group_is_taken_back(layout: Layout, versions: Versions) -> None:
    store(layout, cell("a", 1))
    newest = layout.newest
    store(layout, cell("b", 1), cell("c", 1))
    layout.take_back(newest)
    assert [one.name for one in layout.cells()] == ["a"]
    assert versions.held["ps:0"] == 4
