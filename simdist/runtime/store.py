"""The store: reads and assignments of variables from outside of a step.

A look takes no virtual time and is recorded as an observation; an assignment from the notebook happens at once. Both see exactly
the version that the schedule has reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import jax
import numpy as np

from simdist.program.arrays import Array, Arrays, HostArray
from simdist.program.kernels import kernel_of
from simdist.program.values import snapshot
from simdist.runtime.base import Engine
from simdist.variables.aggregation import increment_of_sum, no_combination
from simdist.variables.state import Cell, Layout
from simdist.variables.variable import OwningStrategy, Placement, Variable

__all__ = ["Store"]


class Store:
    """The variables of one strategy, for code outside of a step.

    Args:
        engine: keeps the values.
        observed: called at each read from outside, with the name of the variable.
        strategy: whose variables they are.
    """

    def __init__(self, engine: Engine, observed: Callable[[str], None], strategy: OwningStrategy | None = None) -> None:
        self.engine = engine
        self.strategy = strategy
        self.layout = Layout(engine.versions)
        self.observed = observed

    def observe(self, variable: Variable) -> Array:
        """The present value of a variable.

        Raises:
            UnavailableError: a task that held a part of it has died.
        """
        placement: Placement = variable.placement
        self._require_own(variable)
        self.observed(variable.name)
        if placement.across is not None:
            return placement.across(variable)
        if placement.spread == "copies" or len(placement.cells) == 1:
            return self._array(placement.cells[0])
        arrays = [parts[cell.position] for cell, parts in zip(placement.cells, self._read(placement.cells), strict=True)]
        if placement.spread == "shards":
            return np.concatenate([np.asarray(array) for array in arrays], axis=0)
        if placement.combine == "first":
            return arrays[0]
        if placement.combine == "none":
            raise no_combination(variable)
        total = cast(HostArray, sum(np.asarray(array) for array in arrays))
        return total / len(arrays) if placement.combine == "mean" else total

    def compute(self, variables: Sequence[Variable]) -> None:
        """Compute the present values of several variables in one go, before they are read one after the other."""
        if self.engine.numerics != "off":
            self._read([cell for variable in variables for cell in variable.placement.cells])

    def cell_value(self, variable: Variable, cell: Cell) -> Array:
        """The present value of one cell of a variable."""
        self.observed(variable.name)
        return self._array(cell)

    def _array(self, cell: Cell) -> Array:
        return self._read([cell])[0][cell.position]

    def _read(self, cells: Sequence[Cell]) -> list[Arrays]:
        return self.engine.read([cell.group.number for cell in cells])

    def update(self, rule: str, variables: Sequence[Variable], operands: Sequence[Array]) -> None:
        """Assign to variables, or add to them, at once."""
        for variable, operand in zip(variables, map(snapshot, operands), strict=True):
            placement: Placement = variable.placement
            self._require_own(variable)
            summed = placement.combine == "sum"
            if summed and rule == "add":
                raise increment_of_sum(variable)
            for cell in placement.cells:
                part = operand if cell.rows is None else operand[cell.rows[0] : cell.rows[1]]
                if summed:
                    assert self.strategy is not None
                    part = _share(part, cell.replica or 0, self.strategy.num_replicas_in_sync)
                self._change(rule, cell, part)

    def _require_own(self, variable: Variable) -> None:
        """Refuse a read or an assignment by a replica of another strategy."""
        if self.strategy is not None:
            self.strategy.require_own_run(variable)

    def _change(self, rule: str, cell: Cell, operand: Array) -> None:
        avals = cell.group.avals
        position, size = cell.position, len(avals)

        def run(*arrays: jax.Array) -> list[jax.Array]:
            state = list(arrays[:size])
            state[position] = arrays[size] if rule == "assign" else state[position] + arrays[size]
            return state

        kernel = kernel_of(rule, run, [*avals, cell.aval])
        self.engine.assign(cell.group.number, kernel, operand, f"{rule} {cell.name}")


def _share(value: Array, replica: int, num_replicas: int) -> Array:
    """The share that a replica holds of a value that is the sum of all: an equal part; for whole numbers the first has the rest."""
    if np.issubdtype(np.dtype(value.dtype), np.integer):
        part = value // num_replicas
        return part + value % num_replicas if replica == 0 else part
    return value / num_replicas
