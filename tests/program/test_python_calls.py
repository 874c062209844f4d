"""A kernel that calls Python calls it once for each call, and has the price of what was traced."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax.numpy as jnp
import numpy as np

from simdist.cost.flops import cost_of
from simdist.program.kernels import kernel_of
from simdist.program.python_calls import PythonCall, bind_python
from simdist.program.values import Aval

AVALS = [Aval((4, 4), "float32"), Aval((9,), "float32")]


def test_python_runs_at_each_call_with_values_and_costs_what_was_traced() -> None:
    seen: list[float] = []
    compiled = kernel_of("product", lambda a: [a @ a + 1.0], AVALS[:1])

    def run(arrays: Any) -> Any:
        seen.append(float(arrays[0].sum()))
        return [arrays[0] @ arrays[0] + 1.0]

    call = PythonCall(run, compiled.out_avals, compiled.closed)
    kernel = kernel_of("product", lambda *arrays: [2.0 * x for x in bind_python(call, arrays)], AVALS)
    assert seen == []
    for size in (1.0, 2.0):
        (result,) = kernel(np.full((4, 4), size, np.float32), np.zeros(9, np.float32))
        np.testing.assert_array_equal(result, np.full((4, 4), 2 * (4 * size**2 + 1)))
    assert seen == [16.0, 32.0]
    twice = kernel_of("product", lambda a: [2.0 * (a @ a + 1.0)], AVALS[:1])
    assert (kernel.is_python, kernel.runs_at_once, compiled.is_python, compiled.runs_at_once) == (True, True, False, False)
    assert (cost_of(kernel.priced).flops, cost_of(kernel.priced).bytes_moved) == (cost_of(twice).flops, cost_of(twice).bytes_moved)
    assert compiled.priced is compiled


def test_kernels_of_different_python_are_different() -> None:
    traced = kernel_of("one", lambda a: [a + 1.0], AVALS[1:])

    def adding(n: float) -> Any:
        call = PythonCall(lambda arrays: [arrays[0] + n], AVALS[1:], traced.closed)
        return kernel_of("one", lambda a: bind_python(call, [a]), AVALS[1:])

    assert [float(adding(n)(jnp.zeros(9))[0][0]) for n in (1.0, 2.0)] == [1.0, 2.0]


def test_python_goes_with_the_kernel_that_calls_it() -> None:
    class Model:
        """What a step knows."""

        def __call__(self, arrays: Any) -> Any:
            return [arrays[0] + 1.0]

    def ran() -> weakref.ref[Model]:
        model = Model()
        call = PythonCall(model, AVALS[1:], kernel_of("one", lambda a: [a + 1.0], AVALS[1:]).closed)
        kernel = kernel_of("one", lambda a: bind_python(call, [a]), AVALS[1:])
        assert float(kernel(jnp.zeros(9))[0][0]) == 1.0
        return weakref.ref(model)

    known = ran()
    gc.collect()
    assert known() is None
