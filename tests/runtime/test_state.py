"""Versions of groups: present, joined while somebody still uses the old ones, lost with their tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist.errors import UnavailableError
from simdist.ledger.ledger import Ledger
from simdist.program.values import Aval, Bundle
from simdist.runtime.simulated.world import World
from simdist.runtime.state import GroupStates
from simdist.variables.layout import Layout
from simdist.variables.state import Cell
from tests.runtime.simulated.machines import world


class Groups:
    """Groups of one number each on ps:0, with a layout, as a strategy has them."""

    def __init__(self) -> None:
        self.world: World = world()
        self.states: GroupStates = self.world.states
        self.ledger: Ledger = self.world.ledger
        self.layout = Layout(self.states)

    def cell(self, value: float, *devices: str) -> Cell:
        cell = Cell(f"v{value:g}", Aval((), "float32"), (devices or ("ps:0",))[0].partition("/")[0], devices=devices or ("ps:0",))
        self.layout.add(cell, np.float32(value))
        return cell

    def values(self, number: int) -> list[float]:
        return [float(array) for array in self.ledger.arrays(self.states.present(number))]

    def put(self, number: int, *values: float) -> int:
        return self.states.put(number, Bundle.of([np.float32(value) for value in values]))


@pytest.fixture
def groups() -> Groups:
    return Groups()


def test_each_put_is_one_more_version(groups: Groups) -> None:
    number = groups.cell(1).group.number
    assert [groups.put(number, value) for value in (5, 6)] == [1, 2]
    assert (groups.values(number), groups.states.version(number)) == ([6], 2)


def test_an_update_of_an_old_group_is_kept_in_the_joined_one(groups: Groups) -> None:
    one, two, three = (groups.cell(value) for value in (1, 2, 3))
    old = [cell.group.number for cell in (one, two, three)]
    joined = groups.layout.join([three, one]).number
    assert groups.values(joined) == [3, 1]
    assert groups.put(old[0], 10) == 1
    assert groups.values(joined) == [3, 10]
    assert [groups.values(number) for number in old] == [[10], [2], [3]]
    assert [groups.states.version(number) for number in (*old, joined)] == [1, 0, 1, 1]


def test_an_update_of_an_old_group_is_kept_however_often_it_was_joined(groups: Groups) -> None:
    cells = [groups.cell(value) for value in (1, 2, 3, 4)]
    first = cells[1].group.number
    pair = groups.layout.join([cells[0], cells[1]]).number
    all_of_them = groups.layout.join([cells[3], cells[1], cells[2]]).number
    groups.put(first, 20)
    groups.put(pair, 100, 200)
    assert sorted(groups.values(all_of_them)) == [3, 4, 100, 200]
    assert (groups.values(first), groups.values(pair)) == ([200], [100, 200])
    assert groups.states.version(first) == 2


def test_an_old_group_counts_its_changes_on_however_often_it_was_joined(groups: Groups) -> None:
    cells = [groups.cell(value) for value in (1, 2, 3)]
    first = cells[0].group.number
    assert [groups.put(first, value) for value in (5, 6)] == [1, 2]
    pair = groups.layout.join(cells[:2]).number
    assert [groups.put(first, 7), groups.put(pair, 8, 9)] == [3, 2]
    three = groups.layout.join(cells).number
    assert [groups.states.version(number) for number in (first, pair, three)] == [4, 2, 0]
    assert [groups.put(first, 10), groups.put(pair, 11, 12), groups.put(three, 1, 2, 3)] == [5, 4, 3]
    assert [groups.states.version(number) for number in (first, pair, three)] == [7, 5, 3]


def test_both_of_two_updates_on_their_way_are_kept(groups: Groups) -> None:
    one, two = groups.cell(1), groups.cell(2)
    old = one.group.number, two.group.number
    joined = groups.layout.join([one, two]).number
    groups.put(old[1], 22)
    groups.put(old[0], 11)
    assert groups.values(joined) == [11, 22]


def test_a_group_that_was_dropped_is_no_longer_there(groups: Groups) -> None:
    cell = groups.cell(1)
    groups.layout.drop([cell])
    assert groups.states.devices_of(cell.group.number) == ()
    assert not groups.states.is_on(cell.group.number, "ps:0")
    with pytest.raises(UnavailableError, match="v1"):
        groups.states.present(cell.group.number)


def test_a_death_takes_what_lay_there_alone_and_leaves_the_other_copies(groups: Groups) -> None:
    alone, copies, apart = groups.cell(1), groups.cell(2, "worker:0", "worker:1"), groups.cell(3, "ps:1")
    groups.states.lose("ps:0")
    groups.states.lose("worker:0")
    with pytest.raises(UnavailableError, match=r"ps:0 has lost its variables \(v1\)"):
        groups.states.present(alone.group.number)
    assert groups.states.devices_of(copies.group.number) == copies.devices == ("worker:1",)
    assert [groups.states.is_on(copies.group.number, device) for device in ("worker:0", "worker:1")] == [False, True]
    assert groups.values(copies.group.number) == [2]
    assert groups.values(apart.group.number) == [3]
    groups.states.lose("worker:1")
    with pytest.raises(UnavailableError):
        groups.states.present(copies.group.number)


def test_a_group_that_was_joined_before_a_death_is_lost_with_the_joined_one(groups: Groups) -> None:
    one, two = groups.cell(1), groups.cell(2)
    old = one.group.number
    groups.layout.join([one, two])
    groups.states.lose("ps:0")
    with pytest.raises(UnavailableError, match="ps:0"):
        groups.states.present(old)
    with pytest.raises(UnavailableError, match="ps:0"):
        groups.put(old, 5)


def test_groups_of_a_dead_task_cannot_be_joined_and_stay_as_they_were(groups: Groups) -> None:
    one, two = groups.cell(1), groups.cell(2)
    before = [cell.group for cell in (one, two)]
    groups.states.lose("ps:0")
    with pytest.raises(UnavailableError):
        groups.layout.join([one, two])
    assert [cell.group for cell in (one, two)] == before and groups.layout.groups == before


def test_bytes_are_held_where_a_cell_is_put(groups: Groups) -> None:
    held = list[Any]()
    states = GroupStates(groups.ledger.parts, lambda *_: Bundle((), ()), lambda *what: held.append(what))
    layout = Layout(states)
    cell = Cell("v", Aval((3,), "float32"), "ps:0", devices=("ps:0", "ps:1"))
    layout.add(cell, np.zeros(3, np.float32))
    layout.release([cell])
    assert held == [("ps:0", "v", 12), ("ps:1", "v", 12), ("ps:0", "v", -12), ("ps:1", "v", -12)]
