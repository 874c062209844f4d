"""Changes of rows: each does what numpy does to these rows, wherever the variable lies, and refuses rows that are not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import simdist as sd
from simdist.errors import InvalidArgumentError

BEFORE = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
ROWS, VALUES = [2, 0], np.array([[4, 8], [2, 0.5]], np.float32)
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "scatter_add": np.add,
    "scatter_sub": np.subtract,
    "scatter_update": lambda row, value: value,
    "scatter_max": np.maximum,
    "scatter_min": np.minimum,
    "scatter_mul": np.multiply,
    "scatter_div": np.divide,
}
STRATEGIES: dict[str, Callable[[], Any]] = {
    "device": sd.OneDeviceStrategy,
    "copies": lambda: sd.MirroredStrategy(2),
    "shards": lambda: sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2)),
}


@pytest.mark.parametrize("make", STRATEGIES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_rows_is_that_of_numpy(change: str, make: str) -> None:
    with STRATEGIES[make]().scope():
        v = sd.Variable(BEFORE)
    getattr(v, change)(ROWS, VALUES)
    expected = BEFORE.copy()
    expected[ROWS] = CHANGES[change](BEFORE[ROWS], VALUES)
    np.testing.assert_allclose(v.numpy(), expected)


@pytest.mark.parametrize("traced", [False, True], ids=["outside", "in a step"])
@pytest.mark.parametrize("make", ["device", "shards"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.sample
def test_rows_of_a_narrow_dtype_are_found_among_more_than_it_can_count(dtype: str, make: str, traced: bool) -> None:
    strategy = STRATEGIES[make]()
    with strategy.scope():
        v = sd.Variable(np.zeros((300, 2), np.float32))

    def change(rows: Any) -> None:
        v.scatter_update(rows, VALUES)
        v.scatter_add(rows[:1], VALUES[:1])

    rows = np.array([120, 0], dtype)
    if traced:
        strategy.run(sd.function(change), (rows,))
    else:
        change(rows)
    expected = np.zeros((300, 2), np.float32)
    expected[rows.astype(int)] = VALUES
    expected[120] += VALUES[0]
    np.testing.assert_array_equal(v.numpy(), expected)


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_values_that_each_replica_has_for_itself_are_not_changed_and_the_change_is_named(change: str) -> None:
    with sd.MirroredStrategy(2).scope():
        v = sd.Variable(BEFORE, synchronization=sd.VariableSynchronization.ON_READ)
    with pytest.raises(NotImplementedError, match=f"^{change} on .*ON_READ"):
        getattr(v, change)(ROWS, VALUES)


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"scatter_add", "scatter_sub"}))
@pytest.mark.parametrize("aggregation", [sd.VariableAggregation.SUM, sd.VariableAggregation.MEAN])
def test_a_change_that_replicas_cannot_add_up_is_refused_in_a_replica_and_named(aggregation: Any, change: str) -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(BEFORE, aggregation=aggregation)
    with pytest.raises(NotImplementedError, match=f"^{change} on .*{aggregation.name}"):
        strategy.run(lambda: getattr(v, change)(ROWS, VALUES))
    getattr(v, change)(ROWS, VALUES)
    assert v.numpy()[1].tolist() == BEFORE[1].tolist()


@pytest.mark.parametrize("rows", [[3], [-1], [0, 3]])
def test_rows_that_are_not_there_are_refused(rows: list[int]) -> None:
    v = sd.Variable(BEFORE)
    with pytest.raises(InvalidArgumentError, match="must be from 0 to 2"):
        v.scatter_add(rows, np.ones((len(rows), 2), np.float32))


def test_rows_are_whole_numbers_and_a_scalar_has_none() -> None:
    with pytest.raises(InvalidArgumentError, match="whole numbers of rows; got float32"):
        sd.Variable(BEFORE).scatter_update(np.zeros(1, np.float32), VALUES[:1])
    with pytest.raises(InvalidArgumentError, match="no rows to scatter to"):
        sd.Variable(1.0).scatter_update([0], [1.0])


def test_no_rows_change_nothing() -> None:
    v = sd.Variable(BEFORE)
    v.scatter_add(np.zeros(0, int), np.zeros((0, 2), np.float32))
    assert v.numpy().tolist() == BEFORE.tolist()


@pytest.mark.parametrize("method", ["scatter_add", "scatter_sub", "scatter_update", "scatter_max", "scatter_mul"])
def test_values_of_another_shape_are_refused_with_the_shape_that_fits(method: str) -> None:
    v = sd.Variable(np.ones((4, 2), np.float32), name="v")
    with pytest.raises(InvalidArgumentError, match=r"v, of shape \(4, 2\), was given values of shape \(3, 2\); .* expected shape \(1, 2\)"):
        getattr(v, method)([0], np.ones((3, 2)))
    assert np.asarray(v.numpy()).tolist() == [[1.0, 1.0]] * 4


ITEMS: list[Any] = [1, slice(0, 2), (slice(None), 1), [2, 0], BEFORE > 2.5, (..., -1)]


@pytest.mark.parametrize("make", STRATEGIES)
@pytest.mark.parametrize("item", range(len(ITEMS)))
def test_items_are_assigned_as_in_numpy_wherever_the_variable_lies(item: int, make: str) -> None:
    with STRATEGIES[make]().scope():
        v = sd.Variable(BEFORE)
    expected = BEFORE.copy()
    v[ITEMS[item]] = expected[ITEMS[item]] = 9.0
    np.testing.assert_array_equal(v.numpy(), expected)
    with pytest.raises(IndexError, match="Variable"):
        v[7] = 0.0
    with pytest.raises(InvalidArgumentError):
        v[:2] = np.zeros(3)


def test_workers_that_assign_other_items_of_a_whole_variable_do_not_undo_each_other() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 3, "ps": 1}))
    with strategy.scope():
        v = sd.Variable(np.zeros(6, np.float32))

    def step(row: int) -> None:
        v[row] = row + 1.0

    coordinator = sd.ClusterCoordinator(strategy)
    for row in range(6):
        coordinator.schedule(sd.function(lambda row=row: step(row)))
    coordinator.join()
    assert v.numpy().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_an_item_is_not_assigned_where_replicas_are_combined() -> None:
    strategy = sd.MirroredStrategy(2)
    with strategy.scope():
        v = sd.Variable(BEFORE, aggregation=sd.VariableAggregation.MEAN)

    def step() -> None:
        v[0] = 1.0

    with pytest.raises(NotImplementedError, match=r"^an assignment of items on .* MEAN"):
        strategy.run(step)


@pytest.mark.parametrize("in_a_step", [False, True])
@pytest.mark.parametrize("what", ["scatter_add", "scatter_sub", "scatter_mul", "scatter_div"])
def test_truth_values_are_not_computed_with(what: str, in_a_step: bool) -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        v = sd.Variable([True, False])

    def change() -> None:
        getattr(v, what)([0], [True])

    with pytest.raises(InvalidArgumentError, match="needs numbers"):
        strategy.run(change) if in_a_step else change()
