"""Sharded variables: whatever is done to one, it is the array that numpy would have, on each engine's own terms."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import simdist as sd
from sampling import examples

CHANGES = ["assign", "assign_add", "assign_sub", "items", "shard", "scatter_add", "scatter_update", "scatter_max", "scatter_min"]
CHANGES += ["scatter_mul"]
AT = {"scatter_add": np.add.at, "scatter_max": np.maximum.at, "scatter_min": np.minimum.at, "scatter_mul": np.multiply.at}


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[tuple[int, ...], list[int]]:
    """A shape, and what a partitioner answers for it."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    return shape, [draw(st.integers(1, 7)) if number == axis else 1 for number in range(len(shape))]


@st.composite
def changes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[str, Any, np.ndarray]:
    """A change, where it is made, and by which numbers."""
    what = draw(st.sampled_from(CHANGES))
    numbers = np.random.default_rng(draw(st.integers(0, 1000)))
    if what == "items":
        index = tuple(slice(draw(st.integers(-7, 7)), draw(st.integers(-7, 7)), draw(st.sampled_from([1, 2, -1]))) for _ in shape)
        return what, index, numbers.integers(-4, 5, np.zeros(shape)[index].shape)
    if what.startswith("scatter"):
        rows = draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=4, unique=what == "scatter_update"))
        return what, rows, numbers.integers(-4, 5, (len(rows), *shape[1:]))
    return what, draw(st.integers(0, 6)), numbers.integers(-4, 5, shape)


def changed(variable: Any, what: str, where: Any, values: Any) -> None:
    """Make a change of a variable."""
    if what == "items":
        variable[where] = values
    elif what == "shard":
        shard, part = variable.variables[where % len(variable.variables)], variable.placement.ranges[where % len(variable.variables)]
        shard.assign_add(part.of(values))
    elif what.startswith("scatter"):
        getattr(variable, what)(where, values)
    else:
        getattr(variable, what)(values)


def expected(array: np.ndarray, variable: Any, what: str, where: Any, values: np.ndarray) -> np.ndarray:
    """What numpy makes of the same change."""
    array = array.copy()
    match what:
        case "assign":
            array[...] = values
        case "assign_add":
            array += values
        case "assign_sub":
            array -= values
        case "items" | "scatter_update":
            array[where] = values
        case "shard":
            index = variable.placement.ranges[where % len(variable.variables)].index
            array[index] += values[index]
        case _:
            AT[what](array, where, values)
    return array


@examples(25)
@given(partitioned(), st.booleans(), st.data())
def test_any_changes_of_a_sharded_variable_are_those_of_numpy(
    given_shape: tuple[tuple[int, ...], list[int]], in_a_step: bool, data: st.DataObject
) -> None:
    shape, answer = given_shape
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 3}), lambda shape, dtype: answer)
    array = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    with strategy.scope():
        variable = sd.Variable(array, name="v")
    if not isinstance(variable, sd.ShardedVariable):
        return
    todo = data.draw(st.lists(changes(shape), min_size=1, max_size=4))

    def step() -> Any:
        for what, where, values in todo:
            changed(variable, what, where, values)
        return variable.value, [shard.value for shard in variable.variables]

    if in_a_step:
        whole, shards = sd.ClusterCoordinator(strategy).schedule(sd.function(step)).fetch()
    else:
        whole, shards = step()
    for what, where, values in todo:
        array = expected(array, variable, what, where, values.astype(np.int32))
    np.testing.assert_array_equal(whole, array)
    np.testing.assert_array_equal(variable.numpy(), array)
    np.testing.assert_array_equal(np.concatenate(shards, axis=variable.placement.axis), array)


@pytest.fixture
def table() -> sd.ShardedVariable:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 2}), sd.FixedShardsPartitioner(2))
    with strategy.scope():
        table = sd.Variable(np.arange(8.0, dtype=np.float32).reshape(4, 2), name="table")
    assert isinstance(table, sd.ShardedVariable)
    return table


def run(table: sd.ShardedVariable, step: Any) -> Any:
    """What a step gives that a worker runs."""
    return sd.ClusterCoordinator(table.placement.store.strategy).schedule(sd.function(step)).fetch()  # pyright: ignore[reportArgumentType]


def test_a_function_under_value_and_grad_sees_what_it_assigns_to_shards_and_whole(table: sd.ShardedVariable) -> None:
    first, second = table.variables

    def loss() -> Any:
        first.assign(jnp.full((2, 2), 10.0))
        seen = table.value[0, 0]
        table.assign(table.value * 2.0)
        second.assign_add(jnp.ones((2, 2)))
        return (seen + first.value[0, 0] + second.value[0, 0] + table.value[3, 1]).sum()

    value, (gradient,) = run(table, lambda: sd.value_and_grad(loss, [table])())
    assert value == 10.0 + 20.0 + (4.0 * 2 + 1) + (7.0 * 2 + 1)
    assert gradient.tolist() == [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    assert table.numpy().tolist() == [[20.0, 20.0], [20.0, 20.0], [9.0, 11.0], [13.0, 15.0]]


def test_an_index_that_the_step_computes_cannot_be_assigned_to(table: sd.ShardedVariable) -> None:
    def step() -> None:
        table[table.value.argmax() : 1] = 0.0

    with pytest.raises(sd.errors.InvalidArgumentError, match=r"Use table\.scatter_update"):
        run(table, step)


def test_shards_are_always_the_same_variables(table: sd.ShardedVariable) -> None:
    assert all(one is other for one, other in zip(table.variables, table.variables, strict=True))
    assert [shard.rows for shard in table.variables] == [(0, 2), (2, 4)]  # pyright: ignore[reportAttributeAccessIssue]
    assert table.variables[1].device == "ps:1"


def test_keras_optimizers_train_shards_by_themselves(table: sd.ShardedVariable) -> None:
    from simdist import keras

    optimizer = sd.Optimizer(keras.optimizers.SGD(0.5, momentum=0.5))

    def step() -> None:
        shards = table.variables
        _, gradients = sd.value_and_grad(lambda: table.value.sum(), shards)()
        optimizer.apply_gradients(zip(gradients, shards, strict=True))

    before = table.numpy()
    run(table, step)
    run(table, step)
    np.testing.assert_allclose(table.numpy(), before - 0.5 - 0.75)
