"""Variables of an engine: read, assigned, joined, given back."""

from __future__ import annotations

import numpy as np
import pytest

from simdist.errors import ResourceExhaustedError
from simdist.program.values import aval_of
from simdist.runtime.base import Engine
from simdist.variables.layout import Layout
from simdist.variables.state import Cell
from tests.runtime.conformance.conftest import MEMORY_BYTES, require_finite_memory
from tests.runtime.conformance.driver import Driver


def numbers(engine: Engine, layout: Layout) -> list[list[np.ndarray]]:
    return [[np.asarray(array) for array in arrays] for arrays in engine.read([group.number for group in layout.groups])]


@pytest.mark.parametrize("task", ["chief:0", "worker:1", "ps:0"])
def test_a_read_gives_what_was_assigned_last(task: str, driver: Driver) -> None:
    variable = driver.variable(np.zeros(3, np.float32), task)
    assert variable.numpy().tolist() == [0, 0, 0]
    variable.assign(np.float32([1, 2, 3]))
    variable.assign_add(np.float32([1, 1, 1]))
    assert variable.numpy().tolist() == [2, 3, 4]
    variable.assign(np.float32([5, 5, 5]))
    assert variable.numpy().tolist() == [5, 5, 5]


def test_groups_are_read_in_the_order_that_was_asked_for(engine: Engine, driver: Driver) -> None:
    groups = [
        driver.variable(np.float32(value), task).placement.cells[0].group.number for value, task in enumerate(("ps:1", "ps:0", "ps:1"))
    ]
    assert len(set(groups)) == 3
    order = [groups[2], groups[0], groups[1], groups[2]]
    assert [float(arrays[0]) for arrays in engine.read(order)] == [2, 0, 1, 2]


def test_what_was_read_does_not_change_with_the_variable(engine: Engine, driver: Driver) -> None:
    variable = driver.variable(np.float32([1.0]), "ps:0")
    before = variable.numpy()
    variable.assign_add(np.float32([1.0]))
    assert (before.tolist(), variable.numpy().tolist()) == ([1.0], [2.0])


def test_reading_and_assigning_take_no_time(engine: Engine, driver: Driver) -> None:
    variable = driver.variable(np.float32(0), "ps:0")
    driver.pass_time(0.001)
    began = engine.now
    variable.assign(np.float32(1))
    assert float(variable.numpy()) == 1
    assert engine.now == began


def test_numbers_of_groups_are_stable_and_never_given_twice(engine: Engine, driver: Driver) -> None:
    layout = driver.layout
    one, two, three = (driver.variable(np.float32(value), "ps:0", name=f"v{value}") for value in (1, 2, 3))
    cells = [variable.placement.cells[0] for variable in (one, two, three)]
    before = [cell.group.number for cell in cells]
    layout.drop(cells[1:2])
    joined = layout.join([cells[0], cells[2]]).number
    last = driver.variable(np.float32(4), "ps:0").placement.cells[0].group.number
    assert len({*before, joined, last}) == 5
    assert (float(one.numpy()), float(three.numpy())) == (1, 3)


def test_engines_number_their_groups_for_all_layouts(engine: Engine) -> None:
    one, other = Driver(engine), Driver(engine)
    mine, yours = one.variable(np.float32(1), "ps:0"), other.variable(np.float32(2), "ps:0")
    mine.assign(np.float32(7))
    assert (float(mine.numpy()), float(yours.numpy())) == (7, 2)


def test_joined_groups_keep_their_values_and_change_together(engine: Engine, driver: Driver) -> None:
    layout = driver.layout
    made = [driver.variable(np.full(2, value, np.float32), "ps:0", name=f"v{value}") for value in (1, 2, 3)]
    layout.join([made[2].placement.cells[0], made[0].placement.cells[0]])
    layout.join([made[1].placement.cells[0], made[0].placement.cells[0]])
    assert len(layout.groups) == 1
    assert sorted(float(array[0]) for array in numbers(engine, layout)[0]) == [1, 2, 3]
    assert [variable.numpy().tolist() for variable in made] == [[1, 1], [2, 2], [3, 3]]
    made[0].assign_add(np.float32([10, 10]))
    assert [variable.numpy().tolist() for variable in made] == [[11, 11], [2, 2], [3, 3]]


def test_joined_groups_lie_where_the_first_did(engine: Engine, driver: Driver) -> None:
    devices = ("worker:0", "worker:1")
    one, other = driver.variable(np.float32(1), *devices), driver.variable(np.float32(2), *devices)
    joined = driver.layout.join([one.placement.cells[0], other.placement.cells[0]])
    assert engine.versions.devices_of(joined.number) == devices


def test_a_group_lies_where_it_was_moved_to(engine: Engine, driver: Driver) -> None:
    group = driver.variable(np.float32(1), "worker:0", "worker:1").placement.cells[0].group
    engine.versions.lie_at(group.number, ("worker:1",))
    assert engine.versions.devices_of(group.number) == ("worker:1",)
    assert group.cells[0].devices == ("worker:1",)


def test_memory_is_held_on_each_device_and_given_back(engine: Engine, driver: Driver) -> None:
    engine.add_device("worker:0/gpu:0")
    devices = ("worker:0", "worker:0/gpu:0", "ps:1")
    before = [engine.memory(device).in_use_bytes for device in devices]
    variable = driver.variable(np.zeros(100, np.float32), *devices)
    assert [engine.memory(device).in_use_bytes - held for device, held in zip(devices, before, strict=True)] == [400] * 3
    driver.layout.drop(variable.placement.cells)
    assert [engine.memory(device).in_use_bytes for device in devices] == before


def test_a_process_that_ends_gives_back_all_of_its_variables(engine: Engine, driver: Driver) -> None:
    other = Driver(engine)
    kept = other.variable(np.float32(5), "ps:0")
    before = engine.memory("ps:0").in_use_bytes
    made = [driver.variable(np.zeros(10, np.float32), "ps:0", name=f"v{number}") for number in range(3)]
    driver.layout.join([variable.placement.cells[0] for variable in made[:2]])
    driver.layout.release_all()
    assert engine.memory("ps:0").in_use_bytes == before
    assert float(kept.numpy()) == 5


def test_a_variable_that_does_not_fit_is_refused_and_holds_nothing(engine: Engine, driver: Driver) -> None:
    require_finite_memory(engine)
    array = np.zeros(int(MEMORY_BYTES / 4) - 10, np.float32)
    driver.variable(np.zeros(20, np.float32), "worker:1", name="in the way")
    before = [engine.memory(task).in_use_bytes for task in ("worker:0", "worker:1")]
    with pytest.raises(ResourceExhaustedError, match="worker:1"):
        driver.layout.add(Cell("large", aval_of(array), "worker:0", devices=("worker:0", "worker:1")), array)
    assert [engine.memory(task).in_use_bytes for task in ("worker:0", "worker:1")] == before
    assert len(driver.layout.groups) == 1


def test_each_copy_of_replica_local_values_is_read_and_assigned_alone(driver: Driver) -> None:
    variable = driver.one_each(np.zeros(2, np.float32), "worker:0", "worker:1")
    driver.store.assign_local(variable, [np.array([1, 2], np.float32), np.array([3, 4], np.float32)])
    driver.store.compute([variable])
    assert [value.tolist() for value in driver.store.local_values(variable)] == [[1, 2], [3, 4]]
