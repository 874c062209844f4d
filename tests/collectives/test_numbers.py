"""What collectives compute: sums against float64, bits against the transfers themselves, data against its definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sampling import covering, examples, sampled
from simdist.collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    Schedule,
    Transfer,
    algorithm,
    chunk_sums,
    combined,
    double_tree,
    run_schedule,
    run_steps,
)
from simdist.collectives.numbers import boundaries, combined_packs, combined_stacks
from simdist.errors import InvalidArgumentError
from simdist.program.jaxprs import equations_in

COUNTS = [*range(1, 10), 16]


def uneven(n: int, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    """Numbers of very different magnitudes and both signs, so that the order of additions shows in the bits."""
    random = np.random.default_rng(seed)
    return (random.standard_normal((n, *shape)) * 10.0 ** random.integers(-6, 7, (n, *shape))).astype(np.float32)


def bits(array: Any) -> bytes:
    return np.asarray(array).tobytes()


# -- all-reduce -----------------------------------------------------------------------------------------------------------


BOUNDS = [(name, n) for name in ALL_REDUCE for n in COUNTS]
MANY = [(name, n) for name in ALL_REDUCE for n in (2, 5, 8)]


@pytest.mark.parametrize(("name", "n"), sampled(BOUNDS, BOUNDS[::3]))
def test_all_reduce_gives_all_ranks_the_bits_of_one_sum_near_the_exact_one(name: str, n: int) -> None:
    for size in (7, 64):
        data = uneven(n, (size,), seed=n)
        results = run_schedule(ALL_REDUCE[name].schedule(n), list(data))
        assert len({bits(result) for result in results}) == 1
        exact, magnitude = data.astype(np.float64).sum(axis=0), np.abs(data.astype(np.float64)).sum(axis=0)
        assert np.all(np.abs(results[0] - exact) <= 1e-6 * magnitude)
        assert bits(combined(ALL_REDUCE[name].schedule(n), list(data))) == bits(results[0])


@pytest.mark.parametrize("name", ALL_REDUCE)
def test_all_reduce_of_positive_numbers_is_within_a_millionth_of_the_float64_sum(name: str) -> None:
    for n in COUNTS:
        data = np.random.default_rng(n).uniform(0.5, 2.0, (n, 50)).astype(np.float32)
        result = run_schedule(ALL_REDUCE[name].schedule(n), list(data))[0]
        np.testing.assert_allclose(result, data.astype(np.float64).sum(axis=0), rtol=1e-6)


@given(
    name=st.sampled_from(sorted(ALL_REDUCE)),
    n=st.integers(1, 12),
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple),
    seed=st.integers(0, 99),
)
@examples(25)
def test_combined_has_the_bits_of_the_transfers_for_any_shape(name: str, n: int, shape: tuple[int, ...], seed: int) -> None:
    data, schedule = uneven(n, shape, seed), ALL_REDUCE[name].schedule(n)
    result = combined(schedule, jnp.asarray(data))
    assert result.shape == shape
    for reference in run_schedule(schedule, list(data)):
        assert bits(result) == bits(reference)


@pytest.mark.parametrize("block_bytes", [chunk_sums.BLOCK_BYTES, 100])
@pytest.mark.parametrize(("name", "n"), sampled(MANY, covering(MANY)))
def test_sums_of_stacks_and_of_packs_have_the_bits_of_the_transfers(
    name: str, n: int, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sums, "BLOCK_BYTES", block_bytes)  # the smaller one: chunks of several pieces
    schedule, rng = ALL_REDUCE[name].schedule(n), np.random.default_rng(n)
    stacks = [jnp.asarray(rng.standard_normal((n, *shape)), jnp.float32) for shape in ((7, 5), (3,), (1, 2))]
    packs = [[stack[rank] for stack in stacks] for rank in range(n)]
    # The arrays travel end to end, so chunks begin in one and end in the next.
    whole = run_schedule(schedule, [np.concatenate([np.ravel(array) for array in pack]) for pack in packs])[0]
    cuts = [[0, n], [0, 1, n], [0, n // 2, n - 1, n]]
    in_parts = [[[stack[first:end] for stack in stacks] for first, end in pairwise(cut) if first < end] for cut in cuts]
    for sums in (*(combined_stacks(schedule, parts) for parts in in_parts), combined_packs(schedule, packs)):
        assert bits(np.concatenate([np.ravel(array) for array in sums])) == bits(whole)


def test_pieces_fit_into_a_block_and_the_code_is_as_long_for_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def equations(block_bytes: int) -> list[Any]:
        monkeypatch.setattr(chunk_sums, "BLOCK_BYTES", block_bytes)
        data = jnp.zeros((8, 8_000))
        return list(equations_in(jax.make_jaxpr(lambda stack: combined_stacks(ALL_REDUCE["ring"].schedule(8), [[stack]]))(data).jaxpr))

    one, many = equations(8_000 * 4), equations(1_000)
    assert [equation.primitive for equation in one] == [equation.primitive for equation in many]
    (block,) = [equation.outvars[0].aval for equation in many if equation.primitive.name == "optimization_barrier"]
    assert block.shape == (8, 32), "of 32 bytes a column: a chunk of 1,000 columns is 32 pieces"


@pytest.mark.parametrize(("most", "in_a_run", "loops"), [(0, 16, 3), (4 * 6, 16, 2), (10**6, 16, 1), (10**6, 2, 2)])
@pytest.mark.parametrize("cut", [[0, 6], [0, 2, 6]])
@pytest.mark.sample
def test_some_small_stacks_are_added_in_one_loop_with_the_same_bits(
    most: int, in_a_run: int, loops: int, cut: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_sums, "MOST_JOINED", most)
    monkeypatch.setattr(chunk_sums, "MOST_IN_A_RUN", in_a_run)
    schedule = ALL_REDUCE["ring"].schedule(6)
    stacks = [uneven(6, shape, len(shape)) for shape in ((7, 5), (3,), (0, 2), (1, 2))]
    parts = [[jnp.asarray(stack[first:end]) for stack in stacks] for first, end in pairwise(cut)]
    jaxpr = jax.make_jaxpr(lambda arrays: combined_stacks(schedule, arrays))(parts).jaxpr
    assert [equation.primitive.name for equation in equations_in(jaxpr)].count("scan") == loops
    found = combined_stacks(schedule, parts)
    assert [array.shape for array in found] == [stack.shape[1:] for stack in stacks]
    whole = run_schedule(schedule, [np.concatenate([stack[rank].ravel() for stack in stacks]) for rank in range(6)])[0]
    assert bits(np.concatenate([np.ravel(array) for array in found])) == bits(whole)


def test_orders_of_addition_differ_in_their_bits() -> None:
    data = uneven(8, (500,))
    found = {name: bits(combined(known.schedule(8), data)) for name, known in ALL_REDUCE.items()}
    assert found["ring"] != found["recursive doubling"] != found["reduction to one"] != found["ring"]
    in_order = data[0]
    for values in data[1:]:
        in_order = in_order + values
    assert found["reduction to one"] == bits(in_order)


def test_negative_zero_survives() -> None:
    data = np.full((5, 7), -0.0, np.float32)
    for known in ALL_REDUCE.values():
        assert np.signbit(combined(known.schedule(5), data)).all()


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "double tree", "hierarchical copy"])
def test_combined_is_the_same_compiled_and_vmapped(name: str) -> None:
    schedule = ALL_REDUCE[name].schedule(6)
    data = uneven(6, (33,))
    assert bits(jax.jit(lambda arrays: combined(schedule, arrays))(list(data))) == bits(run_schedule(schedule, list(data))[0])
    batch = uneven(4 * 6, (33,)).reshape(4, 6, 33)
    vmapped = jax.vmap(lambda arrays: combined(schedule, arrays))(jnp.asarray(batch))
    for one, arrays in zip(vmapped, batch, strict=True):
        assert bits(one) == bits(run_schedule(schedule, list(arrays))[0])


@pytest.mark.parametrize("size", [64 * 100, 64 * 100 + 37])
def test_ring_of_64_ranks_is_63_additions(size: int) -> None:
    schedule = ALL_REDUCE["ring"].schedule(64)
    jaxpr = jax.make_jaxpr(lambda arrays: combined(schedule, arrays))(jnp.zeros((64, size))).jaxpr
    assert [equation.outvars[0].aval.dtype for equation in equations_in(jaxpr) if equation.primitive.name == "add"].count(np.float32) == 63


@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.float32])
def test_dtype_stays(dtype: type) -> None:
    data = np.arange(12).reshape(3, 4).astype(dtype)
    result = combined(ALL_REDUCE["ring"].schedule(3), list(data))
    assert result.dtype == dtype
    assert result.tolist() == [12, 15, 18, 21]


def test_three_devices_of_a_hierarchical_copy_holding_1_2_3_give_6() -> None:
    schedule = ALL_REDUCE["hierarchical copy"].schedule
    for n, expected in ((2, 3.0), (3, 6.0), (4, 10.0)):
        assert combined(schedule(n), np.arange(1.0, n + 1, dtype=np.float32)[:, None]).tolist() == [expected]


# -- other collectives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.sample(2)
def test_reduce_scatter_leaves_each_rank_the_sum_of_its_chunk(n: int) -> None:
    data, schedule = uneven(n, (50,)), algorithm("reduce_scatter", "ring").schedule(n)
    whole, edges = np.asarray(combined(schedule, list(data))), boundaries(50, n)
    for rank, result in enumerate(run_schedule(schedule, list(data))):
        assert bits(result[edges[rank] : edges[rank + 1]]) == bits(whole[edges[rank] : edges[rank + 1]])
    exact, magnitude = data.astype(np.float64).sum(axis=0), np.abs(data.astype(np.float64)).sum(axis=0)
    assert np.all(np.abs(whole - exact) <= 1e-6 * magnitude)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("name", ALL_GATHER)
def test_all_gather_gives_everybody_the_parts_of_all(name: str, n: int) -> None:
    if name == "recursive doubling" and n & (n - 1):
        with pytest.raises(InvalidArgumentError, match="Use 'bruck' or 'ring'"):
            ALL_GATHER[name].schedule(n)
        return
    whole, edges = np.arange(50.0), boundaries(50, n)
    parts = [np.full(50, np.nan) for _ in range(n)]
    for rank, part in enumerate(parts):
        part[edges[rank] : edges[rank + 1]] = whole[edges[rank] : edges[rank + 1]]
    for result in run_schedule(ALL_GATHER[name].schedule(n), parts):
        np.testing.assert_array_equal(result, whole)


@pytest.mark.parametrize("n", COUNTS)
def test_all_to_all_transposes_the_table(n: int) -> None:
    rows = []
    for rank in range(n):
        table = np.full((n, n), np.nan)
        table[rank] = 100.0 * rank + np.arange(n)
        rows.append(table)
    for rank, result in enumerate(run_schedule(algorithm("all_to_all", "pairwise").schedule(n), rows)):
        np.testing.assert_array_equal(result[:, rank], 100.0 * np.arange(n) + rank)


@pytest.mark.parametrize("n", COUNTS)
def test_broadcast_and_reduce_are_those_of_rank_0(n: int) -> None:
    data = uneven(n, (3, 4))
    for result in run_schedule(algorithm("broadcast", "binomial").schedule(n), list(data)):
        assert bits(result) == bits(data[0])
    reduced = algorithm("reduce", "binomial").schedule(n)
    assert bits(run_schedule(reduced, list(data))[0]) == bits(combined(reduced, list(data)))


# -- steps and errors -----------------------------------------------------------------------------------------------------


def test_steps_show_what_ranks_have_after_each_and_leave_the_data_alone() -> None:
    data = [np.array([1, 2, 3]), np.array([10, 20, 30]), np.array([100, 200, 300])]
    after = [[held.tolist() for held in step] for step in run_steps(ALL_REDUCE["ring"].schedule(3), data)]
    assert after[0] == [[1, 2, 303], [11, 20, 30], [100, 220, 300]]
    assert after[1] == [[1, 222, 303], [11, 20, 333], [111, 220, 300]]
    assert after[3] == [[111, 222, 333]] * 3
    assert data[0].tolist() == [1, 2, 3]


def test_number_and_shapes_of_the_arrays_are_checked() -> None:
    ring = ALL_REDUCE["ring"].schedule(3)
    with pytest.raises(InvalidArgumentError, match="ring on 3 ranks needs one array each; got 2"):
        run_schedule(ring, [np.zeros(2)] * 2)
    with pytest.raises(InvalidArgumentError, match="needs one array each; got 4"):
        combined(ring, jnp.zeros((4, 2)))
    for function in (run_schedule, combined):
        with pytest.raises(InvalidArgumentError, match="data of one shape"):
            function(ring, [np.zeros(2), np.zeros(2), np.zeros(3)])
    with pytest.raises(InvalidArgumentError, match="kind 'all_gather' adds nothing"):
        combined(ALL_GATHER["ring"].schedule(3), jnp.zeros((3, 2)))


def test_schedules_that_do_not_add_every_rank_once_are_refused() -> None:
    doubling, ring = ALL_REDUCE["recursive doubling"].schedule(4), ALL_REDUCE["ring"].schedule(3)
    same_partner = tuple(replace(transfer, target=transfer.source ^ 1) for transfer in doubling.transfers)
    twice = (Transfer(0, 1, 0, (0,), True), Transfer(1, 1, 0, (0,), True))
    for schedule, message in (
        (Schedule("all_reduce", "lost", 4, 1, doubling.transfers[1:]), "and some have none"),
        (Schedule("all_reduce", "half", 3, 3, ring.transfers[:6]), "and some have none"),
        (Schedule("all_reduce", "alone", 4, 1, same_partner), "end with 2 different sums of chunk 0"),
        (Schedule("reduce", "twice", 3, 1, twice), "adds rank 1 twice in chunk 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            combined(schedule, jnp.zeros((schedule.num_ranks, 6)))


def test_pieces_of_a_double_tree_do_not_change_the_order_of_additions_within_a_tree() -> None:
    data = uneven(7, (640,))
    for pieces in (1, 12):
        schedule = double_tree(pieces).schedule(7)
        assert bits(combined(schedule, data)) == bits(run_schedule(schedule, list(data))[6])


def test_a_schedule_that_breaks_a_rule_is_not_run() -> None:
    broken = Schedule("all_reduce", "mine", 2, 1, (Transfer(0, 0, 0, (0,), True),))
    with pytest.raises(InvalidArgumentError, match=r"mine on 2 ranks, .* a rank does not send to itself"):
        run_schedule(broken, [np.ones(2), np.ones(2)])
