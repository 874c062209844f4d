"""Lookups of rows: the bits of ``jnp.take``, few ids or many, with ids that are wrong, and their derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.program.lookups import plain_lookup, plain_spread

WRONG = [[0, 4], [-1, -5], [5, -6], [2**31 - 1, -(2**31)], [3, 3]]  # of a table of five rows: the first, the last, and none
FEW = [[0, 4]]


def table(dtype: str) -> jax.Array:
    return jnp.asarray(np.arange(1, 16).reshape(5, 3), dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("ids", [FEW, WRONG], ids=["few", "many"])
def test_rows_have_the_bits_of_take(dtype: str, ids: list[list[int]]) -> None:
    found = plain_lookup(table(dtype), jnp.asarray(ids))
    expected = jnp.take(table(dtype), jnp.asarray(ids), axis=0)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_wrong_ids_give_nan_and_those_below_zero_count_from_the_end() -> None:
    found = np.asarray(plain_lookup(table("float32"), jnp.asarray(WRONG)))
    assert np.isnan(found[2:4]).all()
    np.testing.assert_array_equal(found[1], np.asarray(table("float32"))[[4, 0]])


@pytest.mark.parametrize(("dtype", "num_rows"), [("uint8", 256), ("uint8", 300), ("int8", 200), ("uint16", 70_000)])
def test_many_ids_of_a_narrow_dtype_find_rows_of_a_table_that_has_more_than_it_can_count(dtype: str, num_rows: int) -> None:
    whole = jnp.arange(float(num_rows)).reshape(-1, 1)
    ids = np.resize(np.arange(np.iinfo(dtype).max + 1, dtype=dtype), num_rows)
    expected = ids.astype(np.float32).reshape(-1, 1)
    np.testing.assert_array_equal(plain_lookup(whole, jnp.asarray(ids)), expected)
    counts = np.bincount(ids, minlength=num_rows).reshape(-1, 1)
    np.testing.assert_array_equal(plain_spread(jnp.ones((num_rows, 1)), jnp.asarray(ids), num_rows), counts)


@pytest.mark.parametrize("ids", [FEW, WRONG], ids=["few", "many"])
def test_gradients_have_the_bits_of_those_of_take(ids: list[list[int]]) -> None:
    given = jax.random.normal(jax.random.key(0), (len(ids), 2, 3))
    _, pull = jax.vjp(lambda whole: jnp.take(whole, jnp.asarray(ids), axis=0), table("float32"))
    (expected,) = pull(given)
    assert np.asarray(plain_spread(given, jnp.asarray(ids), 5)).tobytes() == np.asarray(expected).tobytes()


def test_padding_gives_zeros_also_where_ids_are_many() -> None:
    ids = jnp.asarray([[0, -1, 4], [-1, -1, 2]])
    found = np.asarray(plain_lookup(table("float32"), ids, padded=True))
    assert not found[np.asarray(ids) < 0].any()
    np.testing.assert_array_equal(found[np.asarray(ids) >= 0], np.asarray(table("float32"))[[0, 4, 2]])


def test_many_ids_cost_no_look_at_each_number_of_the_result() -> None:
    text = str(jax.make_jaxpr(plain_lookup)(jnp.zeros((5, 1_000)), jnp.zeros((40,), jnp.int32)))
    assert "select_n" in text
    assert "bool[40,1000]" not in text
