"""Compression: bytes against the formulas, and nothing lost by error feedback."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sampling import sampled
from simdist.collectives import Compressor, Fp16, NoCompression, OneBit, PowerSGD, TopK
from simdist.errors import InvalidArgumentError

SHAPES = [(), (1,), (9,), (40, 30), (3, 3, 8, 16)]
FEEDBACK: list[Compressor] = [TopK(0.1), TopK(1.0), OneBit(), PowerSGD(1), PowerSGD(4)]


def gradients(shape: tuple[int, ...], count: int = 20, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)


def message_bytes(message: Any) -> int:
    return sum(leaf.nbytes for leaf in jax.tree_util.tree_leaves(message))


COMPRESSORS: list[Compressor] = [NoCompression(), Fp16(), TopK(0.01), TopK(0.5), OneBit(), PowerSGD(1), PowerSGD(3)]
MESSAGES = [(compressor, shape) for compressor in COMPRESSORS for shape in SHAPES]
SUMS = [(compressor, shape) for compressor in FEEDBACK for shape in SHAPES]


@pytest.mark.parametrize(("compressor", "shape"), sampled(MESSAGES, MESSAGES[::3]))
def test_bytes_on_wire_are_those_of_the_message(compressor: Compressor, shape: tuple[int, ...]) -> None:
    message, _ = compressor.compress(jnp.asarray(gradients(shape)[0]), compressor.initial_state(shape))
    assert compressor.bytes_on_wire(shape, np.float32) == message_bytes(message)


def test_bytes_on_wire_equal_the_formulas() -> None:
    n, m = 400, 300
    dense = NoCompression().bytes_on_wire((n, m))
    assert dense == 4 * n * m
    assert Fp16().bytes_on_wire((n, m)) / dense == 1 / 2
    assert TopK(0.01).bytes_on_wire((n, m)) / dense == 2 * 0.01
    assert OneBit().bytes_on_wire((n, m)) == dense / 32 + 8
    for rank in (1, 2, 7):
        assert PowerSGD(rank).bytes_on_wire((n, m)) / dense == pytest.approx(rank * (n + m) / (n * m), rel=1e-12)
    assert PowerSGD(2).bytes_on_wire((3, 3, 8, 16)) == 4 * 2 * (72 + 16)
    assert TopK(0.01).bytes_on_wire((n, m), np.float64) == 1200 * 12
    assert [TopK(fraction).num_sent((100,)) for fraction in (0.07, 0.071, 0.29, 0.57, 1e-9)] == [7, 8, 29, 57, 1]


@pytest.mark.parametrize(("compressor", "shape"), sampled(SUMS, SUMS[::3]))
def test_everything_sent_and_the_residual_are_the_sum_of_gradients(compressor: Compressor, shape: tuple[int, ...]) -> None:
    state, sent = compressor.initial_state(shape), np.zeros(shape)
    step = jax.jit(compressor.compress)
    for gradient in gradients(shape):
        message, state = step(jnp.asarray(gradient), state)
        sent += np.asarray(compressor.decompress(message, shape), np.float64)
    residual = state.residual if isinstance(compressor, PowerSGD) else state
    expected = gradients(shape).astype(np.float64).sum(axis=0)
    assert np.linalg.norm(sent + residual - expected) <= 1e-6 * np.linalg.norm(gradients(shape))


def test_residual_is_what_was_not_sent_and_goes_with_the_next_gradient() -> None:
    top = TopK(0.25)
    _, residual = top.compress(jnp.array([1.0, 5.0, 3.0, 0.0]), top.initial_state((4,)))
    message, _ = top.compress(jnp.array([0.0, 0.0, 2.0, 4.0]), residual)
    assert top.decompress(message, (4,)).tolist() == [0.0, 0.0, 5.0, 0.0]


def test_top_k_sends_the_largest_magnitudes() -> None:
    values = gradients((200,))[0]
    (sent, places), residual = TopK(0.05).compress(jnp.asarray(values), jnp.zeros(200))
    largest = np.argsort(-np.abs(values))[:10]
    assert sorted(np.asarray(places).tolist()) == sorted(largest.tolist())
    np.testing.assert_array_equal(sent, values[np.asarray(places)])
    assert np.abs(residual).max() <= np.abs(sent).min()


def test_one_bit_stands_for_the_means_of_either_sign() -> None:
    values = gradients((1000,))[0]
    message, _ = OneBit().compress(jnp.asarray(values), jnp.zeros(1000))
    result = OneBit().decompress(message, (1000,))
    np.testing.assert_allclose(result, np.where(values >= 0, values[values >= 0].mean(), values[values < 0].mean()), rtol=1e-5)


def test_one_bit_of_one_sign_has_no_mean_of_nothing() -> None:
    message, residual = OneBit().compress(jnp.full(5, -2.0), jnp.zeros(5))
    assert OneBit().decompress(message, (5,)).tolist() == [-2.0] * 5
    assert residual.tolist() == [0.0] * 5


def test_fp16_rounds_to_half_precision() -> None:
    values = gradients((50,))[0]
    message, _ = Fp16().compress(jnp.asarray(values), ())
    assert message.dtype == jnp.float16
    np.testing.assert_array_equal(Fp16().decompress(message, (50,)), values.astype(np.float16).astype(np.float32))


# -- PowerSGD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rank", "true_rank"), [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (5, 1), (5, 2), (5, 5)])
def test_power_sgd_reproduces_a_gradient_of_at_most_its_rank(rank: int, true_rank: int) -> None:
    random = np.random.default_rng(3)
    gradient = (random.standard_normal((60, true_rank)) @ random.standard_normal((true_rank, 40))).astype(np.float32)
    power = PowerSGD(rank)
    message, state = power.compress(jnp.asarray(gradient), power.initial_state((60, 40)))
    np.testing.assert_allclose(power.decompress(message, (60, 40)), gradient, atol=3e-6 * max(1.0, np.abs(gradient).max()))
    assert np.abs(state.residual).max() <= 3e-6 * max(1.0, np.abs(gradient).max())


def test_power_sgd_of_the_same_gradient_approaches_the_best_approximation_of_its_rank() -> None:
    random = np.random.default_rng(4)
    left, _ = np.linalg.qr(random.standard_normal((30, 20)))
    right, _ = np.linalg.qr(random.standard_normal((20, 20)))
    gradient = jnp.asarray((left * 0.5 ** np.arange(20)) @ right.T, jnp.float32)
    power = PowerSGD(2)
    state, zeros = power.initial_state((30, 20)), jnp.zeros((30, 20))
    message = None
    for _ in range(20):
        message, state = power.compress(gradient, state._replace(residual=zeros))
    error = np.linalg.norm(power.decompress(message, (30, 20)) - gradient)
    assert error == pytest.approx(math.sqrt(sum(0.25**i for i in range(2, 20))), rel=1e-3)


def test_workers_agree_on_what_one_worker_sends_for_the_mean_gradient() -> None:
    power, shape, workers = PowerSGD(3), (25, 15), 4
    states = [power.initial_state(shape)] * workers
    alone, sent = power.initial_state(shape), np.zeros(shape)
    total = np.zeros(shape)
    for step in range(6):
        own = [jnp.asarray(gradient) for gradient in gradients(shape, workers, seed=step)]
        mean_left = sum(power.left(g, s) for g, s in zip(own, states, strict=True)) / workers
        halves = [power.right(g, s, mean_left) for g, s in zip(own, states, strict=True)]
        mean_right = sum(right for _, right in halves) / workers
        results = [power.finish(g, s, halves[0][0], mean_right) for g, s in zip(own, states, strict=True)]
        states = [state for _, state in results]
        message, alone = power.compress(sum(own) / workers, alone)
        np.testing.assert_allclose(results[0][0], power.decompress(message, shape), atol=2e-5)
        sent += np.asarray(results[0][0], np.float64)
        total += np.mean(own, axis=0)
    residual = np.mean([state.residual for state in states], axis=0)
    np.testing.assert_allclose(sent + residual, total, atol=1e-5)


def test_power_sgd_sends_gradients_after_one_of_zeros() -> None:
    # The gradient's first row is zero (a pixel that is never lit), and QR completes a left factor of zeros by that row.
    power, state = PowerSGD(1), PowerSGD(1).initial_state((3, 4))
    for scale in [0.0, 1.0, 1.0]:
        _, state = power.compress(jnp.asarray(scale * np.outer([0.0, 1.0, 2.0], [1.0, 2.0, 3.0, 4.0]), jnp.float32), state)
    np.testing.assert_allclose(state.residual, np.zeros((3, 4)), atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 4)])
def test_power_sgd_sends_nothing_of_an_empty_gradient(shape: tuple[int, ...]) -> None:
    power = PowerSGD(2)
    message, state = power.compress(jnp.zeros(shape), power.initial_state(shape))
    assert power.decompress(message, shape).shape == state.residual.shape == shape
    assert power.bytes_on_wire(shape) == 0 == message_bytes(message)


def test_power_sgd_starts_alike_on_all_workers_and_sends_vectors_whole() -> None:
    first, second = PowerSGD(2).initial_state((8, 6)), PowerSGD(2).initial_state((8, 6))
    np.testing.assert_array_equal(first.right, second.right)
    vector = jnp.arange(5.0)
    message, state = PowerSGD(2).compress(vector, PowerSGD(2).initial_state((5,)))
    assert PowerSGD(2).decompress(message, (5,)).tolist() == vector.tolist()
    assert state.residual.tolist() == [0.0] * 5


def test_compressors_can_be_vmapped_over_workers() -> None:
    stacked = jnp.asarray(gradients((6, 4), 3))
    for compressor in FEEDBACK:
        states = jax.tree_util.tree_map(lambda leaf: jnp.stack([leaf] * 3), compressor.initial_state((6, 4)))
        messages, _ = jax.vmap(compressor.compress)(stacked, states)
        one, _ = compressor.compress(stacked[1], compressor.initial_state((6, 4)))
        for several, single in zip(jax.tree_util.tree_leaves(messages), jax.tree_util.tree_leaves(one), strict=True):
            np.testing.assert_allclose(several[1], single, rtol=1e-5, atol=1e-6)


def test_each_compressor_says_which_collective_it_needs() -> None:
    assert [c.collective for c in (NoCompression(), Fp16(), PowerSGD())] == ["all_reduce"] * 3
    assert [c.collective for c in (TopK(), OneBit())] == ["all_gather"] * 2


@pytest.mark.parametrize("make", [lambda: TopK(0.0), lambda: TopK(1.5), lambda: PowerSGD(0)])
def test_impossible_settings_are_refused(make: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be|rank is 0; expected at least 1"):
        make()


def test_one_bit_of_many_numbers_of_float16_has_the_means_of_float32() -> None:
    values = jnp.asarray(np.random.default_rng(0).normal(size=200_000), jnp.float16)
    (_, scales), rest = OneBit().compress(values, jnp.zeros_like(values))
    exact = np.asarray(values, np.float64)
    np.testing.assert_allclose(scales, [exact[exact < 0].mean(), exact[exact >= 0].mean()], rtol=1e-3)
    assert scales.dtype == rest.dtype == jnp.float16
