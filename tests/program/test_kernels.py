"""Kernels: one of each structure, and which of them may be compiled with fusion."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.collectives import ALL_REDUCE, run_schedule
from simdist.program.kernels import kernel_of, only_adds
from simdist.program.values import Aval
from simdist.runtime.combining import added_stacks


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


@pytest.mark.parametrize("name", sorted(ALL_REDUCE))
def test_a_sum_of_stacks_is_compiled_with_fusion_and_has_the_bits_of_the_transfers(name: str) -> None:
    schedule, rng = ALL_REDUCE[name].schedule(6), np.random.default_rng(0)
    stacks = [
        (rng.standard_normal((6, *shape)) * 10.0 ** rng.integers(-3, 4, (6, *shape))).astype(np.float32) for shape in ((7, 5), (3,), ())
    ]
    kernel = kernel_of("sum", lambda *arrays: added_stacks(schedule, arrays), [Aval(stack.shape, "float32") for stack in stacks])
    assert only_adds(kernel.closed.jaxpr)
    ranks = [np.concatenate([stack[rank].ravel() for stack in stacks]) for rank in range(6)]
    total = np.concatenate([np.asarray(array).ravel() for array in kernel(*stacks)])
    assert total.tobytes() == run_schedule(schedule, ranks)[0].tobytes()


def test_functions_of_one_structure_are_one_kernel() -> None:
    avals = [Aval((2,), "float32")]
    first, second, third = (kernel_of("f", function, avals) for function in (lambda x: (x + 1,), lambda y: (y + 1,), lambda x: (x + 2,)))
    assert first is second is not third
