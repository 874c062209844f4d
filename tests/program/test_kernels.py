"""Kernels: one of each structure, and which of them are compiled with fusion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdist import keras
from simdist.collectives import ALL_REDUCE, run_schedule
from simdist.program.fusion import only_adds
from simdist.program.kernels import kernel_of
from simdist.program.values import Aval
from simdist.runtime.combining import added_stacks


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


@pytest.mark.parametrize(("kind", "options"), [("Adam", {}), ("SGD", {"momentum": 0.9}), ("RMSprop", {"centered": True})])
def test_rules_of_optimizers_have_the_bits_that_they_have_without_fusion(kind: str, options: dict[str, Any]) -> None:
    rule = getattr(keras.optimizers, kind)(**options)
    rng, shapes = np.random.default_rng(0), [(50, 33), (7,), ()]
    rule.build([keras.Variable(np.ones(shape, np.float32)) for shape in shapes])
    state = [np.asarray(variable.value) for variable in rule.variables]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes * 2]

    def update(*flat: Any) -> Any:
        weights, gradients = flat[:3], flat[3:6]
        return [part for parts in rule.stateless_apply(list(flat[6:]), list(gradients), list(weights)) for part in parts]

    arrays.extend(state)
    kernel = kernel_of("rule", update, [Aval(array.shape, str(array.dtype)) for array in arrays])
    assert kernel.is_fused
    for _ in range(3):
        once, apart = kernel(*arrays), kernel.jitted(*arrays)
        assert [np.asarray(array).tobytes() for array in once] == [np.asarray(array).tobytes() for array in apart]
        arrays = [*map(np.asarray, once[:3]), *(np.roll(array, 1) for array in arrays[3:6]), *map(np.asarray, once[3:])]


def test_a_kernel_keeps_the_numbers_that_it_had_when_it_was_traced() -> None:
    rate, avals = np.array(1.0, np.float32), [Aval((2,), "float32")]
    kernel = kernel_of("f", lambda x: (x * rate,), avals)
    rate *= 2.0
    (result,) = kernel(np.ones(2, np.float32))
    assert result.tolist() == [1.0, 1.0]
    assert kernel_of("f", lambda x: (x * np.float32(1.0),), avals) is kernel is not kernel_of("f", lambda x: (x * rate,), avals)
