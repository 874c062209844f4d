"""Which kernels may be fused, and that their products are rounded all the same."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sampling import sampled
from simdist.program.fusion import NOTHING, fuses_exactly, guarded, only_adds
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval


def jaxpr(function: Any, *arrays: Any) -> Any:
    return jax.make_jaxpr(function)(*arrays).jaxpr


VECTOR = jnp.zeros(4)
CASES: dict[str, tuple[Any, Any, bool]] = {
    "a sum": (lambda x: x + x[::-1], VECTOR, True),
    "a sum in a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda i, total: total + x[i], x), VECTOR, True),
    "whole numbers": (lambda x: x * 3 // 2, jnp.zeros(4, jnp.int32), True),
    "a product": (lambda x: x * 2 + 1, VECTOR, False),
    "a product in a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda _, total: total * 2, x), VECTOR, False),
    "a reduction, whose order is the compiler's": (lambda x: x.sum(), VECTOR, False),
    "half precision, which is added in single": (lambda x: x + x + x, jnp.zeros(4, jnp.float16), False),
    "bfloat16": (lambda x: x + x + x, jnp.zeros(4, jnp.bfloat16), False),
    "random numbers": (lambda x: x + jax.random.normal(jax.random.key(0), (4,)), VECTOR, False),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_adds_in_an_order_of_its_own_is_compiled_with_fusion(case: str) -> None:
    function, array, expected = CASES[case]
    assert only_adds(jaxpr(function, array)) is expected


ELEMENTS: dict[str, tuple[Any, Any, bool]] = {
    "a product": (lambda x: x * 2 + 1, VECTOR, True),
    "a product in a function of its own": (jax.jit(lambda x: jnp.where(x > 0, x * 2 + 1, jnp.sqrt(x))), VECTOR, True),
    "one element for all": (lambda x: x * x[0], VECTOR, False),
    "a power of a number that is given": (lambda x: 1 - jnp.power(0.9, x), jnp.float32(3.0), True),
    "powers of many": (lambda x: jnp.power(0.9, x), VECTOR, False),
    "a reduction": (lambda x: x * x.sum(), VECTOR, False),
    "a dot": (lambda x: x @ x, VECTOR, False),
    "a loop": (lambda x: jax.lax.fori_loop(0, 3, lambda _, total: total * 2, x), VECTOR, False),
    "half precision": (lambda x: x * 2 + x, jnp.zeros(4, jnp.float16), False),
    "complex numbers": (lambda x: x * 2 + x, jnp.zeros(4, jnp.complex64), False),
}


@pytest.mark.parametrize("case", ELEMENTS)
def test_only_what_computes_element_by_element_is_fused_with_its_products_kept_apart(case: str) -> None:
    function, array, expected = ELEMENTS[case]
    assert fuses_exactly(jaxpr(function, array)) is expected


RULES: dict[str, Any] = {
    "sum of a product": lambda np, x, y: x * y + np.abs(y),
    "difference of a product": lambda np, x, y: x - y * np.float32(0.3),
    "product taken away": lambda np, x, y: x * y - x,
    "negative product": lambda np, x, y: -(x * y) + y,
    "mean that moves": lambda np, x, y: x + (y - x) * np.float32(0.1),
    "square": lambda np, x, y: x + np.square(y),
    "two products": lambda np, x, y: x * np.float32(0.9) + y * np.float32(0.1),
    "quotient": lambda np, x, y: x - y * np.float32(0.1) / (np.sqrt(np.abs(x)) + np.float32(1e-7)),
}


@pytest.mark.parametrize("rule", RULES)
def test_fused_products_are_rounded_as_numpy_rounds_them(rule: str) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3, 1001)).astype(np.float32)
    closed = jax.make_jaxpr(lambda x, y: RULES[rule](jnp, x, y))(x, y)
    assert fuses_exactly(closed.jaxpr)
    (found,) = jax.jit(guarded(closed))(NOTHING, x, y)
    assert np.asarray(found).tobytes() == RULES[rule](np, x, y).tobytes()


def test_double_precision_is_kept_apart_too() -> None:
    with jax.enable_x64(True):
        x, y = np.random.default_rng(0).standard_normal((2, 1001))
        (found,) = jax.jit(guarded(jax.make_jaxpr(lambda x, y: x * y + y)(x, y)))(NOTHING, x, y)
        assert np.asarray(found).tobytes() == (x * y + y).tobytes()


STEPS: list[Any] = [
    *(lambda a, b, c: a + b, lambda a, b, c: a - b, lambda a, b, c: a * b, lambda a, b, c: a / b, lambda a, b, c: jnp.square(a)),
    *(lambda a, b, c: a**3, lambda a, b, c: a**-2, lambda a, b, c: -a, jnp.clip, lambda a, b, c: jnp.where(a > b, b, c)),
    *(lambda a, b, c: 0.9 * a, lambda a, b, c: a / 3.0, lambda a, b, c: a / jnp.sqrt(jnp.abs(b)), lambda a, b, c: a + (b - a) * 0.1),
]


@pytest.mark.parametrize("seed", sampled(range(200), range(4)))
def test_any_rule_has_the_bits_that_it_has_without_fusion(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [(STEPS[rng.integers(len(STEPS))], rng.integers(0, 1 << 30, 3)) for _ in range(12)]

    def rule(x: Any, y: Any, decay: Any, step: Any) -> Any:
        values = [x, y, x * (1 - jnp.power(decay, step)), decay]
        for operation, taken in drawn:
            values.append(operation(*(values[number % len(values)] for number in taken)))
        return values[-6:]

    arrays = [*rng.standard_normal((2, 37, 29)).astype(np.float32), np.float32(0.9), np.float32(rng.integers(1, 9))]
    kernel = kernel_of("rule", rule, [Aval(array.shape, "float32") for array in arrays])
    assert kernel.is_fused
    for once, apart in zip(kernel(*arrays), kernel.jitted(*arrays), strict=True):
        np.testing.assert_array_equal(once, apart)
