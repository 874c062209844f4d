"""Bytes that kernels move, against hand counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import simdist as sd
from simdist.cost.flops import cost_of
from simdist.cost.moved import bytes_moved
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval

ROWS, WIDTH, IDS = 100_000, 16, 32
TABLE, SMALL = (ROWS, WIDTH), (1000, WIDTH)
TABLE_BYTES, SOME_BYTES, IDS_BYTES = 4 * ROWS * WIDTH, 4 * IDS * WIDTH, 4 * IDS
ID, NUMBERS = Aval((), "int32"), Aval((IDS,), "int32")


def moved(function: Callable[..., Any], *inputs: tuple[int, ...] | Aval) -> float:
    def flat(*arrays: Any) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    avals = [given if isinstance(given, Aval) else Aval(given, "float32") for given in inputs]
    return cost_of(kernel_of("counted", flat, avals)).bytes_moved


def convolution(images: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        pytest.param(jnp.matmul, [(32, 784), (784, 128)], id="dot"),
        pytest.param(lambda x, w: (x @ w).T, [(32, 784), (784, 128)], id="view of a dot"),
        pytest.param(lambda x, w, v: (x @ w, x @ v), [(32, 784), (784, 128), (784, 64)], id="an input of two dots"),
        pytest.param(lambda x, w, v: x @ w @ v, [(32, 784), (784, 128), (128, 10)], id="dots in a row"),
        pytest.param(convolution, [(8, 28, 28, 3), (3, 3, 3, 16)], id="convolution"),
        pytest.param(jnp.sort, [(1000,)], id="sort"),
    ],
)
def test_dots_convolutions_and_sorts_move_what_xla_counts(function: Callable[..., Any], inputs: list[tuple[int, ...]]) -> None:
    compiled = jax.jit(function).lower(*(jnp.zeros(shape) for shape in inputs)).compile()
    assert 0 <= compiled.cost_analysis()["bytes accessed"] - moved(function, *inputs) <= 16  # addresses, where there are two results


def test_what_a_dot_and_an_elementwise_operation_read_is_read_by_both() -> None:
    x, w, dot = 4 * 32 * 784, 4 * 784 * 128, 4 * 32 * 128
    assert moved(lambda x, w: (x @ w, x * 2), (32, 784), (784, 128)) == (x + w + dot) + (x + x)


@pytest.mark.parametrize("table", [SMALL, TABLE])
def test_a_gather_moves_its_rows_and_ids(table: tuple[int, ...]) -> None:
    assert moved(lambda table, ids: table[ids], table, NUMBERS) == 2 * SOME_BYTES + IDS_BYTES


@pytest.mark.parametrize("table", [SMALL, TABLE])
def test_a_slice_moves_what_it_takes(table: tuple[int, ...]) -> None:
    assert moved(lambda table: table[:8], table) == 2 * 4 * 8 * WIDTH
    assert moved(lambda table, i: jax.lax.dynamic_slice(table, (i, 0), (8, WIDTH)), table, ID) == 2 * 4 * 8 * WIDTH + 4
    assert moved(lambda table: table[:8].sum() + table[8:16].sum(), table) == 2 * 4 * 8 * WIDTH + 4


def test_parts_of_an_input_are_no_more_than_the_whole() -> None:
    assert moved(lambda x: x[1:] - x[:-1], (1000,)) == 4 * 1000 + 4 * 999
    assert moved(lambda table, ids: table[ids], (4, WIDTH), NUMBERS) == 4 * 4 * WIDTH + SOME_BYTES + IDS_BYTES


def test_an_input_that_is_used_as_a_whole_too_is_read_once() -> None:
    assert moved(lambda table: (table[:8].sum(), table * 2), SMALL) == 2 * 4 * 1000 * WIDTH + 4


def test_rows_that_are_added_to_an_input_are_added_to_a_copy() -> None:
    changed = moved(lambda table, ids, rows: table.at[ids].add(rows), TABLE, NUMBERS, (IDS, WIDTH))
    assert changed == 2 * TABLE_BYTES + 3 * SOME_BYTES + IDS_BYTES
    put = moved(lambda table, rows, i: jax.lax.dynamic_update_slice(table, rows, (i, 0)), TABLE, (8, WIDTH), ID)
    assert put == 2 * TABLE_BYTES + 2 * 4 * 8 * WIDTH + 4


def test_rows_that_are_added_to_an_intermediate_value_are_added_in_place() -> None:
    def added(ids: Any, rows: Any) -> Any:
        return jnp.zeros(TABLE).at[ids].add(rows).at[ids].add(rows)

    # The zeros are written once; each scatter reads updates, and reads and writes rows. Inputs are read once.
    assert moved(added, NUMBERS, (IDS, WIDTH)) == TABLE_BYTES + (1 + 2 * 2) * SOME_BYTES + IDS_BYTES


def test_an_intermediate_value_that_is_needed_still_is_copied() -> None:
    def both(ids: Any, rows: Any) -> Any:
        first = jnp.zeros(TABLE).at[ids].add(rows)
        return first, first.at[ids].add(rows)

    assert moved(both, NUMBERS, (IDS, WIDTH)) == (1 + 2) * TABLE_BYTES + (1 + 2 * 2) * SOME_BYTES + IDS_BYTES


@pytest.mark.parametrize("table", [SMALL, TABLE])
def test_a_loop_that_takes_rows_of_a_table_moves_those_rows(table: tuple[int, ...]) -> None:
    def each(table: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda i, total: total + jax.lax.dynamic_index_in_dim(table, i, keepdims=False), jnp.zeros(WIDTH))

    assert moved(each, table) == pytest.approx((5 + 1) * 4 * WIDTH, abs=16)  # the counter's bytes are small change


def test_a_cond_whose_branches_take_rows_moves_those_of_the_dearest() -> None:
    def either(p: Any, table: Any) -> Any:
        return jax.lax.cond(p > 0, lambda table: table[:8].sum(), lambda table: table[:16].sum(), table)

    assert moved(either, ID, TABLE) == 4 + 4 * 16 * WIDTH + 4


def step_seconds(rows: int) -> float:
    hardware = sd.hardware.Device(flops=1e30, memory_bandwidth=1e9, launch_overhead=0.0)
    with sd.Cluster({"worker": 2}, hardware=hardware, numerics="off") as cluster:
        strategy = sd.MultiWorkerMirroredStrategy(cluster)
        with strategy.scope():
            table, rule = sd.Variable(np.zeros((rows, WIDTH), np.float32)), sd.Optimizer(keras.optimizers.SGD(0.1))

        @sd.function
        def step(ids: Any) -> Any:
            loss, gradients = sd.value_and_grad(lambda: (sd.embedding_lookup(table, ids) ** 2).sum(), [table])()
            rule.apply_gradients(zip(gradients, [table], strict=True))
            return loss

        strategy.run(step, args=(np.arange(IDS, dtype=np.int32),))
        return cluster.now


def test_a_step_of_replicas_that_looks_up_rows_takes_as_long_with_any_table() -> None:
    assert step_seconds(1000) == step_seconds(100_000)


def test_numbers_that_stand_in_the_jaxpr_may_be_arguments_of_loops_branches_and_changes() -> None:
    def step(x: jax.Array) -> jax.Array:
        y = jax.lax.cond(x[0] > 0, lambda a, b: a * b, lambda a, b: a + b, x, 2.0)
        z = jax.lax.fori_loop(0, 3, lambda i, carry: carry.at[1].set(7.0), y)
        return z.at[0].set(1.0)

    closed = jax.make_jaxpr(step)(np.ones(8, np.float32))
    assert 0 < bytes_moved("step", closed) < 50 * 32
