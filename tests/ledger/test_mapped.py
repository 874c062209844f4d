"""Mapped kernels: one call for all lanes has the bits of single calls, or is not made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.ledger import mapped
from simdist.ledger.mapped import Form, batched_kernel, mapped_kernel
from simdist.program.kernels import Kernel, kernel_of
from simdist.program.values import Aval

MATRIX, ROWS, VECTOR = Aval((20, 8), "float32"), Aval((5, 20), "float32"), Aval((8,), "float32")


def dense(name: str) -> Kernel:
    def loss(weights: Any, bias: Any, rows: Any) -> Any:
        return jnp.sum(jax.nn.relu(rows @ weights + bias) ** 2)

    return kernel_of(name, jax.grad(loss, argnums=(0, 1)), [MATRIX, VECTOR, ROWS])


@pytest.mark.parametrize("lanes", [2, 5, 16])
def test_gradients_of_all_lanes_have_the_bits_of_single_calls(lanes: int) -> None:
    kernel, rng = dense(f"gradient {lanes}"), np.random.default_rng(0)
    weights, bias = rng.random((20, 8)).astype(np.float32), rng.random(8).astype(np.float32)
    rows = rng.random((lanes, 5, 20)).astype(np.float32)
    made = mapped_kernel(kernel, [(MATRIX, VECTOR)], (Form.SHARED,), lanes)
    assert made is not None
    found = made(weights, bias, rows)
    for lane in range(lanes):
        for one, stack in zip(kernel(weights, bias, rows[lane]), found, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(stack)[lane].tobytes()


def test_every_form_of_input_reaches_its_lane() -> None:
    kernel = kernel_of("all forms", lambda a, b, c, k: (a + 2 * b + 4 * c + 8 * k,), [VECTOR] * 4)
    one = (VECTOR,)
    made = mapped_kernel(kernel, [one, one, one], (Form.SEPARATE, Form.SHARED, Form.STACKED), 2)
    assert made is not None
    a, b, c, k = (np.arange(8.0, dtype=np.float32) + n for n in range(4))
    (found,) = made(a, a + 100, b, np.stack([c, c + 10]), np.stack([k, k + 1]))
    np.testing.assert_array_equal(found[0], a + 2 * b + 4 * c + 8 * k)
    np.testing.assert_array_equal(found[1], (a + 100) + 2 * b + 4 * (c + 10) + 8 * (k + 1))


def test_kernel_is_tried_once_for_its_forms() -> None:
    kernel, one = kernel_of("tried once", lambda a, k: (a * k,), [VECTOR] * 2), (VECTOR,)
    first = mapped_kernel(kernel, [one], (Form.SHARED,), 3)
    assert first is mapped_kernel(kernel, [one], (Form.SHARED,), 3)
    assert first is not mapped_kernel(kernel, [one], (Form.STACKED,), 3)


def test_kernel_whose_bits_differ_in_the_loop_is_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def off_by_a_bit(lane: Callable[..., Any], stacks: tuple[Any, ...]) -> Any:
        return [column * np.float32(1.0000001) for column in jax.lax.map(lane, stacks)]

    monkeypatch.setattr(mapped, "_in_a_loop", off_by_a_bit)
    assert mapped_kernel(dense("other bits"), [(MATRIX, VECTOR)], (Form.SHARED,), 3) is None


def test_convolution_is_mapped_with_the_bits_of_single_calls() -> None:
    images = Aval((4, 8, 8, 2), "float32")
    weights = Aval((3, 3, 2, 4), "float32")

    def loss(w: Any, x: Any) -> Any:
        out = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.sum(jax.nn.relu(out) ** 2)

    kernel = kernel_of("convolution", lambda w, x: (jax.grad(loss)(w, x),), [weights, images])
    made = mapped_kernel(kernel, [(weights,)], (Form.SHARED,), 3)
    assert made is not None
    rng = np.random.default_rng(1)
    w, x = rng.random((3, 3, 2, 4)).astype(np.float32), rng.random((3, 4, 8, 8, 2)).astype(np.float32)
    (found,) = made(w, x)
    for lane in range(3):
        assert np.asarray(kernel(w, x[lane])[0]).tobytes() == np.asarray(found)[lane].tobytes()


def calling_back(x: Any) -> Any:
    return jax.pure_callback(lambda y: np.asarray(y) + np.float32(1), jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def printing(x: Any) -> Any:
    jax.debug.print("{x}", x=x[0])
    return x * 2


def looping(x: Any) -> Any:
    return jax.lax.while_loop(lambda y: jnp.sum(y) > 1e-3, lambda y: y * 0.5, x)


@pytest.mark.parametrize("function", [calling_back, printing, looping])
def test_kernel_that_random_inputs_could_harm_is_not_tried(function: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    kernel = kernel_of(f"harm {function.__name__}", lambda a, k: (function(a) * k,), [VECTOR, VECTOR])
    assert mapped_kernel(kernel, [(VECTOR,)], (Form.SHARED,), 3) is None
    assert capsys.readouterr().out == ""


def test_one_batched_kernel_is_close_to_the_single_calls_and_is_not_tried() -> None:
    kernel, rng = (
        kernel_of("rows", lambda a, b: (jnp.tanh(a @ b),), [Aval((3, 5), "float32"), Aval((5,), "float32")]),
        np.random.default_rng(0),
    )
    shared, fed = rng.standard_normal((3, 5)).astype(np.float32), rng.standard_normal((4, 5)).astype(np.float32)
    batched = batched_kernel(kernel, [(kernel.in_avals[0],)], (Form.SHARED,), 4)
    assert batched is not None
    np.testing.assert_allclose(batched(shared, fed)[0], [kernel(shared, row)[0] for row in fed], rtol=1e-6)


def test_kernel_that_calls_back_is_not_batched() -> None:
    def told(a: Any) -> Any:
        jax.debug.callback(lambda _: None, a)
        return (a,)

    assert batched_kernel(kernel_of("told", told, [Aval((2,), "float32")]), [], (), 4) is None
