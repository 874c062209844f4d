"""Kernels: one of each structure, with numbers of its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simdist.collectives import ALL_REDUCE, run_schedule
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval
from simdist.runtime.combining import added_stacks


@pytest.mark.parametrize("name", sorted(ALL_REDUCE))
def test_a_sum_of_stacks_has_the_bits_of_the_transfers(name: str) -> None:
    schedule, rng = ALL_REDUCE[name].schedule(6), np.random.default_rng(0)
    stacks = [
        (rng.standard_normal((6, *shape)) * 10.0 ** rng.integers(-3, 4, (6, *shape))).astype(np.float32) for shape in ((7, 5), (3,), ())
    ]
    kernel = kernel_of("sum", lambda *arrays: added_stacks(schedule, [arrays]), [Aval(stack.shape, "float32") for stack in stacks])
    ranks = [np.concatenate([stack[rank].ravel() for stack in stacks]) for rank in range(6)]
    total = np.concatenate([np.asarray(array).ravel() for array in kernel(*stacks)])
    assert total.tobytes() == run_schedule(schedule, ranks)[0].tobytes()


def test_functions_of_one_structure_are_one_kernel() -> None:
    avals = [Aval((2,), "float32")]
    first, second, third = (kernel_of("f", function, avals) for function in (lambda x: (x + 1,), lambda y: (y + 1,), lambda x: (x + 2,)))
    assert first is second is not third


def test_a_kernel_keeps_the_numbers_that_it_had_when_it_was_traced() -> None:
    rate, avals = np.array(1.0, np.float32), [Aval((2,), "float32")]
    kernel = kernel_of("f", lambda x: (x * rate,), avals)
    rate *= 2.0
    (result,) = kernel(np.ones(2, np.float32))
    assert result.tolist() == [1.0, 1.0]
    assert kernel_of("f", lambda x: (x * np.float32(1.0),), avals) is kernel is not kernel_of("f", lambda x: (x * rate,), avals)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("place", ["jit", "apart"])
def test_functions_that_differ_in_a_number_of_an_inner_function_are_different_kernels(place: str, kind: Any) -> None:
    def scaled_by(number: float) -> Any:
        factor, avals = kind(np.full(2, number, np.float32)), [Aval((2,), "float32")]
        if place == "apart":
            inner = kernel_of("inner", lambda x: (x * factor,), avals)
            return kernel_of("f", lambda x: (inner.apart(x)[0] + 1,), avals)
        function = jax.jit(lambda x: x * factor)
        return kernel_of("f", lambda x: (function(x) + 1,), avals)

    kernels = [scaled_by(number) for number in (1.0, 5.0, 1.0)]
    assert kernels[0] is kernels[2] is not kernels[1]
    assert [kernel(np.ones(2, np.float32))[0].tolist() for kernel in kernels] == [[2, 2], [6, 6], [2, 2]]


def test_a_linear_solve_is_a_kernel_alone_and_inside_of_another() -> None:
    matrix, avals = np.array([[2.0, 1.0], [0.0, 4.0]], np.float32), [Aval((2, 2), "float32"), Aval((2,), "float32")]
    solve = kernel_of("solve", lambda a, b: (jnp.linalg.solve(a, b),), avals)
    outer = kernel_of("outer", lambda a, b: (solve.apart(a, b)[0] * 2,), avals)
    assert solve(matrix, np.array([4.0, 4.0], np.float32))[0].tolist() == [1.5, 1.0]
    assert outer(matrix, np.array([4.0, 4.0], np.float32))[0].tolist() == [3.0, 2.0]
