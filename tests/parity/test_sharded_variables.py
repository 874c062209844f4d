"""Conformance cases B046 to B056, and C23: variables in shards, as containers of variables and as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import simdist as sd
from sampling import sampled

ROWS = np.arange(14.0, dtype=np.float32).reshape(7, 2)


def of_shards(value: Any, shards: int = 2, axis: int = 0) -> tuple[sd.ParameterServerStrategy, sd.ShardedVariable]:
    """A strategy with two servers, and a variable in so many shards."""

    def partitioner(shape: Any, dtype: Any) -> list[int]:
        return [shards if number == axis else 1 for number in range(len(shape))]

    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), partitioner)
    with strategy.scope():
        variable = sd.Variable(value, name="table")
    assert isinstance(variable, sd.ShardedVariable)
    return strategy, variable


def scheduled(strategy: sd.ParameterServerStrategy, step: Any) -> Any:
    """What a step gives that a worker runs."""
    return sd.ClusterCoordinator(strategy).schedule(sd.function(step)).fetch()


def test_b046_what_cannot_be_a_container_is_refused() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        a, b = sd.Variable(np.zeros((2, 3))), sd.Variable(np.ones((4, 3)))
        whole, narrow = sd.Variable(np.zeros((2, 3), np.int32)), sd.Variable(np.zeros((2, 2)))
    for given in ([a, np.zeros((2, 3))], [], a, "ab"):
        with pytest.raises(TypeError, match="list of"):
            sd.ShardedVariable(given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="one dtype; got float32, int32"):
        sd.ShardedVariable([a, whole])
    with pytest.raises(ValueError, match=r"along axis 0 only; got \(2, 3\), \(2, 2\)"):
        sd.ShardedVariable([a, narrow])
    with pytest.raises(ValueError, match="axis=2"):
        sd.ShardedVariable([a, b], axis=2)
    container = sd.ShardedVariable([a, b])
    assert (container.name, container.shape, container.dtype) == ("ShardedVariable", (6, 3), "float32")
    for given in ([a, narrow], [container]):
        with pytest.raises(ValueError, match=r"differ along|shard of another"):
            sd.ShardedVariable(given)
    _, other = of_shards(ROWS)
    with pytest.raises(ValueError, match="is a shard of another variable"):
        sd.ShardedVariable(other.variables)
    with sd.MirroredStrategy(2).scope():
        mirrored = sd.Variable(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="several replicas"):
        sd.ShardedVariable([mirrored])


def test_b046_a_container_of_variables_reads_and_changes_them() -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}))
    with strategy.scope():
        a, b = sd.Variable([0.0, 1.0, 2.0]), sd.Variable([3.0])
    container = sd.ShardedVariable([a, b])
    assert container.variables[0] is a
    assert container.numpy().tolist() == [0.0, 1.0, 2.0, 3.0]
    container.assign_add([1.0, 1.0, 1.0, 10.0])
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([1.0, 2.0, 3.0], [13.0])

    def step() -> Any:
        b.assign([5.0])
        before = container.value
        container.assign(before * 2.0)
        return before, a.value

    before, after = scheduled(strategy, step)
    assert (before.tolist(), after.tolist()) == ([1.0, 2.0, 3.0, 5.0], [2.0, 4.0, 6.0])
    assert b.numpy().tolist() == [10.0]


INDICES: list[Any] = [
    0, -1, 3, slice(None), slice(2, 5), slice(None, None, 2), slice(None, None, -1), slice(5, 1, -2), slice(9, 12), Ellipsis, None,
    (Ellipsis, 1), (slice(1, 4), None, 0), (2, 1), [6, 0, 4], ROWS[:, 0] > 5, ROWS > 5,
]  # fmt: skip


# CI takes each index on one axis, both in turns.
INDEX_CASES = [(number, axis) for number in range(len(INDICES)) for axis in (0, 1)]
IN_TURNS = [(number, axis) for number, axis in INDEX_CASES if number % 2 == axis]


@pytest.mark.parametrize(("number", "axis"), sampled(INDEX_CASES, IN_TURNS))
def test_b048_an_index_gives_what_numpy_gives(number: int, axis: int) -> None:
    index = INDICES[number]
    strategy, table = of_shards(ROWS, axis=axis)
    np.testing.assert_array_equal(table[index], ROWS[index])
    if not isinstance(index, np.ndarray):
        np.testing.assert_array_equal(scheduled(strategy, lambda: table[index]), ROWS[index])


def test_b048_what_is_no_index_is_refused() -> None:
    _, table = of_shards(ROWS)
    with pytest.raises(IndexError, match="table"):
        table[100]
    with pytest.raises(ValueError, match="step"):
        table[::0]
    with pytest.raises(IndexError):
        table[0.5]  # pyright: ignore[reportArgumentType]
    with pytest.raises(IndexError, match="table"):
        table[100] = 1.0


@pytest.mark.parametrize(("number", "axis"), sampled(INDEX_CASES, IN_TURNS))
def test_c23_items_are_assigned_as_in_numpy(number: int, axis: int) -> None:
    index = INDICES[number]
    strategy, table = of_shards(ROWS, axis=axis)
    expected = ROWS.copy()
    expected[index] = -1.0
    table[index] = -1.0
    np.testing.assert_array_equal(table.numpy(), expected)
    values = np.random.default_rng(0).random(ROWS[index].shape, np.float32)
    expected[index] = values

    def step() -> None:
        table[index] = values

    scheduled(strategy, step)
    np.testing.assert_array_equal(table.numpy(), expected)


def test_c23_an_assignment_of_items_changes_only_their_shards() -> None:
    strategy, table = of_shards(ROWS)

    def step() -> None:
        table[:2, 0] = 9.0

    scheduled(strategy, step)
    applied = [span.lane for span in strategy.cluster.trace.spans if span.category == "apply"]
    assert applied == ["ps:0"]
    with pytest.raises(ValueError, match=r"shape \(3,\) cannot be assigned to \(2,\)"):
        table[:2, 0] = np.zeros(3)


def test_c23_workers_that_assign_other_items_of_a_shard_do_not_undo_each_other() -> None:
    strategy, table = of_shards(np.zeros((8, 1), np.float32))
    coordinator = sd.ClusterCoordinator(strategy)
    for row in range(8):
        coordinator.schedule(sd.function(lambda row=row: table.scatter_update([row], [[row + 1.0]])))
    coordinator.join()
    assert table.numpy()[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_b051_a_variable_becomes_the_array_of_its_shards_in_order() -> None:
    import jax.numpy as jnp

    _, table = of_shards(ROWS, shards=3)
    np.testing.assert_array_equal(np.asarray(table), ROWS)
    np.testing.assert_array_equal(jnp.asarray(table), ROWS)
    np.testing.assert_array_equal(jnp.take(table.value, jnp.array([5, 0]), axis=0), ROWS[[5, 0]])


def test_b052_assignments_are_split_among_shards() -> None:
    _, table = of_shards(ROWS)
    table.assign(ROWS * 2)
    table.assign_add(ROWS)
    table.assign_sub(np.ones((7, 2)))
    np.testing.assert_array_equal(table.numpy(), ROWS * 3 - 1)
    np.testing.assert_array_equal(table.variables[1].numpy(), (ROWS * 3 - 1)[4:])


@pytest.mark.parametrize("axis", [0, 1])
def test_b052_in_a_step_assignments_are_split_among_shards_and_read_again(axis: int) -> None:
    strategy, table = of_shards(ROWS, axis=axis)

    def step() -> Any:
        table.assign(table.value * 2)
        first = table.value
        table.assign_add(ROWS)
        table.assign_sub(np.ones((7, 2), np.float32))
        return first, table.value

    first, last = scheduled(strategy, step)
    np.testing.assert_array_equal(first, ROWS * 2)
    np.testing.assert_array_equal(last, ROWS * 3 - 1)
    np.testing.assert_array_equal(table.numpy(), ROWS * 3 - 1)
    np.testing.assert_array_equal(np.concatenate([shard.numpy() for shard in table.variables], axis=axis), ROWS * 3 - 1)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(6, 2), (8, 2), (1, 2), (7, 1), (7,), (2,)])
def test_b053_in_a_step_another_shape_is_refused_and_nothing_changes(shape: tuple[int, ...], axis: int) -> None:
    strategy, table = of_shards(ROWS, axis=axis)
    coordinator = sd.ClusterCoordinator(strategy)
    for change in ("assign", "assign_add", "assign_sub"):
        value = np.zeros(shape, np.float32)
        coordinator.schedule(sd.function(lambda change=change, value=value: getattr(table, change)(value)))
        with pytest.raises(ValueError, match=r"table has shape \(7, 2\); a value of shape"):
            coordinator.join()
    np.testing.assert_array_equal(table.numpy(), ROWS)


@pytest.mark.parametrize("rows", [6, 8, 1])
def test_b053_another_number_of_rows_is_refused(rows: int) -> None:
    _, table = of_shards(ROWS)
    for change in (table.assign, table.assign_add, table.assign_sub):
        with pytest.raises(ValueError, match=rf"table has shape \(7, 2\); a value of shape \({rows}, 2\)"):
            change(np.zeros((rows, 2), np.float32))
    np.testing.assert_array_equal(table.numpy(), ROWS)


SCATTERS = {
    "scatter_add": np.add.at, "scatter_sub": np.subtract.at, "scatter_mul": np.multiply.at, "scatter_div": np.divide.at,
    "scatter_min": np.minimum.at, "scatter_max": np.maximum.at,
}  # fmt: skip


SCATTER_CASES = [(change, where, axis) for change in SCATTERS for where in ("here", "in a step") for axis in (0, 1)]


@pytest.mark.parametrize(
    ("change", "where", "axis"), sampled(SCATTER_CASES, [case for number, case in enumerate(SCATTER_CASES) if number % 4 in (1, 2)])
)
def test_b054_scatters_count_an_index_as_often_as_it_is_there(change: str, where: str, axis: int) -> None:
    strategy, table = of_shards(ROWS, axis=axis)
    indices, values = [5, 0, 5], np.array([[2, 3], [4, 5], [8, 2]], np.float32)
    expected = ROWS.copy()
    SCATTERS[change](expected, indices, values)

    def run() -> None:
        getattr(table, change)(indices, values)

    run() if where == "here" else scheduled(strategy, run)
    np.testing.assert_allclose(table.numpy(), expected)


def test_b054_rows_are_replaced_and_indices_are_a_list() -> None:
    strategy, table = of_shards(ROWS)
    table.scatter_update([6, 0], [[1.0, 2.0], [3.0, 4.0]])
    scheduled(strategy, lambda: table.batch_scatter_update([1, 2], [[-1.0, -1.0], [-2.0, -2.0]]))
    assert table.numpy()[[0, 1, 2, 6]].tolist() == [[3.0, 4.0], [-1.0, -1.0], [-2.0, -2.0], [1.0, 2.0]]
    table.batch_scatter_update(np.zeros((7, 1), int), np.full((7, 1), 9.0))
    assert table.numpy()[:, 0].tolist() == [9.0] * 7
    with pytest.raises(ValueError, match=r"list of rows; got shape \(1, 2\)\. Flatten them"):
        table.scatter_add([[0, 1]], np.zeros((1, 2, 2)))


def test_b055_rows_are_read_in_the_order_asked_for() -> None:
    strategy, table = of_shards(ROWS)
    assert [shard.shape[0] for shard in table.variables] == [4, 3]
    np.testing.assert_array_equal(table.sparse_read([6, 0, 4]), ROWS[[6, 0, 4]])
    np.testing.assert_array_equal(scheduled(strategy, lambda: table.sparse_read([6, 0, 4])), ROWS[[6, 0, 4]])
    assert table.gather_nd([[6, 1], [0, 0]]).tolist() == [13.0, 0.0]
    with pytest.raises(ValueError, match="from 0 to 6; got 7 to 7"):
        table.sparse_read([7])
    with pytest.raises(ValueError, match="inside of its shape"):
        table.gather_nd([[0, 2]])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows", [[6, 0, 4, 0, 6], [4, 3], [6], []], ids=str)
def test_b055_rows_may_be_asked_for_again_and_on_any_axis(rows: list[int], axis: int) -> None:
    strategy, table = of_shards(ROWS, axis=axis)
    asked = np.array(rows, np.int32)
    np.testing.assert_array_equal(table.sparse_read(asked), ROWS[asked])
    np.testing.assert_array_equal(scheduled(strategy, lambda: table.sparse_read(asked)), ROWS[asked])
    found = sd.ClusterCoordinator(strategy).schedule(sd.function(lambda ids: table.sparse_read(ids)), args=(asked,)).fetch()
    np.testing.assert_array_equal(found, ROWS[asked])


@pytest.mark.parametrize("axis", [0, 1])
def test_b056_gradients_of_the_container_and_of_its_variables(axis: int) -> None:
    strategy, table = of_shards(ROWS, axis=axis)

    def step() -> Any:
        def loss() -> Any:
            return (table.value**2).sum() + table.variables[0].value.sum()

        return sd.value_and_grad(loss, [table])(), sd.value_and_grad(loss, table.variables)()

    (value, (whole,)), (same, parts) = scheduled(strategy, step)
    expected = 2 * ROWS
    table.placement.ranges[0].of(expected)[...] += 1  # pyright: ignore[reportOptionalMemberAccess]
    assert value == same
    np.testing.assert_allclose(whole, expected)
    np.testing.assert_allclose(np.concatenate(parts, axis=axis), expected)


def test_b056_optimizers_change_the_shards_that_they_are_given() -> None:
    import optax

    strategy, table = of_shards(ROWS)
    optimizer = sd.Optimizer(optax.sgd(1.0))

    def step() -> None:
        _, gradients = sd.value_and_grad(lambda: table.value.sum(), table.variables)()
        optimizer.apply_gradients(list(zip(gradients, table.variables, strict=True))[1:])

    scheduled(strategy, step)
    np.testing.assert_array_equal(table.numpy(), np.concatenate([ROWS[:4], ROWS[4:] - 1]))


def test_a_shard_is_read_from_its_own_server_alone() -> None:
    strategy, table = of_shards(ROWS)
    scheduled(strategy, lambda: table.variables[1].value)
    (read,) = [span for span in strategy.cluster.trace.spans if span.category == "read"]
    assert read.facts["bytes"] == ROWS[4:].nbytes
