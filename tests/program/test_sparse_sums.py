"""What travels in a sparse all-reduce: rows or tables, of replicas with few ids, many, or a dense gradient."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.program.collective import COLLECTIVE, SPARSE_SUM, Collective, bind_collective
from simdist.program.lookups import lookup, plain_spread
from simdist.program.sparse_sums import most_sum_rows, rows_travel, settled, summed_rows, with_rows_in_sums
from simdist.program.values import Aval

TABLE = Aval((100, 8), "float32")
DENSE = Collective(SPARSE_SUM, (TABLE,), (TABLE,), 3)


def of_ids(count: int) -> Collective:
    return replace(DENSE, operands=(Aval((count,), "int32"), Aval((count, 8), "float32")))


def test_rows_travel_only_where_they_are_fewer_bytes() -> None:
    # 2 * 3200 bytes of the table, and 4 replicas with 40 bytes for each id.
    assert rows_travel(39, 4, TABLE)
    assert not rows_travel(40, 4, TABLE)


def test_an_id_has_eight_bytes() -> None:
    assert of_ids(5).size_bytes == 5 * (8 * 4 + 8)
    assert DENSE.size_bytes == TABLE.size_bytes


def test_all_send_as_many_rows_as_the_one_with_most() -> None:
    found = settled([of_ids(2), of_ids(7), of_ids(0)])
    assert found == of_ids(7)
    assert found.travels_as == "all_gather"


@pytest.mark.parametrize("other", [DENSE, of_ids(60)])
def test_tables_travel_where_one_replica_has_no_rows_or_too_many(other: Collective) -> None:
    found = settled([of_ids(2), other, of_ids(2)])
    assert found == DENSE
    assert found.travels_as == "all_reduce"


def test_replicas_with_different_numbers_of_ids_agree() -> None:
    assert of_ids(2).agrees_with(of_ids(3))
    assert of_ids(2).agrees_with(DENSE)
    other = Aval((99, 8), "float32")
    assert not of_ids(2).agrees_with(replace(of_ids(2), outputs=(other,)))
    assert not DENSE.agrees_with(Collective("all_reduce", (TABLE,), (TABLE,), 3))


# -- sums that stay rows ------------------------------------------------------------------------------------------------


def of_sums(count: int, sum_rows: int | None) -> Collective:
    return replace(of_ids(count), sum_rows=sum_rows)


def test_a_sum_has_no_more_rows_than_all_ids_and_than_its_table() -> None:
    assert most_sum_rows(7, 3, TABLE) == 21
    assert most_sum_rows(70, 3, TABLE) == 100


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([of_sums(2, 21), of_sums(7, 21), of_sums(0, 21)], 21),
        ([of_sums(7, 21), of_sums(7, 21)], 21),  # one was dropped
        ([of_sums(2, 6), of_sums(7, 21)], None),  # mains that knew their own ids alone
        ([of_sums(7, 14), of_sums(7, 14), of_sums(7, 14)], None),  # too few for all
        ([of_sums(7, 21), of_sums(7, None)], None),
        ([of_sums(2, 21), DENSE], None),
    ],
)
def test_a_sum_stays_rows_where_all_take_it_so_and_have_room(given: list[Collective], expected: int | None) -> None:
    assert settled(given).sum_rows == expected


@pytest.mark.parametrize("size", [40, 55])
def test_each_row_of_a_sum_is_there_once_with_the_bits_that_it_has_in_a_table(size: int) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(-12, 45, 60).astype(np.int32)  # 30 rows: some ids are below 0, and some are none
    rows = rng.normal(size=(60, 2)).astype(np.float32)
    found, sums = map(np.asarray, jax.jit(summed_rows, static_argnums=(2, 3))(ids, rows, 30, size))
    table = np.asarray(plain_spread(jnp.asarray(rows), jnp.asarray(ids), 30))
    known = found[found < 30]
    assert known.tolist() == sorted({int(own) % 30 for own in ids if -30 <= own < 30})
    assert set(found[len(known) :].tolist()) == {30}
    assert sums[: len(known)].tobytes() == table[known].tobytes()
    assert not np.delete(table, known, 0).any()


# -- which gradients are rows ------------------------------------------------------------------------------------------


def operands_of(change: Any, ids: Any = (1, 5)) -> list[tuple[int, ...]]:
    """The shapes that a sparse all-reduce is given, where a step changes the gradient of a lookup first."""

    def step() -> Any:
        table = jnp.zeros((100, 8)) + jnp.ones(())
        numbers = jnp.asarray(ids, jnp.int32)
        gradient = jax.grad(lambda value: lookup(value, numbers, 0).sum())(table)
        return bind_collective(DENSE, [change(gradient, table, numbers)])

    closed = with_rows_in_sums(jax.make_jaxpr(step)())
    (eqn,) = [eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == COLLECTIVE]
    assert [aval.shape for aval in eqn.params["collective"].operands] == [var.aval.shape for var in eqn.invars]
    return [var.aval.shape for var in eqn.invars]  # type: ignore[union-attr]


def test_the_gradient_of_lookups_is_rows() -> None:
    assert operands_of(lambda gradient, table, ids: gradient) == [(2,), (2, 8)]
    assert operands_of(lambda gradient, table, ids: gradient, ((1, 5, 7), (2, 2, 2))) == [(6,), (6, 8)]
    twice = operands_of(lambda gradient, table, ids: jax.grad(lambda t: (lookup(t, ids, 0) + lookup(t, ids + 1, 0)).sum())(table))
    assert twice == [(4,), (4, 8)]


def test_no_rows_are_rows_too() -> None:
    assert operands_of(lambda gradient, table, ids: jnp.zeros_like(gradient)) == [(0,), (0, 8)]


@pytest.mark.parametrize(
    "change",
    [
        lambda gradient, table, ids: gradient * 0.5,
        lambda gradient, table, ids: gradient + table,
        lambda gradient, table, ids: jnp.ones_like(gradient),
        lambda gradient, table, ids: jax.grad(lambda t: lookup(t, ids, 0).sum() + (t**2).sum())(table),
    ],
    ids=["scaled", "added", "ones", "weight decay"],
)
def test_every_other_gradient_stays_dense(change: Any) -> None:
    assert operands_of(change) == [(100, 8)]
