"""A step is cut into kernels at its markers; each kernel still knows which lines of the user it comes from."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core as jex_core

import simdist as sd
from simdist.program.cutting import cut
from simdist.program.operations import Compute, Read, Return, Update, VariableHandle
from simdist.program.tracing import Tracer
from simdist.program.values import Aval

unknown = jex_core.Primitive("known_to_no_compiler")
unknown.def_abstract_eval(lambda x: x)


class Handle(VariableHandle):
    """Stands for a variable."""

    aval = Aval((2,), "float32")  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]


def program(step: Any) -> Any:
    tracer = Tracer()
    return cut("step", tracer.trace(lambda: step(tracer)), tracer.markers, lambda arrays: arrays)


def line_of(marker: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))


def test_each_stage_is_its_markers_and_then_one_kernel_whose_numbers_are_those_of_the_step() -> None:
    first, second = Handle(), Handle()

    def step(tracer: Any) -> list[Any]:
        doubled = tracer.read(first) * 2.0
        tracer.update("assign", [second], [doubled + 1.0])
        return [tracer.read(second) * doubled]

    operations = program(step).operations
    assert [type(op) for op in operations] == [Read, Compute, Update, Read, Compute, Return]
    one, other = (op.kernel for op in operations if isinstance(op, Compute))
    x = np.array([1.0, 3.0], np.float32)
    doubled, assigned = sorted((np.asarray(array) for array in one(x)), key=lambda array: array[0])
    np.testing.assert_array_equal([doubled, assigned], [x * 2, x * 2 + 1])
    (result,) = other(*(assigned if aval == Handle.aval and number == 0 else doubled for number, aval in enumerate(other.in_avals)))
    np.testing.assert_array_equal(result, assigned * doubled)


@pytest.mark.parametrize("last_use", ["a result that is used in its stage again", "an effect without results"])
def test_what_a_later_kernel_takes_is_a_result_of_an_earlier_one(last_use: str) -> None:
    first, second = Handle(), Handle()

    def step(tracer: Any) -> list[Any]:
        doubled = tracer.read(first) * 2.0
        tracer.update("assign", [second], [doubled + 1.0])
        if last_use == "an effect without results":
            jax.debug.callback(lambda *_: None, doubled, tracer.read(second))
            return []
        return [tracer.read(second) * doubled, doubled * 3.0]

    known: set[int] = set()
    for op in program(step).operations:
        if isinstance(op, Compute):
            assert known.issuperset(op.inputs)
        known.update(op.outputs if isinstance(op, Compute) else [op.output] if isinstance(op, Read) else [])


def test_a_compiled_kernel_names_the_users_line() -> None:
    def step(tracer: Any) -> list[Any]:
        return [jnp.sin(tracer.read(Handle()))]  # the sine

    (kernel,) = (op.kernel for op in program(step).operations if isinstance(op, Compute))
    text = kernel.jitted.lower(jax.ShapeDtypeStruct((2,), "float32")).as_text(debug_info=True)
    assert f'"{__file__}":{line_of("the sine")}:' in text


def test_an_operation_that_cannot_be_compiled_is_told_with_the_users_line() -> None:
    strategy = sd.OneDeviceStrategy()
    with strategy.scope():
        variable = sd.Variable(np.ones(2, np.float32))

    @sd.function
    def step() -> Any:
        return strategy.run(lambda: unknown.bind(variable.value))  # no compiler

    with pytest.raises(NotImplementedError, match="known_to_no_compiler") as raised:
        float(step()[0])
    told = "".join(traceback.format_exception(raised.value))
    assert f'"{__file__}", line {line_of("no compiler")}' in told


def test_a_read_comes_after_the_updates_of_what_overlaps_with_its_variable() -> None:
    whole, shard, other = Handle(), Handle(), Handle()
    whole.overlapping = lambda: (shard,)  # pyright: ignore[reportAttributeAccessIssue]
    tracer = Tracer()

    def step() -> Any:
        tracer.update("assign", [whole], [tracer.read(whole) + 1.0])
        return [tracer.read(shard), tracer.read(other)]

    traced = cut("step", tracer.trace(step), tracer.markers, list)
    kinds = [(type(op).__name__, op.variable) if isinstance(op, Read) else (type(op).__name__, None) for op in traced.operations]
    assert [kind for kind, _ in kinds] == ["Read", "Read", "Compute", "Update", "Read", "Return"]
    assert kinds[4][1] is shard and {id(kinds[0][1]), id(kinds[1][1])} == {id(whole), id(other)}
