"""Several updates as one: sums are made in order, rows that one of them has are rows of the average, and tables make tables of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import simdist as sd
from simdist import keras
from simdist.program.arrays import HostArray
from simdist.program.values import Aval, Bundle
from simdist.runtime.combined_updates import CombinedUpdate, combined, combining
from simdist.runtime.linked import Apply, ApplyAll
from simdist.runtime.linked_rows import RowOperands

ROWS, WIDTH = 10, 2
TABLE = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)


class Linked:
    """A table in two shards, and a dense variable beside each; linked steps that look up so many rows, or read the whole table."""

    def __init__(self) -> None:
        strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 1, "ps": 2}), sd.FixedShardsPartitioner(2), mode="sync")
        with strategy.scope():
            self.table, self.rule = sd.Variable(TABLE, name="table"), sd.Optimizer(keras.optimizers.SGD(1.0))
        self.strategy, self.coordinator = strategy, sd.ClusterCoordinator(strategy)

    def update(self, lookup: Callable[[Any], Any], count: int, shard: int = 0) -> Apply:
        """The change of a shard by such a step."""

        @sd.function
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (lookup(ids) ** 2).sum(), [self.table])()
            self.rule.apply_gradients(zip(gradients, [self.table], strict=True))

        self.coordinator.schedule(step, args=(np.zeros(count, np.int32),))
        self.coordinator.join()
        (linked,) = self.strategy.programs._linked.get(step, lambda: pytest.fail("not there")).values()
        (update,) = [op for op in linked.operations if isinstance(op, ApplyAll)]
        return update.parts[shard]

    def by_rows(self, count: int, shard: int = 0) -> Apply:
        return self.update(lambda ids: sd.embedding_lookup(self.table, ids), count, shard)

    def whole(self) -> Apply:
        return self.update(lambda ids: jnp.take(self.table.value, ids, axis=0), 3)


@pytest.fixture(scope="module")
def linked() -> Linked:
    return Linked()


def rows(ids: Sequence[int], values: Sequence[float], size: int) -> RowOperands:
    """A gradient of rows, each of which has one number; filled up."""
    padded = np.full(size, ROWS, np.int32)
    padded[: len(ids)] = ids
    numbers = np.zeros((size, WIDTH), np.float32)
    numbers[: len(ids)] = np.array(values, np.float32)[:, None]
    return RowOperands(Bundle.of(()), (Bundle.of((numbers,)),), (), (padded,), (len(ids),), 0)


def made(one: CombinedUpdate, given: Sequence[Bundle | RowOperands]) -> tuple[Bundle | RowOperands, tuple[HostArray, ...]]:
    """The operands of a change, computed."""
    joint = one.joint_ids(given)
    bundles, hosts = one.inputs(given, joint)
    results = list(one.kernel(*[array for bundle in bundles for array in bundle.arrays or ()], *hosts))
    split = [Bundle.of([results.pop(0) for _ in avals]) for avals in one.writes]
    return one.operands(split, joint), joint


def changed(one: CombinedUpdate, operands: Bundle | RowOperands) -> np.ndarray:
    """The shard after the change; beside it lie the count of steps and the learning rate."""
    state = [TABLE[:5] if aval.shape else np.ones((), aval.dtype) for aval in one.update.state]
    hosts = operands.ids if isinstance(operands, RowOperands) else ()
    bundles = operands.bundles if isinstance(operands, RowOperands) else (operands,)
    results = one.update.kernel(*state, *[array for bundle in bundles for array in bundle.arrays or ()], *hosts)
    return np.asarray(results[one.update.cells[0]])


def test_the_average_of_rows_has_each_row_once(linked: Linked) -> None:
    one = combined([linked.by_rows(3), linked.by_rows(2)])
    assert [operand.rows for operand in one.update.rows] == [Aval((5, WIDTH), "float32")]
    operands, (ids,) = made(one, [rows([1, 4, 7], [1.0, 2.0, 9.0], 3), rows([0, 4], [5.0, 6.0], 2)])
    assert isinstance(operands, RowOperands)
    assert ids.tolist() == [0, 1, 4, 5, 5]  # row 7 is of the other shard, which begins with row 5
    (bundle,) = operands.bundles
    assert bundle.arrays is not None
    assert np.asarray(bundle.arrays[0])[:3, 0].tolist() == [2.5, 0.5, 4.0]
    expected = TABLE[:5].copy()
    expected[[0, 1, 4]] -= np.array([[2.5], [0.5], [4.0]], np.float32)
    assert np.array_equal(changed(one, operands), expected)


def test_no_more_rows_than_the_shard_has(linked: Linked) -> None:
    one = combined([linked.by_rows(4), linked.by_rows(4)])
    assert one.update.rows[0].rows.shape == (5, WIDTH)
    operands, (ids,) = made(one, [rows([0, 1, 2, 3], [1.0] * 4, 4), rows([3, 4, 8, 9], [1.0] * 4, 4)])
    assert ids.tolist() == [0, 1, 2, 3, 4]
    assert isinstance(operands, RowOperands) and operands.bundles[0].arrays is not None
    assert np.asarray(operands.bundles[0].arrays[0])[:, 1].tolist() == [0.5, 0.5, 0.5, 1.0, 0.5]


def test_rows_of_other_shards_alone_change_nothing(linked: Linked) -> None:
    one = combined([linked.by_rows(2), linked.by_rows(2)])
    operands, (ids,) = made(one, [rows([5, 6], [1.0, 1.0], 2), rows([9], [1.0], 2)])
    assert ids.tolist() == [5, 5, 5, 5]
    assert np.array_equal(changed(one, operands), TABLE[:5])


def test_rows_before_a_shard_are_not_those_of_its_beginning(linked: Linked) -> None:
    one = combined([linked.by_rows(3, shard=1), linked.by_rows(2, shard=1)])
    operands, (ids,) = made(one, [rows([1, 5, 7], [8.0, 2.0, 4.0], 3), rows([0, 9], [8.0, 6.0], 2)])
    assert ids.tolist() == [5, 7, 9, 10, 10]
    assert isinstance(operands, RowOperands) and operands.bundles[0].arrays is not None
    assert np.asarray(operands.bundles[0].arrays[0])[:3, 0].tolist() == [1.0, 2.0, 3.0]


def test_a_table_among_rows_makes_the_average_a_table(linked: Linked) -> None:
    one = combined([linked.by_rows(3), linked.whole()])
    assert not one.update.rows
    dense = np.ones((5, WIDTH), np.float32)
    operands, joint = made(one, [rows([1, 4, 7], [1.0, 2.0, 9.0], 3), Bundle.of((dense,))])
    assert isinstance(operands, Bundle) and operands.arrays is not None and joint == ()
    assert np.asarray(operands.arrays[0])[:, 0].tolist() == [0.5, 1.0, 0.5, 0.5, 1.5]
    assert changed(one, operands)[0].tolist() == [-0.5, 0.5]


def test_updates_with_rows_and_with_tables_do_the_same(linked: Linked) -> None:
    assert linked.by_rows(3).combined_by == linked.by_rows(2).combined_by == linked.whole().combined_by
    assert linked.by_rows(3).kernel is not linked.by_rows(2).kernel


@pytest.mark.parametrize(("combination", "expected"), [("mean", 2.0), ("sum", 6.0), ("last", 3.0)])
def test_dense_updates_are_combined_by_their_kind(combination: Any, expected: float) -> None:
    given = (Aval((2,), "float32"), Aval((), "float32"))
    arrays = [np.full(aval.shape, number, np.float32) for number in (1.0, 2.0, 3.0) for aval in given]
    found = combining(combination, 3, given)(*arrays)
    assert [np.asarray(array).tolist() for array in found] == [[expected, expected], expected]


def test_a_mean_of_whole_numbers_stays_whole() -> None:
    (found,) = combining("mean", 2, (Aval((), "int32"),))(np.array(3, np.int32), np.array(4, np.int32))
    assert found.dtype == np.int32 and int(found) == 3


@pytest.mark.parametrize("ways", ["tables", "rows", "a table and rows"])
def test_the_average_of_float16_is_finite_where_the_sum_is_not(ways: str) -> None:
    strategy = sd.ParameterServerStrategy(sd.Cluster({"worker": 2, "ps": 1}), mode="sync")
    with strategy.scope():
        table, rule = sd.Variable(np.ones((ROWS, WIDTH)), dtype="float16"), sd.Optimizer(keras.optimizers.SGD(1e-4))

    def step_of(lookup: Callable[[Any], Any]) -> Any:
        @sd.function
        def step(ids: Any) -> None:
            _, gradients = sd.value_and_grad(lambda: (lookup(ids) * 40_000).astype("float32").sum(), [table])()
            rule.apply_gradients(zip(gradients, [table], strict=True))

        return step

    whole, rows = step_of(lambda ids: jnp.take(table.value, ids, axis=0)), step_of(lambda ids: sd.embedding_lookup(table, ids))
    coordinator = sd.ClusterCoordinator(strategy)
    for step in {"tables": (whole, whole), "rows": (rows, rows), "a table and rows": (whole, rows)}[ways]:
        coordinator.schedule(step, args=(np.array([1, 2], np.int32),))
    coordinator.join()
    expected = np.ones((ROWS, WIDTH))
    expected[1:3] = -3
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-3)
