"""Updates of some elements of a variable: the task that holds it combines only these with the given values.

A read of the variable and an assignment of all of it would undo what other workers change in between. So what a step sends is a value
and a mask for each cell, and the holder applies both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from simdist.program.kernels import Kernel, kernel_of
from simdist.program.operations import VariableHandle
from simdist.program.tracing import Tracer
from simdist.program.values import Aval
from simdist.variables.layout import Layout
from simdist.variables.state import Cell, Group, Owner
from simdist.variables.update_rule import UpdateRule

__all__ = ["MASKED", "MaskedRule", "update_masked"]

Combine = Callable[[jax.Array, jax.Array], jax.Array]


class MaskedRule(UpdateRule):
    """Where a mask is set, an element becomes a combination of itself and of the given one.

    An update names each variable twice: its operands are first the values and then the masks, each of the variable's shape.

    Args:
        name: of the kernel.
        combine: (stored, given) -> new, element by element.
    """

    combination = "each"  # an average of values and masks would be none of them

    def __init__(self, name: str, combine: Combine) -> None:
        self.name = name
        self.combine = combine

    def __repr__(self) -> str:
        return f"MaskedRule({self.name!r})"

    def join(self, owner: Owner, variables: Sequence[VariableHandle], cells: list[tuple[int, Cell]], layout: Layout) -> None:
        layout.join([cell for _, cell in cells[: len(cells) // 2]])

    def kernel(self, group: Group, positions: Sequence[int], operand_avals: Sequence[Aval]) -> Kernel:
        num_cells, half = len(group.cells), len(positions) // 2

        def run(*arrays: jax.Array) -> list[jax.Array]:
            cells, operands = list(arrays[:num_cells]), arrays[num_cells:]
            for position, value, mask in zip(positions, operands[:half], operands[half:], strict=False):
                cells[position] = jnp.where(mask, self.combine(cells[position], value).astype(value.dtype), cells[position])
            return cells

        return kernel_of(self.name, run, [*(cell.aval for cell in group.cells), *operand_avals])


MASKED = {
    "set": MaskedRule("assign to rows", lambda stored, given: given),
    "max": MaskedRule("maximum of rows", jnp.maximum),
    "min": MaskedRule("minimum of rows", jnp.minimum),
    "multiply": MaskedRule("multiply rows", jnp.multiply),
    "divide": MaskedRule("divide rows", jnp.divide),
}
"""The rules, by the methods of ``array.at[rows]`` that they stand for."""


def update_masked(
    tracer: Tracer, how: str, variables: Sequence[VariableHandle], values: Sequence[jax.Array], masks: Sequence[jax.Array]
) -> None:
    """Note an update of some elements of variables in a step.

    Args:
        tracer: of the step.
        how: a name of `MASKED`.
        variables: that change.
        values, masks: one of each for every variable, both of its shape.
    """
    tracer.update(MASKED[how], [*variables, *variables], [*values, *masks])
